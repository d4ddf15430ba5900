"""The ranks of the judged documents: all that any metric needs, found without sorting.

rank(d) = 1 + #(score > s) + #(score = s and id > d): trec_eval's order is score descending, then
document id descending, compared as bytes; the rank column of a run file is ignored. Two widths:
trec_eval up to 9.0.8 and pytrec_eval compare scores as float32, trec_eval 10 as float64.
`order` compares float64 and leaves equals in the order in which they were returned.
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
from harness.runfiles.rankings import RankedPairs, Rankings, best_first, hashes
from harness.scoring.arrays import Ints

if TYPE_CHECKING:
    from harness.datasets.reader import Dataset

NOT_RETRIEVED = np.iinfo(np.int64).max
"""The rank of a judged document that was not returned: behind every cut-off."""


class Ties(StrEnum):
    """How a ranking is ordered where scores are equal."""

    TREC = "trec"  # float32, then id descending: trec_eval 9, pytrec_eval
    TREC64 = "trec64"  # float64, then id descending: trec_eval 10
    ORDER = "order"  # float64, then as returned


QrelsDict = Mapping[str, Mapping[str, int]]
"""Judgements in memory, as pytrec_eval has them: query id -> document id -> grade."""


@dataclass(frozen=True)
class Qrels:
    """Judgements of n queries as columns of length m, sorted by query.

    `query` holds indices into `query_ids`, `evidence_id` codes of the pieces of evidence (rows with
    the same code carry the same piece; by default each row is its own).
    """

    query_ids: Sequence[str]
    query: npt.NDArray[np.int32]
    document: pa.Array
    grade: npt.NDArray[np.int32]
    evidence_id: npt.NDArray[np.int32]

    @cached_property
    def first_of_document(self) -> npt.NDArray[np.bool_]:
        """True for one judgement of each document of a query: the first of its highest grade.

        A document has several rows if it carries several pieces of evidence.
        """
        first = np.zeros(len(self.query), bool)
        pairs = self.query.astype(np.int64) << 32 | self.document_code
        order = np.lexsort((-self.grade, pairs))
        first[order[np.diff(pairs[order], prepend=-1) != 0]] = True
        return first

    @cached_property
    def document_code(self) -> npt.NDArray[np.int64]:
        """A number for each judgement's document: equal ids, equal numbers."""
        return to_numpy(self.document.dictionary_encode().indices).astype(np.int64)

    @property
    def n(self) -> int:
        """Number of queries."""
        return len(self.query_ids)


def from_dataset(dataset: Dataset, key: str = "default") -> Qrels:
    """One answer key of a dataset; every query of the dataset is there, judged or not."""
    judged = dataset.qrels(key)
    return Qrels(
        dataset.query_ids, judged.query, judged.document_id, judged.grade, judged.evidence_id
    )


@dataclass(frozen=True)
class Ranked:
    """The ranks of the judged documents of n queries.

    Shapes: `returned` and `answered` (n,): documents returned for a query, and whether the run has
    the query at all. The rest (m,), one a judgement, sorted by query: `rank` from 1, or
    NOT_RETRIEVED; `document` numbers the documents, and `first_of_document` is True for one
    judgement of each, of its highest grade; `above` and `tied` describe its group of equal scores:
    how many documents have a higher score, and the size of the group (0 if not retrieved).
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
        """True where a piece of evidence has several documents, or a document several pieces."""
        distinct = len(np.unique(self.evidence_id))
        return distinct < len(self.evidence_id) or not bool(self.first_of_document.all())

    @cached_property
    def has_relevant(self) -> npt.NDArray[np.bool_]:
        """Whether a query has a relevant document, a judgement of grade 1 or more; (n,)."""
        return np.bincount(self.query[self.grade >= 1], minlength=self.n) > 0

    @cached_property
    def has_ties(self) -> bool:
        """True when a judged document shares its score with another document."""
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
    """Judgements ready to be looked up in rankings: in a whole run's, or a few queries'."""

    def __init__(self, qrels: Qrels) -> None:
        self._qrels = qrels
        self._known = {name: i for i, name in enumerate(qrels.query_ids)}
        self._starts = np.searchsorted(qrels.query, np.arange(qrels.n + 1))
        self._hashes = hashes(qrels.document)

    def places(self, rankings: Rankings, pairs: RankedPairs, ties: Ties) -> Ranks:
        """Places of the judged documents in rankings that are best first; `pairs` are theirs."""
        score = None if rankings.score is None else of_width(rankings.score, ties)
        starts = rankings.starts
        query_of = np.array([self._known.get(name, -1) for name in rankings.query_ids], np.int64)
        ours = np.flatnonzero(query_of >= 0)
        query = query_of[ours]
        row, judgement = self._found(pairs, ours, query)
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

    def _found(self, pairs: RankedPairs, ours: Ints, query: Ints) -> tuple[Ints, Ints]:
        """(row of the rankings, judgement) of each judged document in the rankings."""
        counts = np.diff(self._starts)[query]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        judgement = np.repeat(self._starts[query], counts) + within
        which, row = pairs.find(
            np.repeat(ours, counts),
            self._qrels.document.take(integers(judgement)),
            self._hashes[judgement],
        )
        # Of a document that was returned twice the first occurrence counts.
        once = np.flatnonzero(np.diff(which, prepend=-1) != 0)
        return row[once], judgement[which[once]]


def gather_ranks(qrels: Qrels, parts: Iterable[Ranks]) -> Ranked:
    """Returns the ranks of all judgements, from those in each part of a run."""
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
    """Ranks of all judged documents in the rankings.

    Queries that only the rankings have are ignored; queries that only the qrels have are not
    `answered`. Of duplicate documents the first one counts; see rankings.duplicates.
    """
    rankings = best_first(rankings)
    pairs = RankedPairs(rankings.query, rankings.document)
    return gather_ranks(qrels, [QrelsIndex(qrels).places(rankings, pairs, ties)])


def in_order(rankings: Rankings, ties: Ties) -> Rankings:
    """The rankings with their rows in the order that `rank_judged` ranks by."""
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
    """The scores as wide as the rule compares them."""
    if ties is not Ties.TREC:
        return score
    # Beyond float32 a score becomes infinite there too, as it does in trec_eval.
    with np.errstate(over="ignore"):
        return score.astype(np.float32)


def _tie_groups(
    query: npt.NDArray[np.int32], score: npt.NDArray[np.float64], row: Ints
) -> tuple[Ints, Ints]:
    """First row and size of the group of equal scores of each row."""
    last = np.flatnonzero((score[1:] != score[:-1]) | (query[1:] != query[:-1]))
    ends = np.append(last, len(score) - 1)
    group = np.searchsorted(ends, row)
    first = np.where(group > 0, ends[group - 1] + 1, 0)
    return first, ends[group] - first + 1


def _tie_ranks(rankings: Rankings, row: Ints, first: Ints, size: Ints, above: Ints) -> Ints:
    """Ranks inside groups of equal scores: 1 + those above + tied ones with a greater id."""
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
