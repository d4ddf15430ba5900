"""What equal scores could do to a number: the best, the worst and the expected order of ties."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np

from harness.scoring.arrays import Ints, Values, count_by
from harness.scoring.metrics import Metric
from harness.scoring.metrics.definition import TiedDocuments
from harness.scoring.ranks import NOT_RETRIEVED, Ranked


class TieOrders:
    """Other orders of the tied documents of a run, as rankings of their own.

    Only queries in which a judged document shares its score are looked at; judgements with pieces
    are not (`any` is False then).
    """

    def __init__(self, ranked: Ranked) -> None:
        self._ranked = ranked
        tied = ranked.tied > 1
        self.any = ranked.has_ties and not ranked.shares_evidence
        self._queries = count_by(ranked.query[tied], ranked.n) > 0

    def bounds(self, metric: Metric) -> tuple[Values, Values]:
        """Value a query with the relevant ones first, and last, among equals; each (n,)."""
        return metric(self._best), metric(self._worst)

    @cached_property
    def _best(self) -> Ranked:
        return self._ordered(best=True)

    @cached_property
    def _worst(self) -> Ranked:
        return self._ordered(best=False)

    def expected(self, metric: Metric) -> Values | None:
        """Mean a query over all orders of equals, exactly; (n,). None without a formula."""
        expected = metric.definition.expected_over_ties
        if expected is None:
            return None
        tied, own = self._tied(metric), metric(self._ranked)
        mean = metric.definition.where_defined(expected(tied), tied.ranked, tied.total)
        return np.where(self._queries, mean, own)

    def _tied(self, metric: Metric) -> TiedDocuments:
        definition, ranked = metric.definition, metric.with_relevance(self._ranked)
        wanted = ranked.grade >= definition.least_grade
        cutoff = definition.cutoffs(ranked, metric.k)
        rows = np.flatnonzero(wanted & (ranked.rank != NOT_RETRIEVED))
        query, above, tied = ranked.query[rows], ranked.above[rows], ranked.tied[rows]
        return TiedDocuments(
            ranked,
            cutoff,
            count_by(ranked.query[wanted], ranked.n),
            rows,
            query,
            above,
            tied,
            inside=np.clip(cutoff[query] - above, 0, tied),
        )

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


def _place_in_group(query: Ints, above: Ints) -> tuple[Ints, Ints]:
    """Place of each row among the rows of the same query and score, and how many those are."""
    new = (np.diff(query, prepend=-1) != 0) | (np.diff(above, prepend=-1) != 0)
    group = np.cumsum(new) - 1
    sizes = np.bincount(group, minlength=0)
    starts = np.cumsum(sizes) - sizes
    return np.arange(len(query)) - starts[group], sizes[group]
