"""The ranks of the judged documents: all that any metric needs, found without sorting.

rank(d) = 1 + #(score > s) + #(score = s and id > d): trec_eval's order is score descending, then
document id descending, compared as bytes; the rank column of a run file is ignored. Two widths:
trec_eval up to 9.0.8 and pytrec_eval compare scores as float32, trec_eval 10 as float64.
`order` compares float64 and leaves equals in the order in which they were returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.rankings import Rankings, best_first
from harness.scoring.arrays import Ints
from harness.scoring.qrels import Qrels, QrelsDict

NOT_RETRIEVED = np.iinfo(np.int64).max
"""The rank of a judged document that was not returned: behind every cut-off."""


class Ties(StrEnum):
    """How a ranking is ordered where scores are equal."""

    TREC = "trec"  # float32, then id descending: trec_eval 9, pytrec_eval
    TREC64 = "trec64"  # float64, then id descending: trec_eval 10
    ORDER = "order"  # float64, then as returned


@dataclass(frozen=True)
class Ranked:
    """Where the judged documents of n queries stand.

    Shapes: `returned` and `answered` (n,): documents returned for a query, and whether the run has
    the query at all. The rest (m,), one a judgement, sorted by query: `rank` from 1, or
    NOT_RETRIEVED; `first_of_document` is False for further units of a document; `above` and `tied`
    describe the group of equal scores it stands in: how many
    stand strictly above it, and how many are in it (0 where not retrieved).
    """

    returned: Ints
    answered: npt.NDArray[np.bool_]
    query: npt.NDArray[np.int32]
    grade: npt.NDArray[np.int32]
    unit: npt.NDArray[np.int32]
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
    def has_ties(self) -> bool:
        """True when a judged document shares its score with another document."""
        return bool((self.tied > 1).any())


def rank_judged(rankings: Rankings, qrels: Qrels, ties: Ties = Ties.TREC) -> Ranked:
    """Ranks of all judged documents in the rankings.

    Queries that only the rankings have are ignored; queries that only the qrels have are not
    `answered`. A document returned twice counts where it stands first; see rankings.duplicates.
    """
    rankings = best_first(rankings)
    score = rankings.score
    if ties is Ties.TREC and score is not None:
        # Beyond float32 a score becomes infinite there too, as it does in trec_eval.
        with np.errstate(over="ignore"):
            score = score.astype(np.float32)
    starts = rankings.starts
    known = {name: i for i, name in enumerate(qrels.query_ids)}
    query_of = np.array([known.get(name, -1) for name in rankings.query_ids], np.int64)
    row, judgement = _matches(rankings, qrels, query_of)

    m = len(qrels.query)
    rank = np.full(m, NOT_RETRIEVED)
    above, tied = rank.copy(), np.zeros(m, np.int64)
    position = row - starts[rankings.query[row]]
    rank[judgement], above[judgement], tied[judgement] = position + 1, position, 1
    if score is not None and len(row):
        first, size = _tie_groups(rankings.query, score, row)
        above[judgement] = first - starts[rankings.query[row]]
        tied[judgement] = size
        if ties is not Ties.ORDER:
            shared = size > 1
            rank[judgement[shared]] = _tie_ranks(
                rankings, row[shared], first[shared], size[shared], above[judgement[shared]]
            )
    returned = np.zeros(qrels.n, np.int64)
    answered = np.zeros(qrels.n, bool)
    ours = query_of >= 0
    returned[query_of[ours]] = np.diff(starts)[ours]
    answered[query_of[ours]] = True
    return _ranked(qrels, returned, answered, rank, above, tied)


def _matches(rankings: Rankings, qrels: Qrels, query_of: Ints) -> tuple[Ints, Ints]:
    """Pairs (row of the rankings, index of the judgement) of the same query and document."""
    values = pc.unique(qrels.document)
    slot = pc.index_in(qrels.document, value_set=values).to_numpy().astype(np.int64)
    base = max(len(values), 1)
    judged = qrels.query.astype(np.int64) * base + slot
    order = np.argsort(judged, kind="stable")
    judged = judged[order]

    rows, slots, start = [], [], 0
    for chunk in rankings.document.chunks:
        found = pc.index_in(chunk, value_set=values)
        hits = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
        rows.append(hits + start)
        slots.append(found.take(pa.array(hits)).to_numpy())
        start += len(chunk)
    row = np.concatenate(rows) if rows else np.zeros(0, np.int64)
    query = query_of[rankings.query[row]]
    keys = query * base + (np.concatenate(slots) if slots else 0)
    row, keys = row[query >= 0], keys[query >= 0]
    keys, first = np.unique(keys, return_index=True)  # a repeated document counts once
    row = row[first]
    # A document may be judged several times for a query, once a unit of evidence.
    low, high = np.searchsorted(judged, keys, "left"), np.searchsorted(judged, keys, "right")
    counts = high - low
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(row, counts), order[np.repeat(low, counts) + within]


def _tie_groups(
    query: npt.NDArray[np.int32], score: npt.NDArray[np.float64], row: Ints
) -> tuple[Ints, Ints]:
    """First row and size of the run of equal scores that each row stands in."""
    last = np.flatnonzero((score[1:] != score[:-1]) | (query[1:] != query[:-1]))
    ends = np.append(last, len(score) - 1)
    group = np.searchsorted(ends, row)
    first = np.where(group > 0, ends[group - 1] + 1, 0)
    return first, ends[group] - first + 1


def _tie_ranks(rankings: Rankings, row: Ints, first: Ints, size: Ints, above: Ints) -> Ints:
    """Ranks inside groups of equal scores: 1 + those above + those tied whose id is greater."""
    starts, which = np.unique(first, return_inverse=True)
    sizes = np.zeros(len(starts), np.int64)
    sizes[which] = size
    group = np.repeat(np.arange(len(starts)), sizes)
    members = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes) + starts[group]
    table = pa.table({"group": group, "id": rankings.document.take(pa.array(members))})
    order = pc.sort_indices(
        table, sort_keys=[("group", "ascending"), ("id", "descending")]
    ).to_numpy()
    place = np.empty(len(members), np.int64)
    place[order] = np.arange(len(members)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    mine = (np.cumsum(sizes) - sizes)[which] + row - first
    return np.asarray(above + 1 + place[mine])


def rank_dicts(
    run: Mapping[str, Mapping[str, float]], qrels: QrelsDict, columns: Qrels, ties: Ties = Ties.TREC
) -> Ranked:
    """The same as `rank_judged` for dictionaries, without making columns of the run first.

    `columns` is `qrels` as columns; under `Ties.ORDER` the order of the dictionary is the order in
    which equals were returned. Raises ValueError for a NaN score.
    """
    width = np.float32 if ties is Ties.TREC else np.float64
    m = len(columns.query)
    rank = np.full(m, NOT_RETRIEVED)
    above, tied = rank.copy(), np.zeros(m, np.int64)
    returned, answered = np.zeros(columns.n, np.int64), np.zeros(columns.n, bool)
    start = 0
    for i, (query, judged) in enumerate(qrels.items()):
        found = run.get(query)
        if found is not None:
            returned[i], answered[i] = len(found), True
            scores = np.fromiter(found.values(), width, len(found))
            if np.isnan(scores).any():
                raise ValueError(f"query {query!r} has a NaN score")
            for j, document in enumerate(judged, start):
                score = found.get(document)
                if score is None:
                    continue
                at = width(score)
                above[j] = np.count_nonzero(scores > at)
                tied[j] = np.count_nonzero(scores == at)
                rank[j] = above[j] + 1
                if tied[j] > 1:
                    rank[j] += _equals_ahead(found, document, width, ties)
        start += len(judged)
    return _ranked(columns, returned, answered, rank, above, tied)


def _equals_ahead(
    found: Mapping[str, float], document: str, width: type[np.floating[Any]], ties: Ties
) -> int:
    """How many documents of the same score stand above `document`."""
    at = width(found[document])
    equals = [d for d, score in found.items() if width(score) == at]
    if ties is Ties.ORDER:
        return equals.index(document)
    return sum(d > document for d in equals)


def _ranked(
    qrels: Qrels,
    returned: Ints,
    answered: npt.NDArray[np.bool_],
    rank: Ints,
    above: Ints,
    tied: Ints,
) -> Ranked:
    return Ranked(
        returned,
        answered,
        qrels.query,
        qrels.grade,
        qrels.unit,
        qrels.first_of_document,
        rank,
        above,
        tied,
    )
