"""What interleaving shows: whose documents readers click."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from harness.abtest.plan import Plan
from harness.abtest.records import Clicks
from harness.statistics.betting import betting_interval, betting_p
from harness.statistics.intervals import mean_intervals
from harness.statistics.power import power_of
from harness.statistics.proportions import binomial_p
from harness.statistics.sequential import mean_sequence


@dataclass(frozen=True)
class PreferenceReport:
    """A report of an interleaved test; `str` is the page for a terminal.

    An impression is won by the team with more clicks. `for_a`, `for_b` and `for_none` are units, by
    which team won more of their impressions; `p` is the sign test on them, ties left out, exact.
    `preference` is (wins of a + ties / 2) / impressions - 1/2, the mean of each unit's own
    (Chapelle, Joachims, Radlinski & Yue 2012), from -0.5 to 0.5, with `low` and `high`. `p` and
    these are of a fixed number of units, looked at once; the `always_` ones may be looked at any
    time. `detectable` is the smallest preference that as many units show with 80% power.
    `repeated` impressions are second ones of a unit that was to have one.
    """

    plan: Plan
    level: float
    impressions: int
    first: float | None
    last: float | None
    units: int
    wins_a: int
    wins_b: int
    ties: int
    for_a: int
    for_b: int
    for_none: int
    p: float
    preference: float | None
    low: float | None
    high: float | None
    how: str
    always_p: float
    always_low: float | None
    always_high: float | None
    exact: bool
    detectable: float | None
    repeated: int
    damaged: list[int]

    def __str__(self) -> str:
        from harness.abtest.preference_text import preference_text

        return preference_text(self)

    def as_dict(self) -> dict[str, Any]:
        """The same for programs."""
        from harness.abtest.preference_text import conclusion

        return {**asdict(self), "plan": self.plan.record(), "conclusion": conclusion(self)}


def preference_report(plan: Plan, clicks: Clicks, level: float) -> PreferenceReport:
    """Who won, by impressions and by units.

    Over time the outcomes 1, 0 and -1 of impressions are a stream whose mean is 0 under the null.
    Where a unit has one impression a bet on it is exact; where units come back, it is the mean over
    units of their own, asymptotic.
    """
    outcome, unit = np.sign(clicks.a - clicks.b).astype(np.float64), clicks.unit
    if plan.once:
        _, kept = np.unique(unit, return_index=True)
        kept.sort()
        outcome, unit = outcome[kept], unit[kept]
    codes, at = np.unique(unit, return_inverse=True)
    net = np.bincount(at, outcome, len(codes))
    own = net / np.bincount(at, minlength=len(codes)) / 2
    for_a, for_b = int((net > 0).sum()), int((net < 0).sum())
    [interval] = mean_intervals(own, bounds=(-0.5, 0.5), level=level)
    [power] = power_of(own, level=level)
    always_p, low, high = 1.0, math.nan, math.nan
    if len(outcome) and plan.once:
        always_p = float(betting_p(outcome, 0, (-1, 1))[-1])
        low, high = betting_interval(outcome, (-1, 1), level=level)
    elif len(outcome):
        path = mean_sequence(outcome, unit, level=level, tuned_for=plan.expected)
        always_p, low, high = (float(values[-1]) for values in (path.p, path.low, path.high))
    return PreferenceReport(
        plan=plan,
        level=level,
        impressions=len(outcome),
        first=clicks.first,
        last=clicks.last,
        units=len(codes),
        wins_a=int((outcome > 0).sum()),
        wins_b=int((outcome < 0).sum()),
        ties=int((outcome == 0).sum()),
        for_a=for_a,
        for_b=for_b,
        for_none=len(codes) - for_a - for_b,
        p=binomial_p(for_a, for_a + for_b),
        preference=_known(interval.value),
        low=_known(interval.low),
        high=_known(interval.high),
        how=interval.how,
        always_p=always_p,
        always_low=_known(low / 2),
        always_high=_known(high / 2),
        exact=plan.once,
        detectable=_known(power.detectable),
        repeated=len(clicks) - len(outcome),
        damaged=clicks.damaged,
    )


def _known(value: float) -> float | None:
    """None for what is not measurable."""
    return value if math.isfinite(value) else None
