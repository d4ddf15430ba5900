"""The contract between the harness and a retriever: what it is given, and what it may return.

A first retriever is a class with the two methods of `Retriever`, which may return lists of handles
(`document.id`) or of positions; see docs/tutorials/my-memory-under-test.md. All that comes after
`Retriever` is optional. Every method may return an awaitable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from harness.retrievers.corpus import Corpus as Corpus
from harness.schema import Document


@dataclass(frozen=True, slots=True)
class Question:
    """What a retriever sees of a query: its text, and when it is asked (seconds, see schema)."""

    text: str
    timestamp: int | None = None


@runtime_checkable
class Retriever(Protocol):
    """The system under test. It sees texts, titles, dates, speakers and opaque handles.

    It never sees an id of the dataset, a judgement, an answer, or an order that depends on the
    judgements: dated documents come in time order, undated ones shuffled.
    """

    def index(self, corpus: Corpus) -> None:
        """Index a corpus, in place of whatever was indexed before."""
        ...

    def search(self, queries: Sequence[Question], k: int) -> Sequence[Found]:
        """Return one result a question, of at most k documents, best first."""
        ...


# ---- What `search` may return


@dataclass(frozen=True, slots=True)
class Hit:
    """A text of the system's own, such as a fact or a chunk, where it returns no documents.

    `sources` are the documents that it was made from, as handles or positions, the most important
    first. Where they are empty or unknown, the harness looks for the documents by the text.
    """

    text: str = ""
    sources: Sequence[str | int] = ()
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one question, best first.

    `ids` are handles (str) or positions in the corpus (int, or an integer array). `scores`, if any,
    align with them; higher is better. If the order contradicts the scores, `ranked_by` says which
    one counts, `order` or `score`; without it, or that of the retriever, such a result is an error.
    `confidence` says how sure the system is that there is an answer at all (any scale, higher is
    surer); `abstain` that it says there is none. A system with texts of its own gives `hits`
    instead of ids and scores. One that answers the question too gives its `answer`, which `harness
    answer` takes and judges.
    """

    ids: Sequence[str] | Sequence[int] | npt.NDArray[np.integer[Any]] = ()
    scores: Sequence[float] | npt.NDArray[np.floating[Any]] | None = None
    confidence: float | None = None
    abstain: bool = False
    hits: Sequence[Hit] | None = None
    answer: str | None = None
    ranked_by: str = ""


Found = (
    Result
    | Sequence[str]
    | Sequence[int]
    | Sequence[Hit]
    | Sequence[tuple[str | int, float]]
    | Mapping[str, float]
)
"""What `search` may return for a question: a Result, ids, hits, (id, score) pairs, {id: score}.

Hits may be dicts with a `text` or `memory`, documents of LangChain, nodes of LlamaIndex; -1 in an
array of positions is no document.
"""


# ---- Further protocols: a retriever may have the methods of each


class StreamingRetriever(Protocol):
    """A memory that is given a haystack session by session: `reset` and `add` replace `index`.

    With `--as-of`, questions are asked between sessions, when their time has come. `update` and
    `delete` may be left out. Retrievers with `index` find changes in `corpus.changes`.
    """

    def reset(self) -> None:
        """Begin an empty haystack."""
        ...

    def add(self, documents: Sequence[Document]) -> None:
        """Add the documents of one session; sessions come in time order."""
        ...

    def update(self, handle: str, document: Document) -> None:
        """Replace an added document by another."""
        ...

    def delete(self, handle: str) -> None:
        """Forget an added document."""
        ...

    def search(self, queries: Sequence[Question], k: int) -> Sequence[Found]:
        """Return one result a question, as a `Retriever` does."""
        ...


class PersistentRetriever(Retriever, Protocol):
    """A retriever whose index outlives the process: it has `save` and `load`, or `has_index`.

    The harness keeps the saved folder in its cache. `search_params` are the
    names of parameters that only `search` depends on; no key depends on them.
    """

    search_params: Sequence[str]

    def save(self, folder: Path) -> None:
        """Write the index to an empty folder."""
        ...

    def load(self, folder: Path) -> None:
        """Read an index that `save` wrote, in place of `index`."""
        ...

    def has_index(self, key: str) -> bool:
        """Return whether the system's own store has the index of this key.

        If so, `index` is not called, unless it did not return when it was called for this key
        before; the next call of `index` is of this key. May take the corpus as a second argument.
        """
        ...


class Capabilities(Protocol):
    """Attributes and methods that any retriever may have; each may be left out.

    What one needs to be run in shards (`--backend ray`) is in extensions/cluster/shards.py.
    """

    name: str
    """The name in results of an object that a program built itself."""
    version: str
    revision: str
    """What fixes the model's weights or the code."""
    params: Mapping[str, Any]
    """Settings (JSON values) of an object that a program built itself; they identify its runs."""
    batch_size: int
    """The number of questions that `search` takes at once; 1 if absent."""
    ranked_by: str
    """Of every result: see `Result`."""
    thread_safe: bool
    """Whether `search` may be called from several threads (`--concurrency N`).

    An asynchronous `search` then has several calls in its loop at once.
    """
    ready_timeout: float
    """Seconds until `ready` must be true; 600 if absent."""

    def set_params(self, **params: Any) -> None:
        """Set parameters that the index does not depend on, so that a sweep indexes once."""
        ...

    def report(self) -> Mapping[str, Any]:
        """Return the system's counters so far; asked for after every call that takes a while.

        `calls`, `prompt_tokens`, `completion_tokens` and `embedded_tokens` are counts since the
        start, and so is `usd`, in US dollars; `calls_without_usage` are calls that did not say what
        they used.
        """
        ...

    def ready(self) -> bool:
        """Return whether all indexed documents can be found; polled until it is true."""
        ...

    def release(self) -> bool:
        """Give up a shared resource, such as a service that holds one haystack at a time.

        Returns whether the corpus must be indexed again afterwards.
        """
        ...

    def close(self) -> None:
        """End the retriever after the last question (not in Ray, whose processes it ends)."""
        ...
