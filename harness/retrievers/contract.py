"""The contract between the harness and what is under test, on one page.

A retriever is a class with `index(corpus)` and `search(queries, k)`. It sees texts, titles, dates,
speakers and opaque handles; never an id of the dataset, a judgement, an answer, a category, nor an
order that depends on the gold. Dated documents come in time order, undated ones shuffled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from harness.retrievers.corpus import Corpus

__all__ = [
    "Corpus",
    "Found",
    "Hit",
    "Question",
    "Result",
    "Retriever",
]


@dataclass(frozen=True, slots=True)
class Question:
    """What a retriever sees of a query: its text, and when it is asked (seconds, see schema)."""

    text: str
    timestamp: int | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """What a system returns that keeps no documents but texts of its own: a fact, a chunk.

    `sources` are the documents that it was made from, as handles or positions, the most important
    first. Where they are empty or unknown, the harness looks for the documents by the text.
    """

    text: str = ""
    sources: Sequence[str | int] = ()
    score: float | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The answer to one question, best first.

    `ids` are handles (str) or positions in the corpus (int, or an integer array). `scores`, if any,
    align with them; where they rise, the harness sorts by them. `confidence` says how sure the
    system is that there is an answer at all (any scale, higher is surer); `abstain` that it says
    there is none. A system with texts of its own gives `hits` instead of ids and scores. One that
    answers the question too gives its `answer`, which `harness answer` takes and judges.
    """

    ids: Sequence[str] | Sequence[int] | npt.NDArray[np.integer[Any]] = ()
    scores: Sequence[float] | npt.NDArray[np.floating[Any]] | None = None
    confidence: float | None = None
    abstain: bool = False
    hits: Sequence[Hit] | None = None
    answer: str | None = None


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
array of positions is no document. See outputs.py.
"""


@runtime_checkable
class Retriever(Protocol):
    """The system under test. Every method may return an awaitable: see calls.py.

    Optional:

    * `reset()` and `add(documents)`, in place of `index`, for a streaming memory: `reset` begins a
      haystack, `add` ingests one session (a list of Documents), in time order. With `--as-of`,
      questions are asked between sessions, when their time has come. `update(handle, document)` and
      `delete(handle)`, if present, report that an ingested document was replaced by another, or is
      to be forgotten. Other retrievers find these in `corpus.changes`.
    * `batch_size`: the number of questions that `search` takes at once (1 if absent).
    * `report()`: a dict of the system's counters so far, in which `calls`, `prompt_tokens`,
      `completion_tokens` and `embedded_tokens` are counts since the start.
    * `version` and `revision`: texts; the latter fixes the model's weights or the code.
    * `params`: a dict of the settings (JSON values) of an object that a program built itself; it
      identifies the object's runs.
    * `name`: the name in results of an object that a program built itself.
    * `set_params(...)`: sets parameters that the index does not depend on, with their defaults, so
      that a sweep over them indexes once.
    * `save(folder)` and `load(folder)`: write the index to an empty folder, and read it in place of
      `index`. The harness caches that folder (see ingest_cache.py).
    * `has_index(key)`, or `has_index(key, corpus)`, for a system with a persistent store: whether
      the store has the index of this key; then `index` is not called. Otherwise the next `index`
      call is of this key.
    * `search_params`: names of parameters that only `search` depends on; no key depends on them.
    * `ready()`: whether all indexed documents can be found, where that takes longer than `index`.
      Polled until true, for at most `ready_timeout` seconds (an attribute; 600 if absent).
    * `release()`: called where another process may want a shared resource, such as a service that
      holds one haystack at a time; returns true if the corpus must be indexed again afterwards.
    * `close()`: called after the last question (not in tasks of Ray, whose processes it ends).
    * `thread_safe`: True if `search` may be called from several threads (`--concurrency N`); an
      asynchronous `search` then has several calls in its loop at once.
    * `supports_sharding`: True if each shard of a large corpus may have a retriever of its own (see
      `--backend ray`). Results then need scores, by which they are merged; equal scores keep the
      order of the corpus. A subclass that overrides `search` must set it again.
    * `statistics(queries)` and `set_collection_stats(statistics)`, for scores that depend on other
      documents too: whole numbers by name, which are summed over the shards, and then used for
      scoring.
    """

    def index(self, corpus: Corpus) -> None:
        """Take in a corpus, in place of whatever was indexed before."""
        ...

    def search(self, queries: Sequence[Question], k: int) -> Sequence[Found]:
        """One result a question, of at most k documents."""
        ...
