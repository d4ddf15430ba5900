"""Retrieval over one haystack in shards: one retriever per piece, and merged results.

The number of shards does not change results: scores use the statistics of the whole collection, and
ties keep its order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import index
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from harness.datasets.remote_store import DatasetLocation
from harness.errors import HarnessError
from harness.extensions.cluster.corpus_shards import CorpusShard, corpus_over
from harness.io.plugins import FAILURES
from harness.records.run import Params
from harness.retrievers import calls
from harness.retrievers.contract import Question, Result, Retriever
from harness.retrievers.corpus import unknown_handle
from harness.retrievers.outputs import in_order, in_range, ranked_result, scores_of
from harness.retrievers.registry import RetrieverSpec
from harness.runs.usage import COUNTS
from harness.runs.worker_state import RemoteCallError, close_quietly, plain_report, trace

T = TypeVar("T")


class ShardedRetriever(Retriever, Protocol):
    """A retriever that can search each shard of a large corpus separately.

    Results need scores for merging; ties keep the order of the corpus. `statistics` and
    `set_collection_stats` are only needed if scores depend on other documents.
    """

    supports_sharding: bool
    """Set to True; a subclass that overrides `search` must set it again."""

    def statistics(self, queries: Sequence[Question]) -> Mapping[str, int]:
        """Returns integers by name, which are summed over the shards."""
        ...

    def set_collection_stats(self, statistics: Mapping[str, int]) -> None:
        """Sets the collection statistics for all following scores."""
        ...


@dataclass(frozen=True)
class ShardAnswer:
    """Results of a shard: those of query q are the rows from `ends[q - 1]` on.

    `positions` refer to the whole corpus; `scores` align with them, as four-byte floats if these
    are exact.
    """

    ends: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int32]
    scores: npt.NDArray[np.floating[Any]]


class Shard:
    """A retriever over one piece of a haystack, which it indexes before the first query.

    A replacement of a lost shard therefore behaves the same. Errors are returned, since a cluster
    engine would wrap them.
    """

    def __init__(
        self,
        builds: RetrieverSpec | Retriever,
        seed: int,
        batch_size: int,
        place: DatasetLocation,
        piece: CorpusShard,
    ) -> None:
        """`batch_size` is the number of queries per call of the retriever."""
        self._builds, self._seed, self._place, self._piece = builds, seed, place, piece
        self._batch_size = batch_size
        self._retriever: Retriever | None = None

    def index(self) -> int | Exception:
        """Indexes the piece; returns its number of documents."""
        return _value_or_error(lambda: (self._indexed(), len(self._piece.positions))[1])

    def statistics(self, questions: Sequence[Question]) -> Mapping[str, int] | Exception:
        """Returns the statistics of this piece that scores for these queries need."""
        return _value_or_error(lambda: getattr(self._indexed(), "statistics", _nothing)(questions))

    def search(
        self, questions: Sequence[Question], k: int, statistics: Mapping[str, int]
    ) -> ShardAnswer | Exception:
        """Returns the best k of this piece, scored with the statistics of the whole collection."""
        return _value_or_error(lambda: self._search(questions, k, statistics))

    def report(self) -> Params | Exception:
        """Returns the retriever's report, or nothing."""

        def said() -> Params:
            report = getattr(self._indexed(), "report", None)
            return plain_report(report) if callable(report) else {}

        return _value_or_error(said)

    def close(self) -> Exception | None:
        """Closes the retriever."""
        return _value_or_error(
            lambda: close_quietly(self._retriever) if self._retriever is not None else None
        )

    def _indexed(self) -> Retriever:
        if self._retriever is None:
            builds = self._builds
            retriever = builds.build(self._seed) if isinstance(builds, RetrieverSpec) else builds
            documents = self._place.documents(self._piece.low, self._piece.high)
            calls.index(retriever, corpus_over(self._piece, documents))
            self._retriever = retriever
        return self._retriever

    def _search(
        self, questions: Sequence[Question], k: int, statistics: Mapping[str, int]
    ) -> ShardAnswer:
        retriever = self._indexed()
        if callable(set_stats := getattr(retriever, "set_collection_stats", None)):
            set_stats(statistics)
        size = self._batch_size
        found: list[tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]] = []
        for start in range(0, len(questions), size):
            asked = questions[start : start + size]
            answers = calls.search(retriever, asked, k)
            found += [self._columns(ranked_result(answer, retriever)) for answer in answers]
        ends = np.cumsum([len(positions) for positions, _ in found])
        positions = np.concatenate([np.zeros(0, np.int32), *(found_at for found_at, _ in found)])
        scores = np.concatenate([np.zeros(0), *(scored for _, scored in found)])
        single = scores.astype(np.float32)
        return ShardAnswer(ends, positions, single if (single == scores).all() else scores)

    def _columns(self, result: Result) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
        """Returns positions in the whole corpus and scores, validated like a worker's results."""
        alone = result.hits, result.confidence, result.answer
        if any(one is not None for one in alone) or result.abstain:
            raise TypeError("a shard must return documents with scores, and nothing else")
        own = in_range(result.ids, len(self._piece.positions), self._position)
        scores = scores_of(result.scores, len(own))
        if scores is None:
            raise TypeError("a shard must return a score with each document, which merging needs")
        own, scores, _ = in_order(own, scores, result.ranked_by)
        assert scores is not None
        return self._piece.positions[own].astype(np.int32), scores

    def _position(self, id_: str | int) -> int:
        if not isinstance(id_, str):
            return index(id_)
        if id_ not in self._handles:
            raise unknown_handle(id_)
        return self._handles[id_]

    @cached_property
    def _handles(self) -> dict[str, int]:
        return {handle: at for at, handle in enumerate(self._piece.corpus.handles)}


