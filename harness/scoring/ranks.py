"""Computes the ranks of judged documents, on which all metrics depend, without sorting.

rank(d) = 1 + #(score > s) + #(score = s and id > d): trec_eval's order is score descending, then
document id descending, compared as bytes; the rank column of a run file is ignored. Two widths:
trec_eval up to 9.0.8 and pytrec_eval compare scores as float32, trec_eval 10 as float64.
`order` compares float64 and keeps the returned order of ties.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.runfiles.arrow import integers, take, to_numpy
from harness.runfiles.rankings import Rankings, best_first, hashes
from harness.scoring.arrays import Ints

if TYPE_CHECKING:
    from harness.datasets.reader import Dataset

NOT_RETRIEVED = np.iinfo(np.int64).max
"""Rank of a judged document that was not returned; greater than any cutoff."""


class Ties(StrEnum):
    """Order of documents with equal scores."""

    TREC = "trec"  # float32, then id descending: trec_eval 9, pytrec_eval
    TREC64 = "trec64"  # float64, then id descending: trec_eval 10
    ORDER = "order"  # float64, then as returned


QrelsDict = Mapping[str, Mapping[str, int]]
"""Qrels in the form of pytrec_eval: query id -> document id -> grade."""


@dataclass(frozen=True)
class Qrels:
    """Judgements of n queries as columns of length m, sorted by query.

    `query` holds indices into `query_ids`, `evidence_id` the code of the evidence item (rows with
    the same code have the same item; by default each row has its own).
    """

    query_ids: Sequence[str]
    query: npt.NDArray[np.int32]
    document: pa.Array
    grade: npt.NDArray[np.int32]
    evidence_id: npt.NDArray[np.int32]

    @cached_property
    def first_of_document(self) -> npt.NDArray[np.bool_]:
        """True for one judgement of each document of a query: the first of its highest grade.

        A document with several evidence items has several rows.
        """
        first = np.zeros(len(self.query), bool)
        pairs = self.query.astype(np.int64) << 32 | self.document_code
        order = np.lexsort((-self.grade, pairs))
        first[order[np.diff(pairs[order], prepend=-1) != 0]] = True
        return first

    @cached_property
    def document_code(self) -> npt.NDArray[np.int64]:
        """Number of each judgement's document; equal ids have equal numbers."""
        return to_numpy(self.document.dictionary_encode().indices).astype(np.int64)

    @property
    def n(self) -> int:
        """Number of queries."""
        return len(self.query_ids)


def from_dataset(dataset: Dataset, key: str = "default") -> Qrels:
    """Returns a qrels set of a dataset, with all its queries, judged or not."""
    judged = dataset.qrels(key)
    return Qrels(
        dataset.query_ids, judged.query, judged.document_id, judged.grade, judged.evidence_id
    )


@dataclass(frozen=True)
class Ranked:
    """The ranks of the judged documents of n queries.

    Shapes (n,): `returned`, the number of documents returned, and `answered`, whether the run has
    the query. Shapes (m,), one per judgement, sorted by query: `rank` from 1, or NOT_RETRIEVED;
    `document`, the document's number; `first_of_document`, True for one judgement per document, of
    its highest grade; `above` and `tied`, the number of documents with a higher score and the
    number with the same score (0 if not retrieved).
    """

    returned: Ints
    answered: npt.NDArray[np.bool_]
    query: npt.NDArray[np.int32]
    grade: npt.NDArray[np.int32]
    evidence_id: npt.NDArray[np.int32]
    document: Ints
    first_of_document: npt.NDArray[np.bool_]
    rank: Ints
    above: Ints
    tied: Ints

    @property
    def n(self) -> int:
        """Number of queries."""
        return len(self.returned)

    @cached_property
    def best_first(self) -> npt.NDArray[np.int64]:
        """Row order by query, then rank."""
        return np.lexsort((self.rank, self.query))

    @cached_property
    def shares_evidence(self) -> bool:
        """True if an evidence item has several documents, or a document several items."""
        distinct = len(np.unique(self.evidence_id))
        return distinct < len(self.evidence_id) or not bool(self.first_of_document.all())

    @cached_property
    def has_relevant(self) -> npt.NDArray[np.bool_]:
        """True for queries with a relevant document (grade 1 or more); (n,)."""
        return np.bincount(self.query[self.grade >= 1], minlength=self.n) > 0

    @cached_property
    def has_ties(self) -> bool:
        """True if a judged document has the same score as another document."""
        return bool((self.tied > 1).any())


@dataclass(frozen=True)
class Ranks:
    """The ranks of judged documents in a part of the rankings; `Ranked` is combined from these.

    Shapes (q,): `query`, the judged queries of the part, and `returned`. Shapes (f,), one per
    judgement with a retrieved document: `judgement`, its row, and `rank`, `above`, `tied`.
    """

    query: Ints
    returned: Ints
    judgement: Ints
    rank: Ints
    above: Ints
    tied: Ints


