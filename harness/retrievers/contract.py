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
array of positions is no document. See answers.py.
"""


@runtime_checkable
class Retriever(Protocol):
    """What is under test. Whatever its methods return may be awaitable: see calls.py.

    Optional:

    * `reset()` and `add(documents)`, in place of `index`, for a memory that is told as in life: a
      new haystack begins; then one session after the other in time order, each a list of Documents.
      With `--as-of`, questions are asked in between, when their time has come. `update(handle,
      document)` and `forget(handle)`, if it has them, tell it that a document was replaced by one
      that it has been told, and that it is to forget one. Others find these in `corpus.changes`.
    * `batch_size`: how many questions `search` wants at once (1 if absent).
    * `report()`: a dict of what the system says of itself so far, in which `calls`,
      `prompt_tokens`, `completion_tokens` and `embedded_tokens` are counts since the start.
    * `version` and `revision`: texts; the latter fixes its model's weights or its code.
    * `params`: a dict of the settings (JSON values) of an object that a program built itself, by
      which its runs are told apart.
    * `name`: a text, what an object that a program built itself is called in results.
    * `retune(...)`: sets parameters that the index does not depend on, with their defaults, so that
      a sweep over them indexes once.
    * `save(folder)` and `load(folder)`: write what `index` took in to an empty folder, and take it
      in from there in place of `index`. It is then kept in the cache folder (see ingested.py).
    * `kept(key)`, or `kept(key, corpus)`, for one whose own store lasts: whether it has what it
      took in under this key; then `index` is not called. Else the next `index` is of this key.
    * `search_params`: names of parameters that only `search` depends on, and no key does.
    * `ready()`: whether what was indexed can be found by now, where that takes longer than `index`:
      asked until it is true, for at most `ready_timeout` seconds (an attribute; 600 if absent).
    * `give_way()`: called where another process may want what it shares with others, such as a
      service that holds one haystack at a time; true where it is to index again thereafter.
    * `close()`: called when no more will be asked (but for tasks of Ray, whose processes it ends).
    * `concurrent`: True where `search` may be called from several threads (`--concurrency N`); one
      that is asynchronous then has several calls under way in its loop.
    * `in_shards`: True where each piece of a large corpus may have a retriever of its own (see
      `--backend ray`); answers then have scores, by which they are merged, equal ones in the
      corpus' order. A subclass with a `search` of its own says it again, or it does not hold.
    * `statistics(queries)` and `assume(statistics)`, for one whose scores depend on the other
      documents too: whole numbers by name, which are added up over the shards, and what scores are
      to be made with from then on.
    """

    def index(self, corpus: Corpus) -> None:
        """Take in a corpus, in place of whatever was indexed before."""
        ...

    def search(self, queries: Sequence[Question], k: int) -> Sequence[Found]:
        """One result a question, of at most k documents."""
        ...
