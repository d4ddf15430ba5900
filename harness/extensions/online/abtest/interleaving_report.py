"""Report of an interleaved test, as a record and as text: which system gets more clicks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist

import numpy as np
from msgspec.structs import replace

from harness.extensions.online.abtest.event_log import RecordColumns
from harness.extensions.online.abtest.plan import ABTestPlan
from harness.extensions.online.abtest.report import (
    excluded_lines,
    failures_text,
    format_interval,
    group_by_arm,
    heading,
    nonfinite_to_none,
    number,
    p_value,
    single_look,
    wrap_text,
)
from harness.io.records import Record
from harness.io.terminal import grid
from harness.scoring.score_columns import name_clusters
from harness.stats.betting import betting_interval, betting_p, shown_from
from harness.stats.clusters import Values
from harness.stats.intervals import mean_intervals
from harness.stats.proportions import binomial_p


class InterleavingReport(Record, omit_defaults=False, tag="interleaving"):
    """A report of an interleaved test; `str` is its text for a terminal.

    The team with more clicks wins an impression. `for_a`, `for_b` and `for_none` count units by the
    team that won more of their impressions; `p` is the exact sign test on them, without ties.
    `preference` is (wins of a + ties / 2) / impressions - 1/2, averaged over units (Chapelle,
    Joachims, Radlinski & Yue 2012). These and the interval are valid for one look at a fixed number
    of units; the `anytime_` fields at any time. `min_detectable_preference` has 80% power.
    `repeated` counts later impressions of a unit that has one observation. A system that raised an
    error (`failures`, by arm and kind) loses the impression.
    """

    plan: ABTestPlan
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
    method: str
    note: str
    anytime_p: float
    anytime_low: float
    anytime_high: float
    min_detectable_preference: float | None
    repeated: int
    damaged_lines: list[int]
    duplicate_lines: list[int]
    failures: dict[str, dict[str, int]]
    conclusion: str

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def interleaving_report(
    plan: ABTestPlan, records: RecordColumns, level: float
) -> InterleavingReport:
    """Analyses wins by impressions and by units.

    An impression is 1, 0 or -1, and the means of units have the mean 0 under the null. A betting
    test on them is exact at a single look. Validity over all looks is proved for units with one
    impression, and simulated for units with several.
    """
    outcome, unit = np.sign(-np.diff(records.clicks)[:, 0]).astype(float), records.unit
    if plan.one_observation_per_unit:
        _, kept = np.unique(unit, return_index=True)
        kept.sort()
        outcome, unit = outcome[kept], unit[kept]
    codes, at = np.unique(unit, return_inverse=True)
    net = np.bincount(at, outcome, len(codes))
    own = net / np.bincount(at, minlength=len(codes)) / 2  # by first record of each unit
    for_a, for_b = int((net > 0).sum()), int((net < 0).sum())
    [interval] = mean_intervals(own + 0.5, bounds=(0, 1), level=level)
    low, high = betting_interval(own, (-0.5, 0.5), level=level)
    report = InterleavingReport(
        plan=plan,
        level=level,
        impressions=len(outcome),
        first=records.first,
        last=records.last,
        units=len(codes),
        wins_a=int((outcome > 0).sum()),
        wins_b=int((outcome < 0).sum()),
        ties=int((outcome == 0).sum()),
        for_a=for_a,
        for_b=for_b,
        for_none=len(codes) - for_a - for_b,
        p=binomial_p(for_a, for_a + for_b),
        preference=interval.value - 0.5,
        low=interval.low - 0.5,
        high=interval.high - 0.5,
        method=name_clusters(interval.how, "units"),
        note=name_clusters(interval.note, "units"),
        anytime_p=float(betting_p(own, 0, (-0.5, 0.5))[-1]) if len(own) else 1.0,
        anytime_low=low,
        anytime_high=high,
        min_detectable_preference=_detectable(own, level),
        repeated=len(records) - len(outcome),
        damaged_lines=records.damaged,
        duplicate_lines=records.duplicates,
        failures=group_by_arm(records.errors),
        conclusion="",
    )
    report = nonfinite_to_none(report)
    return replace(report, conclusion=_conclusion(report))


def _detectable(own: Values, level: float) -> float:
    """Returns the smallest preference that betting on as many such units detects at 80% power."""
    units, half = len(own), 0.5
    spread = float(np.std(own, ddof=1)) if units > 1 else 0.0
    if not spread:
        return math.nan
    least = half * shown_from(units, spread / half, level)
    found = least + NormalDist().inv_cdf(0.8) * spread / math.sqrt(units)
    return found if found <= half else math.inf


def _conclusion(report: InterleavingReport) -> str:
    """Returns one sentence; it claims no more than the always-valid p and interval do."""
    if not report.impressions:
        return "No records yet."
    alpha = 1 - report.level
    if report.anytime_p <= alpha:
        winner = report.plan.a if report.anytime_low + report.anytime_high > 0 else report.plan.b
        more = (
            f"{winner} wins more impressions, by clicks and failures of the other system"
            if report.failures
            else f"readers click more on {winner}"
        )
        return (
            f"Significant: {more} (preference "
            f"{number(report.preference, sign=True)}, anytime p {p_value(report.anytime_p)})."
        )
    text = "No significant preference yet; this does not show that readers have none"
    if report.p <= alpha:
        text += single_look(alpha)
    return text + "."


def _lines(report: InterleavingReport) -> Iterator[str]:
    plan = report.plan
    yield from wrap_text(heading(plan, "team-draft interleaving", report.first, report.last))
    yield f"{report.impressions:,} impressions, {report.units:,} units ({plan.randomization_unit})"
    for note in excluded_lines(report.damaged_lines, report.duplicate_lines):
        yield from wrap_text(f"note: {note}")
    if report.repeated:
        yield f"note: {report.repeated} later impressions of a unit are excluded"
    if report.failures:
        text = failures_text(plan, report.failures)
        yield from wrap_text(f"note: {text}; a system loses the impressions in which it failed")
    yield ""
    won = {
        "impressions": (report.wins_a, report.wins_b, report.ties),
        "units": (report.for_a, report.for_b, report.for_none),
    }
    rows = [[what, *(f"{n:,}" for n in counts)] for what, counts in won.items()]
    yield from (grid(rows, ["won by", "a", "b", "neither"]), "")
    yield (
        f"preference for a {number(report.preference, sign=True)} (from -0.5, always b, to 0.5); "
        f"detectable (anytime) {number(report.min_detectable_preference)}"
    )
    for when, low, high, p in (
        ("one look", report.low, report.high, report.p),
        ("anytime", report.anytime_low, report.anytime_high, report.anytime_p),
    ):
        interval = f"{100 * report.level:g}% {format_interval(low, high)}"
        yield f"  {when:<14}  {interval}, p {p_value(p)}"
    yield ""
    approximate = f" (approximate: {report.note})" if report.note else ""
    yield from wrap_text(
        "A unit counts once, by the mean of its impressions. One look: exact sign test on units, "
        f"without ties; interval: {report.method}{approximate}; valid only at a single look, at a "
        "number of units fixed in advance. Anytime: betting, valid however often you look. "
        "Detectable: with 80% power."
    )
    yield ""
    yield from wrap_text(report.conclusion)
