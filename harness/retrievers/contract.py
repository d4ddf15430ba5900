"""Interface between the harness and a retriever: its inputs and its results.

A minimal retriever is a class with the two methods of `Retriever`; `search` may return lists of
handles (`document.id`) or of positions; see docs/tutorials/my-memory-under-test.md. The other
protocols are optional. Every method may return an awaitable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from harness.retrievers.corpus import Corpus as Corpus
from harness.schema import Document


@dataclass(frozen=True, slots=True)
class Question:
    """The part of a query that a retriever sees: text, time (seconds, see schema), and who asks.

    `user_id` may read the documents with this `user_id`, with one of `groups`, or with none. Only
    datasets with users have it; the names are opaque, as handles are.
    """

    text: str
    timestamp: int | None = None
    user_id: str | None = None
    groups: tuple[str, ...] = ()

    def may_read(self, document: Document) -> bool:
        """Returns whether the user who asks may read a document."""
        return self.user_id is None or document.user_id in (None, self.user_id, *self.groups)

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"a query has only .text, .timestamp, .user_id and .groups, no .{name}; ids and gold "
            "labels are hidden"
        )


@runtime_checkable
class Retriever(Protocol):
    """The system under test. It sees texts, titles, dates, speakers and opaque handles.

    It never sees dataset ids, qrels, answers, or an order that depends on the qrels: dated
    documents are in time order, undated ones are shuffled. If `search` has a parameter `user_id`,
    it receives that of the questions, and all questions of a call have the same user and groups.
    """

    def index(self, corpus: Corpus) -> None:
        """Indexes a corpus, replacing any earlier one."""
        ...

    def search(self, queries: Sequence[Question], k: int) -> Sequence[Found]:
        """Returns one result per question, of at most k documents, best first."""
        ...


# ---- What `search` may return


@dataclass(frozen=True, slots=True)
class Hit:
    """A text that the system returns instead of documents, such as a fact or a chunk.

    `sources` are the documents that it was made from, as handles or positions, the most important
    first. If they are empty or unknown, the harness searches for the documents by the text; the
    handle of a session (`document.session`) limits that search to its documents.
    """

    text: str = ""
    sources: Sequence[str | int] = ()
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one question, best first.

    `ids` are handles (str) or positions in the corpus (int, or an integer array). `scores`, if any,
    align with them; higher is better. `ranked_by` (`order` or `score`) selects which one counts if
    they contradict each other; without it and that of the retriever, such a result is an error.
    `confidence` is the system's confidence that there is an answer (any scale, higher is surer);
    `abstain` is true if it finds none. Systems that return their own texts give `hits` instead of
    ids and scores. `answer` is the system's own answer, which `harness answer` uses and judges.
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
"""Result of `search` for a question: a Result, ids, hits, (id, score) pairs, or {id: score}.

Hits may be dicts with a `text` or `memory`, LangChain documents or LlamaIndex nodes; -1 in an array
of positions means no document.
"""


# ---- Optional protocols


class StreamingRetriever(Protocol):
    """A memory that ingests a haystack session by session: `reset` and `add` replace `index`.

    With `--as-of`, `search` is called between sessions, at each question's time. `update` and
    `delete` are optional. Retrievers with `index` find changes in `corpus.changes`.
    """

    def reset(self) -> None:
        """Starts an empty haystack; `reset(self, namespace)` also gets `Corpus.namespace`."""
        ...

    def add(self, documents: Sequence[Document]) -> None:
        """Adds the documents of one session; sessions are added in time order."""
        ...

    def update(self, handle: str, document: Document) -> None:
        """Replaces an added document by another."""
        ...

    def delete(self, handle: str) -> None:
        """Forgets an added document."""
        ...

    def search(self, queries: Sequence[Question], k: int) -> Sequence[Found]:
        """Returns one result per question, as a `Retriever` does."""
        ...


class PersistentRetriever(Retriever, Protocol):
    """A retriever with a persistent index: it has `save` and `load`, or `has_index`.

    The harness stores the saved folder in its cache. `search_params` names the parameters that only
    affect `search`; they are not part of the index's key.
    """

    search_params: Sequence[str]

    def save(self, folder: Path) -> None:
        """Writes the index to an empty folder."""
        ...

    def load(self, folder: Path) -> None:
        """Loads an index that `save` wrote; called instead of `index`."""
        ...

    def has_index(self, key: str) -> bool:
        """Returns whether the system's own store has the index of this key.

        If so, neither `index` nor `ready` is called, unless an earlier call for this key did not
        return. The next call of `index` is for this key. The method may take the corpus as a second
        argument.
        """
        ...


class Capabilities(Protocol):
    """Optional attributes and methods of retrievers.

    Those for running in shards (`--backend ray`) are in extensions/cluster/shards.py.
    """

    name: str
    """Name in results; for objects passed to `run`."""
    version: str
    revision: str
    """Identifies the model's weights or the code."""
    params: Mapping[str, Any]
    """Settings (JSON values) that identify the runs of an object passed to `run`."""
    batch_size: int
    """Maximum number of questions per call of `search`; 1 if absent."""
    ranked_by: str
    """Default for every result; see `Result`."""
    thread_safe: bool
    """Whether `search` may be called from several threads (`--concurrency N`).

    An asynchronous `search` runs several calls at once in its event loop instead; its default is
    true, that of others false.
    """
    ready_timeout: float
    """Seconds until `ready` must be true; 600 if absent."""

    def set_params(self, **params: Any) -> None:
        """Sets parameters that do not affect the index, so that a sweep indexes once."""
        ...

    def report(self) -> Mapping[str, Any]:
        """Returns the system's counters so far; called after every potentially long call.

        `calls`, `prompt_tokens`, `completion_tokens`, `embedded_tokens` and `usd` (US dollars) are
        totals since the start; `calls_without_usage` counts calls that did not report their usage.
        """
        ...

    def ready(self) -> bool:
        """Returns whether all indexed documents can be found; polled until it is true."""
        ...

    def release(self) -> bool:
        """Releases a shared resource, such as a service that holds one haystack at a time.

        Returns whether the corpus must be indexed again afterwards.
        """
        ...

    def close(self) -> None:
        """Closes the retriever after the last question; not called in Ray, which ends processes."""
        ...
