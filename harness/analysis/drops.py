"""Tests whether numbers of a run dropped by more than a margin below those of a baseline.

Each drop is tested in both directions (`harness.stats.margin`): is it shown to be larger than
`max_drop`, or to be smaller? All tests for larger drops are one family, corrected by Holm's method,
so a gate fails by chance with a probability of at most alpha. The others need no correction: a gate
passes only if all of its drops are shown to be smaller (an intersection-union test).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from harness.analysis.compare.table import clusters_of, slice_masks
from harness.analysis.scored_run import (
    Block,
    ScoredRun,
    Values,
    differing,
    essentials,
    require_depth,
)
from harness.errors import UsageError
from harness.io.terminal import count_of
from harness.stats.margin import MIN_CLUSTERS, MarginTest, margin_tests
from harness.stats.paired import EQUAL
from harness.stats.proportions import holm

Place = tuple[Block, str, str]
"""Protocol and level, metric, slice."""


class GateOutcome(StrEnum):
    """The outcome of a check; a threshold is never inconclusive."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Drop:
    """One number before and now, over the queries with a value in both runs.

    `test` has the interval of the drop. `p_above` is small if the drop is larger than `max_drop`,
    corrected for all `tests` of the family; `test.p_below` if it is smaller.
    """

    before: float
    max_drop: float
    test: MarginTest
    p_above: float
    cluster_by: str
    tests: int
    alpha: float

    @property
    def now(self) -> float:
        """The number of the new run."""
        return self.before - self.test.mean

    @property
    def outcome(self) -> GateOutcome:
        """Fails a drop shown to be larger than `max_drop`; passes one shown to be smaller."""
        if self.p_above <= self.alpha or not self.test.clusters:
            return GateOutcome.FAIL
        decided = self.test.p_below <= self.alpha
        return GateOutcome.PASS if decided else GateOutcome.INCONCLUSIVE

    def __str__(self) -> str:
        """The drop against the allowed one, in a sentence."""
        size, test = self.test.mean, self.test
        if not test.clusters:
            return "not measurable: no query has a value in both runs"
        text = f"did not change ({self.before:.4f})"
        if abs(size) > EQUAL:
            word = "dropped" if size > 0 else "rose"
            text = f"{word} by {abs(size):.4f} ({self.before:.4f} -> {self.now:.4f})"
        larger = size > self.max_drop
        against = f"{'more' if larger else 'less'} than the allowed {self.max_drop:g}"
        over = count_of(test.clusters, self.cluster_by)
        if test.undecided:
            return (
                f"{text}, {against}; {over} are too few for a test (at least {MIN_CLUSTERS} of "
                'equal size): use more, or cluster_by = "queries" if questions to one haystack are '
                "independent"
            )
        p = self.p_above if larger else test.p_below
        shown = f"p = {p:.4f}" if p >= 0.0001 else "p < 0.0001"
        if larger and self.tests > 1:
            shown += f" for {self.tests} tests"
        interval = f"{1 - 2 * self.alpha:.0%} interval {test.low:.4f} to {test.high:.4f}"
        shown += f", {interval}, {over}"
        if self.outcome is GateOutcome.INCONCLUSIVE:
            return f"{text}, {against}, but not significantly ({shown})"
        return f"{text}, significantly {against} ({shown})"


def drops(
    before: ScoredRun,
    now: ScoredRun,
    places: Sequence[Place],
    max_drops: Sequence[float],
    cluster_by: str,
    alpha: float,
) -> list[Drop]:
    """Compares these numbers of two runs, query by query, as one family.

    `cluster_by` are the independent units, as in a comparison. Raises UsageError for other units,
    for runs that cannot be compared, and for numbers that one of them lacks.
    """
    blocks = list(dict.fromkeys(block for block, _, _ in places))
    if apart := differing(essentials((before, now), blocks)):
        names = f"{before.folder} / {now.folder}"
        raise UsageError(f"these runs cannot be compared ({names}): {'; '.join(map(str, apart))}")
    for block, metric, _ in places:
        require_depth((before, now), block, metric)
    about = before.rows(blocks[0])
    clusters = clusters_of(about.haystacks(), cluster_by)
    a, b = (
        np.stack([_values(run, place, about.queries) for place in places], axis=1)
        for run in (before, now)
    )
    over = "queries" if clusters is None else "haystacks"
    return drops_of(a, b, max_drops, clusters, over, alpha)


def drops_of(
    before: Values,
    now: Values,
    max_drops: Sequence[float],
    clusters: Sequence[str] | None,
    cluster_by: str,
    alpha: float,
) -> list[Drop]:
    """Returns the `drops` of matrices (queries, numbers), NaN for missing values."""
    differences = before - now
    differences[np.abs(differences) <= EQUAL] = 0.0
    tests = margin_tests(differences, max_drops, clusters, alpha=alpha)
    both = ~np.isnan(differences)
    means = [
        float(before[both[:, at], at].mean()) if test.clusters else math.nan
        for at, test in enumerate(tests)
    ]
    return corrected_drops(tests, means, max_drops, [cluster_by] * len(tests), alpha)


def corrected_drops(
    tests: Sequence[MarginTest],
    before: Sequence[float],
    max_drops: Sequence[float],
    cluster_by: Sequence[str],
    alpha: float,
) -> list[Drop]:
    """Returns the drops of tests, with Holm's correction of `p_above` over all of them."""
    p = holm([1.0 if math.isnan(test.p_above) else test.p_above for test in tests]).tolist()
    columns = zip(before, max_drops, tests, p, cluster_by, strict=True)
    return [Drop(*column, tests=len(tests), alpha=alpha) for column in columns]


def _values(run: ScoredRun, place: Place, order: Sequence[str]) -> Values:
    """One number of a run by query, NaN outside its slice."""
    block, metric, name = place
    found = run.blocks[block].find(metric, name)
    if found is None or found.value is None:
        raise UsageError(f"{run.folder}: has no {metric} over {name!r}, or cannot measure it")
    rows = run.rows(block)
    values = rows.values(metric, order)
    place_of = {query: at for at, query in enumerate(rows.queries)}
    mask = slice_masks(rows, by_category=True)[name]
    inside = [query in place_of and mask[place_of[query]] for query in order]
    return np.where(inside, values, np.nan)
