"""The report of split traffic, as a record and as text for a terminal, at most 100 columns."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from harness.extensions.online.abtest.plan import ABTestPlan
from harness.extensions.online.abtest.text import (
    failures_text,
    format_interval,
    heading,
    no_longer_shown,
    number,
    p_value,
    single_look,
    wrap_text,
)
from harness.io.records import Record
from harness.scoring.grid import grid
from harness.stats.proportions import SampleRatio
from harness.stats.sequential import MINIMUM

FAILED = "failed"
"""Name of the metric that is 1 for a request whose system raised."""

MAX_PERMUTED = 2_000  # units up to which there is a permutation test
MAX_CROSSED = 0.01  # share of units seen in both arms above which no winner is named


class SplitMetric(Record, omit_defaults=False):
    """One metric of both arms. Every unit counts once, by the mean of its own records.

    `difference` is a - b, with `low`, `high` and `p` of a fixed number of units, looked at once;
    `permutation_p` is None beyond 2,000 units. `anytime_low`, `anytime_high` and `anytime_p` are
    valid at any time; `exact`: they are not only asymptotic. The `_holm` ones are adjusted over the
    metrics of the test. `effect_size` is Cohen's d over units. `min_effect` is the difference to
    detect, and `required_n` and `required_n_anytime` the units of both arms that detect it with 80%
    power; `min_detectable_effect` and `min_detectable_effect_anytime` are what the present units
    can detect; at any time these are of the mixture, and betting takes 20 to 30% more.
    `failures_excluded` are failed requests without a value. None is not measurable.
    """

    name: str
    mean_a: float | None
    mean_b: float | None
    units_a: int
    units_b: int
    records_a: int
    records_b: int
    difference: float | None
    low: float | None
    high: float | None
    method: str
    p: float | None
    p_holm: float | None
    permutation_p: float | None
    effect_size: float | None
    anytime_low: float | None
    anytime_high: float | None
    anytime_p: float | None
    anytime_p_holm: float | None
    exact: bool
    min_effect: float | None
    required_n: int | None
    required_n_anytime: int | None
    min_detectable_effect: float | None
    min_detectable_effect_anytime: float | None
    note: str
    failures_excluded: int = 0


class SplitReport(Record, omit_defaults=False, tag="split"):
    """A report of split traffic; `str` is its text for a terminal.

    `crossed` units were seen in both arms and are in no comparison, `misrouted` ones were seen in
    another arm than the plan routes them to, `repeated` records are second ones of a unit that has
    one observation. `failures` are the requests whose system raised, by arm and kind of error;
    there is then a last metric `failed`, their share, and `failure_ratio` tests the units with a
    failure against the split, exactly and at any time: that is its `anytime_p`. `damaged_lines` of
    the log are not whole. `errors` are the reasons to name no winner.
    """

    plan: ABTestPlan
    level: float
    records: int
    first: float | None
    last: float | None
    units_a: int
    units_b: int
    ratio: SampleRatio
    crossed: int
    misrouted: int
    repeated: int
    damaged_lines: list[int]
    failures: dict[str, dict[str, int]]
    failure_ratio: SampleRatio | None
    metrics: list[SplitMetric]
    errors: list[str]
    conclusion: str

    def __str__(self) -> str:
        return split_text(self)


def with_conclusion(report: SplitReport) -> SplitReport:
    """Adds the errors and the conclusion to a report."""
    report = replace(report, errors=[*_errors(report)])
    return replace(report, conclusion=_conclusion(report))


def _errors(report: SplitReport) -> Iterator[str]:
    ratio = report.ratio
    if ratio.mismatch:
        yield (
            f"sample-ratio mismatch: {ratio.units_a} and {ratio.units_b} units of a split of "
            f"{report.plan.split:g} (p {ratio.anytime_p:.1g} at any time)"
        )
    units = ratio.units_a + ratio.units_b
    if report.crossed > MAX_CROSSED * units:
        yield f"{report.crossed} of {units} units were seen in both arms"


def split_text(report: SplitReport) -> str:
    """Formats a report, the conclusion last."""
    return "\n".join(_lines(report))


def _conclusion(report: SplitReport) -> str:
    """Returns one or two sentences; they claim no more than the always-valid p values do."""
    if report.errors:
        return (
            f"No winner is named: {'; '.join(report.errors)}. Find out why before anything else; "
            "the figures above may come from that alone."
        )
    if not report.metrics:
        return "Nothing is recorded yet."
    alpha = 1 - report.level
    shown = [m for m in report.metrics if _below(m.anytime_p_holm, alpha)]
    if shown:
        return " ".join(_difference(report, m) for m in shown)
    text = (
        "No difference is shown yet, which does not show that the systems are equal"
        if any(m.anytime_low is not None for m in report.metrics)
        else f"Too early to say anything: it takes {MINIMUM} units in each arm, with some spread"
    )
    if once := [m.name for m in report.metrics if _below(m.p_holm, alpha)]:
        text += single_look(alpha, f" in {', '.join(once)}")
    return text + "."


def _lines(report: SplitReport) -> Iterator[str]:
    plan, ratio = report.plan, report.ratio
    share = f"{100 * plan.split:g}/{100 - 100 * plan.split:g}"
    yield from wrap_text(heading(plan, f"split {share}", report.first, report.last))
    yield from wrap_text(
        f"{report.records:,} records of {ratio.units_a + ratio.units_b:,} units "
        f"({plan.randomization_unit}): {ratio.units_a:,} in a, {ratio.units_b:,} in b; sample "
        f"ratio {'MISMATCH' if ratio.mismatch else 'as planned'} (p {p_value(ratio.anytime_p)} at "
        f"any time; {p_value(ratio.p)} if looked at this single time)"
    )
    for note in _notes(report):
        yield from wrap_text(f"note: {note}")
    if report.metrics:
        size = f"{100 * report.level:g}%"
        yield ""
        head = ["metric", "a", "b", "a - b", "d", f"once: {size}", "p", f"any time: {size}", "p"]
        rows = [_row(m) for m in report.metrics]
        yield grid(rows, head)
        yield ""
        yield from _sizes(report)
        yield ""
        yield from wrap_text(_method(report))
    yield ""
    yield from wrap_text(report.conclusion)


def _row(m: SplitMetric) -> list[str]:
    return [
        m.name,
        number(m.mean_a),
        number(m.mean_b),
        number(m.difference, sign=True),
        "-" if m.effect_size is None else f"{m.effect_size:+.2f}",
        format_interval(m.low, m.high),
        p_value(m.p_holm),
        format_interval(m.anytime_low, m.anytime_high),
        p_value(m.anytime_p_holm),
    ]


def _sizes(report: SplitReport) -> Iterator[str]:
    """Yields the table of units, detectable effects and required units of each metric."""
    head = ["metric", "units a", "units b", "detectable", "any time"]
    head += ["min. effect", "required n", "any time"]
    rows = [
        [
            m.name,
            f"{m.units_a:,}",
            f"{m.units_b:,}",
            number(m.min_detectable_effect),
            number(m.min_detectable_effect_anytime),
            number(m.min_effect),
            "-" if m.required_n is None else f"{m.required_n:,}",
            "-" if m.required_n_anytime is None else f"{m.required_n_anytime:,}",
        ]
        for m in report.metrics
    ]
    yield grid(rows, head)


def _notes(report: SplitReport) -> Iterator[str]:
    if report.damaged_lines:
        shown = ", ".join(map(str, report.damaged_lines[:5]))
        yield (
            f"{len(report.damaged_lines)} lines of the log are not whole and were excluded "
            f"(line {shown}{', ...' if len(report.damaged_lines) > 5 else ''}); a crash leaves such"
        )
    if report.crossed:
        yield f"{report.crossed} units were seen in both arms; they are in no comparison"
    if report.misrouted:
        yield f"{report.misrouted} units were seen in another arm than this test routes them to"
    if report.repeated:
        yield f"{report.repeated} records are second observations of a unit; excluded"
    if report.failures:
        yield f"{failures_text(report.plan, report.failures)}; {_counted_as(report)}"
    for m in report.metrics:
        if m.note:
            yield f"{m.name}: {m.note}"


def _counted_as(report: SplitReport) -> str:
    """How failures enter the metrics."""
    values = report.plan.failure_values()
    names = [m.name for m in report.metrics if m.name in values]
    counted = [f"{values[name]:g} in {name}" for name in names]
    without = [m.name for m in report.metrics if m.failures_excluded]
    parts = [f"each counts as {', '.join(counted)}"] if counted else []
    if without:
        parts.append(
            f"they have no value in {', '.join(without)}, of which the figures are over requests "
            "that did not fail, and may flatter the failing system (on_failure= of the test sets "
            "a value)"
        )
    return "; ".join(
        [*parts, "p of failed at any time: by which arm the units that met one are of"]
    )


def _method(report: SplitReport) -> str:
    methods = {m.method for m in report.metrics}
    tests = " or ".join(
        name
        for method, name in (("welch", "Welch's t"), ("two-proportion", "the two-proportion z"))
        if method in methods
    )
    ways = {m.exact for m in report.metrics}
    always = " or ".join(
        name
        for exact, name in (
            (True, "betting (exact)"),
            (False, f"the normal mixture (asymptotic, from {MINIMUM} units an arm)"),
        )
        if exact in ways
    )
    several = len(report.metrics) > 1
    return (
        "A unit counts once, by the mean of its records. "
        f"Once: {tests}, right only if looked at a single time, at a number of units fixed before. "
        f"Any time: {always}, right however often one looks. "
        + (
            f"p: Holm over {len(report.metrics)} metrics; intervals are of each by itself. "
            if several
            else ""
        )
        + "Detectable, required: with 80% power; required counts units of both arms"
        + (", at any time of the mixture; betting takes 20 to 30% more." if True in ways else ".")
    )


def _difference(report: SplitReport, m: SplitMetric) -> str:
    assert m.difference is not None
    high, low = (report.plan.a, report.plan.b)[:: 1 if m.difference > 0 else -1]
    if report.failure_ratio is not None and m is report.metrics[-1]:
        p = f"p {p_value(m.anytime_p_holm)} at any time"
        return f"Shown: {high} fails more often than {low} ({p})."
    interval = format_interval(m.anytime_low, m.anytime_high)
    if m.anytime_low is None or m.anytime_high is None or m.anytime_low <= 0 <= m.anytime_high:
        what = f"A difference in {m.name}"
        return no_longer_shown(what, m.anytime_p_holm, m.anytime_low, m.anytime_high)
    return (
        f"Shown: {high} has the higher {m.name}, {low} the lower, by {number(abs(m.difference))} "
        f"(a - b {interval}, p {p_value(m.anytime_p_holm)}, at any time"
        f"{'; of requests that did not fail' if m.failures_excluded else ''})."
    )


def _below(p: float | None, alpha: float) -> bool:
    return p is not None and p <= alpha