def can_be_cut(retriever: Retriever) -> bool:
    """Tests whether the class that defines the retriever's `search` sets `supports_sharding`."""
    if not getattr(retriever, "supports_sharding", False):
        return False
    line = [vars(retriever), *map(vars, type(retriever).__mro__)]
    said = next(place for place, names in enumerate(line) if "supports_sharding" in names)
    return said <= next(place for place, names in enumerate(line) if "search" in names)


def add_statistics(parts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """Returns the statistics of the whole collection."""
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(total)


def merge_answers(parts: Sequence[ShardAnswer], k: int) -> list[Result]:
    """Returns the best k of all shards per query, best first; ties by position."""
    results = []
    for number in range(len(parts[0].ends)):
        rows = [slice(p.ends[number - 1] if number else 0, p.ends[number]) for p in parts]
        mine = [*zip(parts, rows, strict=True)]
        positions = np.concatenate([part.positions[own] for part, own in mine])
        scores = np.concatenate([part.scores[own] for part, own in mine])
        if 0 < k < len(scores):
            good = scores >= np.partition(scores, len(scores) - k)[len(scores) - k]
            positions, scores = positions[good], scores[good]
        best = np.lexsort((positions, -scores))[:k]
        results.append(Result(positions[best], scores[best].astype(np.float64)))
    return results


def add_reports(reports: Sequence[Params]) -> Params:
    """Merges the reports of shards: the sums of their counts, and each."""
    said = [report for report in reports if report]
    counts = {
        name: sum(one for report in said if isinstance(one := report.get(name), int | float))
        for name in COUNTS
        if any(name in report for report in said)
    }
    return {**counts, "shards": said} if said else {}


def _nothing(questions: Sequence[Question]) -> dict[str, int]:
    return {}


def _value_or_error(work: Callable[[], T]) -> T | Exception:
    """Returns the value of a call, or its error in a form that can be pickled."""
    try:
        return work()
    except HarnessError as error:
        return error
    except FAILURES:  # third-party code: its failure is a result of the run
        return RemoteCallError(trace())
