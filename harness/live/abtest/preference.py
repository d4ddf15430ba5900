"""What interleaving shows, as data and as a page of a terminal: whose documents readers click."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from harness.live.abtest.plan import Plan
from harness.live.abtest.records import Clicks
from harness.live.abtest.text import (
    between,
    by_arm,
    failures_said,
    heading,
    known,
    number,
    p_value,
    wrapped,
)
from harness.scoring.grid import grid
from harness.statistics.betting import betting_interval, betting_p
from harness.statistics.intervals import mean_intervals
from harness.statistics.power import power_of
from harness.statistics.proportions import binomial_p
from harness.statistics.sequential import MINIMUM, mean_sequence


@dataclass(frozen=True)
class PreferenceReport:
    """A report of an interleaved test; `str` is the page for a terminal.

    An impression is won by the team with more clicks. `for_a`, `for_b` and `for_none` are units, by
    which team won more of their impressions; `p` is the sign test on them, ties left out, exact.
    `preference` is (wins of a + ties / 2) / impressions - 1/2, the mean of each unit's own
    (Chapelle, Joachims, Radlinski & Yue 2012), from -0.5 to 0.5, with `low` and `high`. `p` and
    these are of a fixed number of units, looked at once; the `always_` ones may be looked at any
    time. `detectable` is the smallest preference that as many units show with 80% power.
    `repeated` impressions are second ones of a unit that was to have one. `failures`, by arm and
    kind of error, are impressions in which a system raised: each is lost by it.
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
    failures: dict[str, dict[str, int]]

    def __str__(self) -> str:
        return preference_text(self)

    def as_dict(self) -> dict[str, Any]:
        """The same for programs."""
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
        preference=known(interval.value),
        low=known(interval.low),
        high=known(interval.high),
        how=interval.how,
        always_p=always_p,
        always_low=known(low / 2),
        always_high=known(high / 2),
        exact=plan.once,
        detectable=known(power.detectable),
        repeated=len(clicks) - len(outcome),
        damaged=clicks.damaged,
        failures=by_arm(clicks.kinds),
    )


def preference_text(report: PreferenceReport) -> str:
    """Everything that a person has to see, the conclusion last."""
    return "\n".join(_lines(report))


def conclusion(report: PreferenceReport) -> str:
    """One plain sentence; it claims no more than the always-valid p and the interval of now do."""
    if not report.impressions:
        return "Nothing is recorded yet."
    alpha = 1 - report.level
    if report.always_p <= alpha:
        low, high = report.always_low, report.always_high
        if low is None or high is None or low <= 0 <= high:
            return (
                f"A preference was shown at an earlier moment (p {p_value(report.always_p)}), but "
                f"the interval of now, {between(low, high)}, holds 0 again: did something change "
                "on the way?"
            )
        winner = report.plan.a if low > 0 else report.plan.b
        more = (
            f"{winner} wins more impressions, by clicks and by the failures of the other"
            if report.failures
            else f"readers click more on {winner}"
        )
        return (
            f"Shown: {more} (preference "
            f"{number(report.preference, sign=True)}, p {p_value(report.always_p)} at any time)."
        )
    if not report.exact and report.units < MINIMUM:
        said = f"Too early to say anything at any time: it takes {MINIMUM} units"
    else:
        said = "No preference is shown yet, which does not say that readers have none"
    if report.p <= alpha:
        said += (
            f". The p of a single look is below {alpha:.2g}: that counts only if this number of "
            "units was fixed before and nobody looked earlier"
        )
    return said + "."


def _lines(report: PreferenceReport) -> Iterator[str]:
    plan = report.plan
    yield from wrapped(heading(plan, "team-draft interleaving", report.first, report.last))
    yield f"{report.impressions:,} impressions, {report.units:,} units ({plan.unit})"
    if report.damaged:
        yield f"note: {len(report.damaged)} lines of the journal are not whole and were left out"
    if report.repeated:
        yield (
            f"note: {report.repeated} impressions are second ones of a unit that was to have one; "
            "left out"
        )
    if report.failures:
        said = failures_said(plan, report.failures)
        yield from wrapped(f"note: {said}; an impression in which a system failed is lost by it")
    yield ""
    rows = [
        ["impressions", *(f"{n:,}" for n in (report.wins_a, report.wins_b, report.ties))],
        ["units", *(f"{n:,}" for n in (report.for_a, report.for_b, report.for_none))],
    ]
    head = ["won by", "a", "b", "neither"]
    yield grid(rows, head)
    yield ""
    size = f"{100 * report.level:g}%"
    yield (
        f"preference for a {number(report.preference, sign=True)} (from -0.5, always b, to 0.5); "
        f"these units can show {number(report.detectable)}"
    )
    yield f"  looked at once  {size} {between(report.low, report.high)}, p {p_value(report.p)}"
    yield (
        f"  at any time     {size} {between(report.always_low, report.always_high)}, "
        f"p {p_value(report.always_p)}"
    )
    yield ""
    always = (
        "betting (exact)"
        if report.exact
        else f"the normal mixture over units (asymptotic, from {MINIMUM} units)"
    )
    yield from wrapped(
        "A unit counts once, by the mean of its impressions. Once: sign test on units, ties left "
        f"out (exact); interval by {report.how}; right only if looked at a single time, at a "
        f"number of units fixed before. Any time: {always}. Can show: with 80% power."
    )
    yield ""
    yield from wrapped(conclusion(report))
