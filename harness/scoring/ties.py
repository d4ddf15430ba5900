"""What equal scores could do to a number: the best, the worst and the expected order of ties."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from harness.scoring.arrays import Flags, Ints, Values, count_by
from harness.scoring.metrics import Metric
from harness.scoring.ranks import NOT_RETRIEVED, Ranked

DRAWS = 100
"""Random orders that the expected value is the mean of."""

_KEPT = 1 << 22  # judgements, over all orders that are kept for the next metric: 64 MB
_SIDE_BY_SIDE = 1 << 18  # judgements of all draws, up to which they are looked at in one go


class TieOrders:
    """Other orders of the tied documents of a run, as rankings of their own.

    Only queries in which a judged document shares its score are looked at; judgements with units
    are not (`any` is False then).
    """

    def __init__(self, ranked: Ranked) -> None:
        self._ranked = ranked
        tied = ranked.tied > 1
        self.any = ranked.has_ties and not ranked.shares_evidence
        self._queries = count_by(ranked.query[tied], ranked.n) > 0
        self._kept: dict[int, Ranked] = {}

    def bounds(self, metric: Metric) -> tuple[Values, Values]:
        """Value a query with the relevant ones first, and last, among equals; each (n,)."""
        return metric(self._best), metric(self._worst)

    @cached_property
    def _best(self) -> Ranked:
        return self._ordered(best=True)

    @cached_property
    def _worst(self) -> Ranked:
        return self._ordered(best=False)

    def expected(self, metric: Metric) -> Values:
        """Mean a query over random orders of equals, seeded; (n,)."""
        values = metric(self._ranked)
        draws = np.zeros(self._tied.n)
        for first in range(0, DRAWS, self._at_once):
            for drawn in metric(self._random(first)).reshape(self._at_once, len(draws)):
                draws += drawn
        values[self._queries] = draws / DRAWS
        return values

    @cached_property
    def _tied(self) -> Ranked:
        return _of_queries(self._ranked, self._queries)

    @cached_property
    def _at_once(self) -> int:
        """How many draws a metric looks at in one go."""
        return DRAWS if DRAWS * len(self._tied.rank) <= _SIDE_BY_SIDE else 1

    def _random(self, first: int) -> Ranked:
        """Drawn orders, side by side as queries; drawn once for all metrics, if memory allows."""
        found = self._kept.get(first)
        if found is None:
            ranks = [self._drawn(first + i) for i in range(self._at_once)]
            found = replace(self._copies, rank=np.concatenate(ranks))
            if (len(self._kept) + 1) * len(found.rank) <= _KEPT:
                self._kept[first] = found
        return found

    @cached_property
    def _copies(self) -> Ranked:
        """The queries with ties, as often as draws are looked at in one go."""
        tied, times = self._tied, self._at_once
        copied = {f.name: np.tile(getattr(tied, f.name), times) for f in fields(tied)}
        copied["query"] += np.repeat(np.arange(times, dtype=np.int32) * tied.n, len(tied.query))
        copied["unit"] = np.arange(len(copied["unit"]), dtype=np.int32)  # none is shared
        return Ranked(**copied)

    def _ordered(self, *, best: bool) -> Ranked:
        ranked = self._ranked
        # Grade 0 goes along, for judged@k alone: behind the relevant ones in the best order, above
        # them in the worst, where it changes nothing else.
        found = (ranked.rank != NOT_RETRIEVED) & (ranked.grade >= 0)
        grade = -ranked.grade if best else ranked.grade
        order = np.lexsort((grade, ranked.above, ranked.query))
        order = order[found[order]]
        place, size = _place_in_group(ranked.query[order], ranked.above[order])
        start = ranked.above[order] + (0 if best else ranked.tied[order] - size)
        rank = ranked.rank.copy()
        rank[order] = start + place + 1
        return replace(ranked, rank=rank)

    def _drawn(self, draw: int) -> Ints:
        """Ranks with each judged document at a random place of its group, no two at the same."""
        ranked = self._tied
        rng = np.random.default_rng([draw, 0x71E5])
        rank = ranked.rank.copy()
        tied = np.flatnonzero(ranked.tied > 1)
        unplaced = tied
        while len(unplaced):
            places = (rng.random(len(unplaced)) * ranked.tied[unplaced]).astype(np.int64)
            rank[unplaced] = ranked.above[unplaced] + 1 + places
            # Of those on one place the first stays and the others draw again: that is drawing
            # without putting back, so every order is equally likely.
            unplaced = _clashing(ranked.query, rank, tied)
        return rank


def _of_queries(ranked: Ranked, wanted: Flags) -> Ranked:
    """These queries alone, numbered anew."""
    rows = wanted[ranked.query]
    of_queries = ("returned", "answered")
    kept = {
        f.name: getattr(ranked, f.name)[wanted if f.name in of_queries else rows]
        for f in fields(ranked)
    }
    number = np.cumsum(wanted, dtype=np.int32) - 1
    return Ranked(**{**kept, "query": number[kept["query"]]})


def _place_in_group(query: Ints, above: Ints) -> tuple[Ints, Ints]:
    """Place of each row among the rows of the same query and score, and how many those are."""
    new = (np.diff(query, prepend=-1) != 0) | (np.diff(above, prepend=-1) != 0)
    group = np.cumsum(new) - 1
    sizes = np.bincount(group, minlength=0)
    starts = np.cumsum(sizes) - sizes
    return np.arange(len(query)) - starts[group], sizes[group]


def _clashing(query: npt.NDArray[np.int32], rank: Ints, rows: Ints) -> Ints:
    """All but the first of the rows (ascending) that share a query and a rank."""
    order = rows[np.lexsort((rows, rank[rows], query[rows]))]
    same = (np.diff(query[order]) == 0) & (np.diff(rank[order]) == 0)
    return np.asarray(order[1:][same])
