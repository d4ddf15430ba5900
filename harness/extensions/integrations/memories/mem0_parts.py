"""What stands between mem0 and its models: the date of what is said, and no failure unseen."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable
from datetime import date
from typing import Any

import numpy as np

from harness.io.masking import excerpt

_DATES = re.compile(r"^## (Observation|Current) Date\n.*$", re.MULTILINE)


_SAID: set[str] = set()


def say_once(logger: str) -> None:
    """Let a logger give each of its messages once: every haystack has a store of its own."""
    logging.getLogger(logger).addFilter(_first)


def _first(record: logging.LogRecord) -> bool:
    known = record.getMessage() in _SAID
    _SAID.add(record.getMessage())
    return not known


class Extractor:
    """mem0's language model, told the dataset's date instead of today's, and its answers checked.

    mem0's prompt has a place for the date of a conversation; its open-source package writes today
    there. It also takes an answer that is no JSON, or of another form, for one without a fact.
    `failure` is the last exception, since mem0 may log it and go on.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        self.config = model.config
        self.date: date | None = None
        self.failure: Exception | None = None

    def generate_response(self, messages: list[dict[str, str]], **rest: Any) -> str:
        """The model's answer. Raises ValueError for one that does not say what is remembered."""
        try:
            *before, last = messages
            dated = {**last, "content": self._dated(last["content"])}
            answer = str(self._model.generate_response(messages=[*before, dated], **rest) or "")
            check_extraction(answer)
        except Exception as error:
            self.failure = error
            raise
        return answer

    def _dated(self, prompt: str) -> str:
        day = "unknown" if self.date is None else self.date.isoformat()
        if _DATES.search(prompt):
            return _DATES.sub(lambda match: f"## {match[1]} Date\n{day}", prompt)
        return f"## Observation Date\n{day}\n\n{prompt}"


def check_extraction(answer: str) -> None:
    """Raises ValueError unless `answer` has mem0's form: {"memory": [{"text": ...}, ...]}."""
    from mem0.memory.utils import extract_json, remove_code_blocks

    try:
        memories = json.loads(extract_json(remove_code_blocks(answer)), strict=False)["memory"]
        good = isinstance(memories, list) and all(isinstance(m.get("text"), str) for m in memories)
    except (ValueError, KeyError, TypeError, AttributeError):
        good = False
    if not good:
        raise ValueError(f"the model's extraction is not what mem0 asks for: {excerpt(answer)}")


class Embedding:
    """mem0's embedding model, or `own` in its place; `failure` is the last exception."""

    def __init__(self, model: Any, own: Callable[[list[str]], Any] | None) -> None:
        self._model = model
        self._own = own
        self.config = model.config
        self.failure: Exception | None = None

    def embed(self, text: str, memory_action: Any = None) -> list[float]:
        """The vector of one text."""
        return self.embed_batch([text], memory_action)[0]

    def embed_batch(self, texts: list[str], memory_action: Any = "add") -> list[list[float]]:
        """The vectors of some texts."""
        try:
            if self._own is None:
                vectors: list[list[float]] = self._model.embed_batch(texts, memory_action)
            else:
                vectors = np.asarray(self._own(texts), float).tolist()
        except Exception as error:
            self.failure = error
            raise
        return vectors
