"""One haystack in shards: a retriever for each piece of it, and the answers of all merged.

Whatever the number of shards, the answers are the same as of one retriever over the whole corpus:
scores are made with the statistics of the whole collection, and equal ones keep its order.
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
from harness.io.plugins import FAILURES
from harness.records.run import Params
from harness.retrievers import calls
from harness.retrievers.contract import Question, Result, Retriever
from harness.retrievers.corpus import CorpusShard
from harness.retrievers.outputs import in_order, ranked, scores_of, within
from harness.retrievers.registry import RetrieverSpec
from harness.runs.bench import ToldError, close_quietly, plain_report, trace
from harness.runs.usage import COUNTS

T = TypeVar("T")


class ShardedRetriever(Retriever, Protocol):
    """A retriever of which each shard of a large corpus may have one of its own.

    Results need scores, by which they are merged; equal scores keep the order of the corpus.
    `statistics` and `set_collection_stats` are for scores that depend on other documents too, and
    may be left out.
    """

    supports_sharding: bool
    """Set to True; a subclass that overrides `search` must set it again."""

    def statistics(self, queries: Sequence[Question]) -> Mapping[str, int]:
        """Return whole numbers by name, which are summed over the shards."""
        ...

    def set_collection_stats(self, statistics: Mapping[str, int]) -> None:
        """Score with the statistics of the whole collection from now on."""
        ...


@dataclass(frozen=True)
class ShardAnswer:
    """What a shard found for some questions: of question q the rows from `ends[q - 1]` on.

    `positions` are those in the whole corpus; `scores` align with them, in four bytes each where
    those hold them exactly.
    """

    ends: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int32]
    scores: npt.NDArray[np.floating[Any]]


class Shard:
    """A retriever over one piece of a haystack, which it indexes before it is asked first.

    So one that takes the place of another, which died, is as good. What fails is given back as the
    error, since a cluster's engine would wrap it.
    """

    def __init__(
        self,
        builds: RetrieverSpec | Retriever,
        seed: int,
        batch_size: int,
        place: DatasetLocation,
        piece: CorpusShard,
    ) -> None:
        """`batch_size`: how many questions the retriever is asked at once."""
        self._builds, self._seed, self._place, self._piece = builds, seed, place, piece
        self._batch_size = batch_size
        self._retriever: Retriever | None = None

    def index(self) -> int | Exception:
        """Index the piece; how many documents it has."""
        return _value_or_error(lambda: (self._indexed(), len(self._piece.positions))[1])

    def statistics(self, questions: Sequence[Question]) -> Mapping[str, int] | Exception:
        """Return what scores for these questions depend on, of this piece."""
        return _value_or_error(lambda: getattr(self._indexed(), "statistics", _nothing)(questions))

    def search(
        self, questions: Sequence[Question], k: int, statistics: Mapping[str, int]
    ) -> ShardAnswer | Exception:
        """Return the best k of this piece, scored with the statistics of the whole collection."""
        return _value_or_error(lambda: self._search(questions, k, statistics))

    def report(self) -> Params | Exception:
        """Return what the retriever says of itself; nothing where it says nothing."""

        def said() -> Params:
            report = getattr(self._indexed(), "report", None)
            return plain_report(report) if callable(report) else {}

        return _value_or_error(said)

    def close(self) -> Exception | None:
        """Close the retriever: no more will be asked."""
        return _value_or_error(
            lambda: close_quietly(self._retriever) if self._retriever is not None else None
        )

    def _indexed(self) -> Retriever:
        if self._retriever is None:
            builds = self._builds
            retriever = builds.build(self._seed) if isinstance(builds, RetrieverSpec) else builds
            documents = self._place.documents(self._piece.low, self._piece.high)
            calls.index(retriever, self._piece.corpus.over(documents))
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
            found += [self._columns(ranked(answer, retriever)) for answer in answers]
        ends = np.cumsum([len(positions) for positions, _ in found])
        positions = np.concatenate([np.zeros(0, np.int32), *(found_at for found_at, _ in found)])
        scores = np.concatenate([np.zeros(0), *(scored for _, scored in found)])
        single = scores.astype(np.float32)
        return ShardAnswer(ends, positions, single if (single == scores).all() else scores)

    def _columns(self, result: Result) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]:
        """Return positions in the whole corpus and scores, as a worker takes an answer."""
        alone = result.hits, result.confidence, result.answer
        if any(one is not None for one in alone) or result.abstain:
            raise TypeError("a shard must answer with documents and scores, and nothing else")
        own = within(result.ids, len(self._piece.positions), self._position)
        scores = scores_of(result.scores, len(own))
        if scores is None:
            raise TypeError("a shard must give a score with each document, to merge them by")
        own, scores, _ = in_order(own, scores, result.ranked_by)
        assert scores is not None
        return self._piece.positions[own].astype(np.int32), scores

    def _position(self, id_: str | int) -> int:
        if not isinstance(id_, str):
            return index(id_)
        if id_ not in self._handles:
            raise ValueError(f"{id_!r} is not a handle of this shard")
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
    """Return the statistics of the whole collection."""
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(total)


def merge_answers(parts: Sequence[ShardAnswer], k: int) -> list[Result]:
    """Return for each question the best k of all shards, best first; equal scores by position."""
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
    """Returns the reports of shards as one: the sums of their counts, and each."""
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
    """Return what the work gives, or the error that it raised, in a form that can be sent."""
    try:
        return work()
    except HarnessError as error:
        return error
    except FAILURES:  # the retriever is somebody else's code: its failure is a result of the run
        return ToldError(trace())
