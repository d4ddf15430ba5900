"""What the bridges share: how something is built from documents, and what comes back of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from harness.errors import UsageError
from harness.retrievers.contract import Hit
from harness.schema import Document, as_datetime

HANDLE, HAYSTACK = "handle", "haystack"
"""Keys of a document's metadata: by these a hit is known again."""


class Builder:
    """Builds something that retrieves, with what the harness has to offer and it asks for.

    `build` names a function, `file.py:function` or `package.module:function`, or a class with
    `from_documents`. It is called with the documents, with `options`, and with what else the
    harness has to offer where it has a parameter for it: embeddings, by one of the names in
    `embeddings`, and a `collection_name` that nobody else uses (stores of one process, such as
    Chroma's, share what has one name).
    """

    def __init__(
        self, build: str, options: Mapping[str, object] | None, embeddings: Sequence[str]
    ) -> None:
        """Raises UsageError for a `build` that is not there and for options it does not take."""
        from harness.retrievers.registry import find

        if ":" not in build:
            raise UsageError(
                f"build={build!r}: name a function of documents, --param build=my.py:make, or a "
                "class with from_documents, --param build=package.module:Class"
            )
        found = find(build)
        self._call: Callable[..., Any] = getattr(found, "from_documents", found)
        # Of classes, from_documents often hands on to the constructor what it does not name.
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
        """Whether it has a parameter for them, and the options do not fill it."""
        return self._embeddings is not None and self._embeddings not in self._options

    def __call__(self, documents: list[Any], embeddings: Any, haystack: str) -> Any:
        """What is built. `embeddings` is used where they are wanted."""
        given: dict[str, object] = {}
        if self._embeddings is not None:
            given[self._embeddings] = embeddings
        if self._names_collection:
            given["collection_name"] = f"harness-{haystack}"
        return self._call(documents, **{**given, **self._options})


def metadata(document: Document, haystack: str) -> dict[str, object]:
    """What a document says of itself, as plain values; what is not known is not there."""
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
    """A hit on the document that its metadata names, else on whatever holds its text.

    Raises RuntimeError where it is of another haystack: the store kept what it should have lost.
    """
    if about.get(HAYSTACK, haystack) != haystack:
        raise RuntimeError(
            "a hit is of an earlier haystack: let `build` make a new and empty store each time"
        )
    sources = (str(about[HANDLE]),) if HANDLE in about else ()
    return Hit(text, sources, score)


def hits(
    found: Sequence[tuple[str, Mapping[str, object], float | None]], haystack: str
) -> list[Hit]:
    """Text, metadata and score of each as hits; without scores where those are not `falling`."""
    scored = falling([score for *_, score in found])
    return [hit(text, about, haystack, score if scored else None) for text, about, score in found]


T = TypeVar("T")


def no_more_than(n: int, k: int, ask: Callable[[int], T]) -> T:
    """What `ask` finds for k; where it fails on more than the n documents that there are, for n.

    LlamaIndex's BM25, faiss and hnswlib cannot be asked for more than they hold.
    """
    try:
        return ask(k)
    except (ValueError, RuntimeError, AssertionError, IndexError):
        if k <= n:
            raise
        return ask(n)


def falling(scores: Sequence[float | None]) -> bool:
    """Whether they can be scores, of which the higher is the better, of a list that is best first.

    Distances rise, and some stores give none: then no score is better than a wrong one.
    """
    known = [score for score in scores if score is not None]
    return len(known) == len(scores) and all(above >= below for above, below in pairwise(known))


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # built in, without a signature
        return {}
