"""Any provider of Vectorize's agent-memory-benchmark, as it is.

pip install the packages of the provider
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
from harness.retrievers.calls import awaited
from harness.retrievers.contract import Corpus, Hit, Question
from harness.retrievers.corpus import is_handle
from harness.schema import Document, as_datetime

_NAMED = re.compile(r"doc[_ ]?id\W{1,4}(d\d+)\b", re.IGNORECASE)
"""A document that a provider names within its text, as those do that return ids of their own."""


@dataclass
class AmbDocument:
    """What a provider is told, where its module has no class `Document` to make it of."""

    id: str
    content: str
    user_id: str | None = None
    messages: list[dict[str, str]] | None = None
    timestamp: str | None = None
    context: str | None = None


class Amb:
    """Any memory provider of Vectorize's agent-memory-benchmark, as it is.

    `provider` names its class, `file.py:Class` or `package.module:Class`; `options` are handed to
    its constructor. Each haystack has a provider, a folder and a `user_id` of its own; each
    document is told as one of theirs, with the text, who said it and when. What comes back is known
    again by its id, its `source_ids`, or the id in its text, and else by the text.
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
        """Begin a provider in an empty folder, and tell it the documents in time order."""
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
            awaited(self._provider.ingest([self._told(document) for document in corpus]))

    def search(self, queries: Sequence[Question], k: int) -> list[list[Hit]]:
        """What the provider retrieves, at most k a question."""
        return [self._ask(query, k) if self._handles else [] for query in queries]

    def close(self) -> None:
        """Let the provider clean up, and remove its folder."""
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
        # (documents, what the provider's own API said)
        documents: Iterable[Any] = found[0] if isinstance(found, tuple) else found
        return [self._hit(one) for one in documents][:k]

    def _hit(self, document: Any) -> Hit:
        sources = [document.id, *(getattr(document, "source_ids", None) or [])]
        known = [source for source in sources if is_handle(source)]
        if not known:
            known = [one for one in _NAMED.findall(document.content) if one in self._handles]
        return Hit(document.content, [*dict.fromkeys(known)])


def _call(function: Callable[..., Any], *first: Any, **given: Any) -> Any:
    """Call it with what it has parameters for: they came one after the other over the years."""
    known = {name: value for name, value in given.items() if _takes(function, name)}
    return awaited(function(*first, **known))


def _takes(function: Callable[..., Any], name: str) -> bool:
    taken = inspect.signature(function).parameters
    return name in taken or any(one.kind is one.VAR_KEYWORD for one in taken.values())
