"""Any provider of Vectorize's agent-memory-benchmark, as it is.

Install the packages of the provider with pip.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from harness.errors import UsageError
from harness.extensions.integrations.memories.session_feed import line, role
from harness.io.files import TemporaryFolder
from harness.retrievers.calls import await_result
from harness.retrievers.contract import Corpus, Hit, Question
from harness.retrievers.corpus import is_handle
from harness.schema import Document, as_datetime

_NAMED = re.compile(r"doc[_ ]?id\W{1,4}(d\d+)\b", re.IGNORECASE)
"""A document id in a text, as in results of providers that return ids of other objects."""


@dataclass
class AmbDocument:
    """Document class for providers without a suitable one in their module."""

    id: str
    content: str
    user_id: str | None = None
    messages: list[dict[str, str]] | None = None
    timestamp: str | None = None
    context: str | None = None


class Amb:
    """Adapter of any memory provider of Vectorize's agent-memory-benchmark.

    `provider` is its class, `file.py:Class` or `package.module:Class`; `options` are passed to its
    constructor. Each haystack has a separate provider, folder and `user_id`; each document is
    converted to the provider's class, with text, speaker and time. Results are matched by id, by
    `source_ids`, by the id in their text, or else by the text.
    """

    def __init__(self, provider: str, options: Mapping[str, object] | None = None) -> None:
        from harness.retrievers.registry import find

        if ":" not in provider:
            raise UsageError(
                f"retriever Amb: provider={provider!r}: name its class, as "
                "memory_bench.memory.bm25:BM25MemoryProvider, or file.py:Class"
            )
        found: Any = find(provider)
        lacking = [name for name in ("ingest", "retrieve") if not hasattr(found, name)]
        if lacking:
            raise UsageError(
                f"retriever Amb: {provider} has no {lacking[0]}(): it is no MemoryProvider"
            )
        self._make: Callable[..., Any] = found
        theirs: Any = getattr(sys.modules[found.__module__], "Document", AmbDocument)
        self._document: Any = theirs if _takes(theirs, "user_id") else AmbDocument
        self._options = dict(options or {})
        self._provider: Any = None

    def index(self, corpus: Corpus) -> None:
        """Starts a provider in an empty folder, and ingests the documents in time order."""
        self.close()
        self._folder = TemporaryFolder("amb")
        self._user = f"haystack-{uuid4().hex}"
        self._provider = self._make(**self._options)
        for name, given in (
            ("initialize", {}),
            ("prepare", {"store_dir": Path(self._folder.name), "unit_ids": {self._user}}),
        ):
            if hasattr(self._provider, name):
                _call(getattr(self._provider, name), **given)
        self._handles = set(corpus.handles)
        if len(corpus):
            await_result(self._provider.ingest([self._told(document) for document in corpus]))

    def search(self, queries: Sequence[Question], k: int) -> list[list[Hit]]:
        """Returns at most k results of the provider per question."""
        return [self._ask(query, k) if self._handles else [] for query in queries]

    def close(self) -> None:
        """Calls the provider's cleanup, and removes its folder."""
        provider, self._provider = self._provider, None
        if provider is None:
            return
        if hasattr(provider, "cleanup"):
            _call(provider.cleanup)
        self._folder.cleanup()

    def _told(self, document: Document) -> Any:
        message = {"role": role(document), "content": line(document)}
        stamp = document.timestamp
        given = {
            "id": document.id,
            "content": line(document),
            "user_id": self._user,
            "messages": [message],
            "timestamp": None if stamp is None else as_datetime(stamp).isoformat(),
            "context": None,
        }
        return _call(self._document, **given)

    def _ask(self, query: Question, k: int) -> list[Hit]:
        stamp = query.timestamp
        found = _call(
            self._provider.retrieve,
            query.text,
            k=k,
            user_id=self._user,
            query_timestamp=None if stamp is None else as_datetime(stamp).isoformat(),
        )
        # (documents, raw response of the provider's API)
        documents: Iterable[Any] = found[0] if isinstance(found, tuple) else found
        return [self._hit(one) for one in documents][:k]

    def _hit(self, document: Any) -> Hit:
        sources = [document.id, *(getattr(document, "source_ids", None) or [])]
        known = [source for source in sources if is_handle(source)]
        if not known:
            known = [one for one in _NAMED.findall(document.content) if one in self._handles]
        return Hit(document.content, [*dict.fromkeys(known)])


def _call(function: Callable[..., Any], *first: Any, **given: Any) -> Any:
    """Calls a function with the arguments that it accepts, which differ between versions."""
    known = {name: value for name, value in given.items() if _takes(function, name)}
    return await_result(function(*first, **known))


def _takes(function: Callable[..., Any], name: str) -> bool:
    taken = inspect.signature(function).parameters
    return name in taken or any(one.kind is one.VAR_KEYWORD for one in taken.values())
