"""Shared parts of the bridges: building from documents, and converting results to hits."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from harness.errors import UsageError
from harness.retrievers.contract import Hit
from harness.schema import Document, as_datetime

HANDLE, HAYSTACK = "handle", "haystack"
"""Metadata keys of a document, used to recognise it in a hit."""


class Builder:
    """Calls a user's build function with the arguments that it accepts.

    `build` is a function, `file.py:function` or `package.module:function`, or a class with
    `from_documents`. It receives the documents and `options`, and, if it has a parameter for them,
    embeddings (under a name in `embeddings`) and a unique `collection_name` (stores such as
    Chroma's share collections of one name within a process).
    """

    def __init__(
        self, build: str, options: Mapping[str, object] | None, embeddings: Sequence[str]
    ) -> None:
        """Raises UsageError if `build` is not found or does not accept the options."""
        from harness.retrievers.registry import find

        if ":" not in build:
            raise UsageError(
                f"build={build!r}: pass a function of documents, --param build=my.py:make, or a "
                "class with from_documents, --param build=package.module:Class"
            )
        found = find(build)
        self._call: Callable[..., Any] = getattr(found, "from_documents", found)
        # from_documents of a class often passes unknown options to the constructor.
        taken = {**_parameters(found), **_parameters(self._call)}
        self._options = dict(options or {})
        self._embeddings = next((name for name in embeddings if name in taken), None)
        self._names_collection = "collection_name" in taken
        free = any(p.kind is p.VAR_KEYWORD for p in taken.values())
        unknown = [name for name in self._options if name not in taken]
        if unknown and not free:
            raise UsageError(f"build={build!r} has no parameter {unknown[0]!r}")

    @property
    def wants_embeddings(self) -> bool:
        """Returns whether the function takes embeddings that the options do not set."""
        return self._embeddings is not None and self._embeddings not in self._options

    def __call__(self, documents: list[Any], embeddings: Any, haystack: str) -> Any:
        """Builds the object; `embeddings` is passed if wanted."""
        given: dict[str, object] = {}
        if self._embeddings is not None:
            given[self._embeddings] = embeddings
        if self._names_collection:
            given["collection_name"] = f"harness-{haystack}"
        return self._call(documents, **{**given, **self._options})


def metadata(document: Document, haystack: str) -> dict[str, object]:
    """Returns the known metadata of a document as plain values."""
    known = {
        HANDLE: document.id,
        HAYSTACK: haystack,
        "timestamp": (
            None if document.timestamp is None else as_datetime(document.timestamp).isoformat()
        ),
        "speaker": document.speaker,
        "session": document.session,
        "position": document.position,
    }
    return {key: value for key, value in known.items() if value is not None}


def hit(text: str, about: Mapping[str, object], haystack: str, score: float | None) -> Hit:
    """Returns a hit on the document in the metadata, else on documents that contain the text.

    Raises RuntimeError if the document is from another haystack, because the store was not emptied.
    """
    if about.get(HAYSTACK, haystack) != haystack:
        raise RuntimeError(
            "a hit is from an earlier haystack: let `build` create a new, empty store each time"
        )
    sources = (str(about[HANDLE]),) if HANDLE in about else ()
    return Hit(text, sources, score)


def hits(
    found: Sequence[tuple[str, Mapping[str, object], float | None]], haystack: str
) -> list[Hit]:
    """Converts text, metadata and score to hits; omits scores that are not `falling`."""
    scored = falling([score for *_, score in found])
    return [hit(text, about, haystack, score if scored else None) for text, about, score in found]


T = TypeVar("T")


def no_more_than(n: int, k: int, ask: Callable[[int], T]) -> T:
    """Returns what `ask` finds for k; if that fails and there are only n documents, for n.

    LlamaIndex's BM25, faiss and hnswlib reject a k above the number of documents.
    """
    try:
        return ask(k)
    except (ValueError, RuntimeError, AssertionError, IndexError):
        if k <= n:
            raise
        return ask(n)


def falling(scores: Sequence[float | None]) -> bool:
    """Returns whether values fall, as scores of a best-first list must.

    Distances rise, and some stores return none; then no score is better than a wrong one.
    """
    known = [score for score in scores if score is not None]
    return len(known) == len(scores) and all(above >= below for above, below in pairwise(known))


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # built in, without a signature
        return {}