class QrelsIndex:
    """Index of judgements for lookups in rankings of a whole run or of a few queries."""

    def __init__(self, qrels: Qrels) -> None:
        self._qrels = qrels
        self._known = {name: i for i, name in enumerate(qrels.query_ids)}
        self._starts = np.searchsorted(qrels.query, np.arange(qrels.n + 1))
        self._hashes = hashes(qrels.document)

    def places(self, rankings: Rankings, ties: Ties) -> Ranks:
        """Returns the ranks of judged documents in rankings, which are best first."""
        score = None if rankings.score is None else of_width(rankings.score, ties)
        starts = rankings.starts
        query_of = np.array([self._known.get(name, -1) for name in rankings.query_ids], np.int64)
        ours = np.flatnonzero(query_of >= 0)
        query = query_of[ours]
        row, judgement = self._found(rankings, ours, query)
        first = starts[rankings.query[row]]
        above = row - first
        rank, tied = above + 1, np.ones(len(row), np.int64)
        if score is not None and len(row):
            group, tied = _tie_groups(rankings.query, score, row)
            above = group - first
            if ties is not Ties.ORDER:
                shared = tied > 1
                rank[shared] = _tie_ranks(
                    rankings, row[shared], group[shared], tied[shared], above[shared]
                )
        return Ranks(query, np.diff(starts)[ours], judgement, rank, above, tied)

    def _found(self, rankings: Rankings, ours: Ints, query: Ints) -> tuple[Ints, Ints]:
        """Returns (row of the rankings, judgement) of each retrieved judged document."""
        counts = np.diff(self._starts)[query]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        judgement = np.repeat(self._starts[query], counts) + within
        which, row = rankings.pairs.find(
            np.repeat(ours, counts),
            self._qrels.document.take(integers(judgement)),
            self._hashes[judgement],
        )
        # The first occurrence of a repeated document counts.
        once = np.flatnonzero(np.diff(which, prepend=-1) != 0)
        return row[once], judgement[which[once]]


def gather_ranks(qrels: Qrels, parts: Iterable[Ranks]) -> Ranked:
    """Combines the ranks of parts of a run."""
    m = len(qrels.query)
    rank = np.full(m, NOT_RETRIEVED)
    above, tied = rank.copy(), np.zeros(m, np.int64)
    returned, answered = np.zeros(qrels.n, np.int64), np.zeros(qrels.n, bool)
    for part in parts:
        rank[part.judgement] = part.rank
        above[part.judgement] = part.above
        tied[part.judgement] = part.tied
        returned[part.query] = part.returned
        answered[part.query] = True
    return Ranked(
        returned,
        answered,
        qrels.query,
        qrels.grade,
        qrels.evidence_id,
        qrels.document_code,
        qrels.first_of_document,
        rank,
        above,
        tied,
    )


def rank_judged(rankings: Rankings, qrels: Qrels, ties: Ties = Ties.TREC) -> Ranked:
    """Returns the ranks of all judged documents.

    Queries without qrels are ignored; queries without a ranking are not `answered`. The first of
    duplicate documents counts; see `RankedPairs.repeated`.
    """
    return gather_ranks(qrels, [QrelsIndex(qrels).places(best_first(rankings), ties)])


def in_order(rankings: Rankings, ties: Ties) -> Rankings:
    """Sorts the rows of rankings in the order of `rank_judged`."""
    rankings = best_first(rankings)
    if ties is Ties.ORDER or rankings.score is None:
        return rankings
    score = of_width(rankings.score, ties)
    table = pa.table({"query": rankings.query, "score": score, "id": rankings.document})
    keys = [("query", "ascending"), ("score", "descending"), ("id", "descending")]
    order = pc.sort_indices(table, sort_keys=keys)
    document, given = rankings.document.take(order), rankings.score[order.to_numpy()]
    return Rankings(rankings.query_ids, rankings.query, document, given)


def of_width(score: npt.NDArray[np.float64], ties: Ties) -> npt.NDArray[Any]:
    """Converts scores to the floating-point width of the tie rule."""
    if ties is not Ties.TREC:
        return score
    # Scores beyond float32 become infinite, as in trec_eval.
    with np.errstate(over="ignore"):
        return score.astype(np.float32)


def _tie_groups(
    query: npt.NDArray[np.int32], score: npt.NDArray[np.float64], row: Ints
) -> tuple[Ints, Ints]:
    """Returns first row and size of each row's group of equal scores."""
    last = np.flatnonzero((score[1:] != score[:-1]) | (query[1:] != query[:-1]))
    ends = np.append(last, len(score) - 1)
    group = np.searchsorted(ends, row)
    first = np.where(group > 0, ends[group - 1] + 1, 0)
    return first, ends[group] - first + 1


def _tie_ranks(rankings: Rankings, row: Ints, first: Ints, size: Ints, above: Ints) -> Ints:
    """Returns ranks of tied rows: 1 + documents above + tied documents with a greater id."""
    starts, which = np.unique(first, return_inverse=True)
    sizes = np.zeros(len(starts), np.int64)
    sizes[which] = size
    group = np.repeat(np.arange(len(starts)), sizes)
    members = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes) + starts[group]
    columns = [pa.chunked_array([integers(group)]), take(rankings.document, members)]
    order = to_numpy(
        pc.sort_indices(
            pa.Table.from_arrays(columns, names=["group", "id"]),
            sort_keys=[("group", "ascending"), ("id", "descending")],
        )
    )
    place = np.empty(len(members), np.int64)
    place[order] = np.arange(len(members)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    mine = (np.cumsum(sizes) - sizes)[which] + row - first
    return np.asarray(above + 1 + place[mine])
