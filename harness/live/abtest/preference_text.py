"""The report of an interleaved test as a page of a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from harness.live.abtest.preference import PreferenceReport
from harness.live.abtest.text import between, heading, number, p_value, wrapped
from harness.statistics.sequential import MINIMUM


def preference_text(report: PreferenceReport) -> str:
    """Everything that a person has to see, the conclusion last."""
    return "\n".join(_lines(report))


def conclusion(report: PreferenceReport) -> str:
    """One plain sentence; it claims no more than the always-valid p does."""
    if not report.impressions:
        return "Nothing is recorded yet."
    alpha = 1 - report.level
    if report.always_p <= alpha and report.preference:
        winner = report.plan.a if report.preference > 0 else report.plan.b
        return (
            f"Shown: readers click more on {winner} (preference "
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
    from tabulate import tabulate

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
    yield ""
    rows = [
        ["impressions", *(f"{n:,}" for n in (report.wins_a, report.wins_b, report.ties))],
        ["units", *(f"{n:,}" for n in (report.for_a, report.for_b, report.for_none))],
    ]
    head = ["won by", "a", "b", "neither"]
    yield tabulate(rows, head, disable_numparse=True, colalign=("left",) + ("right",) * 3)
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
