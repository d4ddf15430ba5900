"""What split traffic showed, as data and as a page of a terminal, at most 100 columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from harness.live.abtest.plan import Plan
from harness.live.abtest.text import between, failures_said, heading, number, p_value, wrapped
from harness.scoring.grid import grid
from harness.statistics.proportions import SampleRatio
from harness.statistics.sequential import MINIMUM

FAILED = "failed"
"""What the metric is called that is 1 where an arm's system raised."""

PERMUTED_TO = 2_000  # units up to which the permutation test is made too
CROSSED = 0.01  # share of units seen in both arms from which on no winner is named


@dataclass(frozen=True)
class SplitMetric:
    """One metric of both arms. Every unit counts once, by the mean of its own records.

    `difference` is a - b, with `low` and `high` and `p` of a fixed number of units, looked at once;
    `permutation_p` is None beyond 2,000 units. `always_low`, `always_high` and `always_p` may be
    looked at any time, `exact` says that they are more than asymptotic. The `_holm` ones are
    adjusted over the metrics of the test. `effect_size` is Cohen's d over units. `wanted` is the
    difference to show and `needed`, `needed_any_time` how many units in all show it with 80% power;
    `detectable`, `detectable_any_time` what the present units would; at any time these are of the
    mixture, and betting takes 20 to 30% more. `failures_without` are requests whose system failed
    that have no value in it. None is not measurable.
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
    always_low: float | None
    always_high: float | None
    always_p: float | None
    always_p_holm: float | None
    exact: bool
    wanted: float | None
    needed: int | None
    needed_any_time: int | None
    detectable: float | None
    detectable_any_time: float | None
    note: str
    failures_without: int = 0


@dataclass(frozen=True)
class SplitReport:
    """A report of split traffic; `str` is the page for a terminal.

    `crossed` units were seen in both arms and are in no comparison, `unrouted` ones were seen in
    another arm than the plan deals them to, `repeated` records are second ones of a unit that was
    to have one. `failures` are the requests whose system raised, by arm and kind of error; there is
    then a last metric `failed`, their share, and `failing` holds the units that met one against the
    split, exactly and at any time: that is its `always_p`. `damaged` are lines of the journal that
    are not whole.
    """

    plan: Plan
    level: float
    records: int
    first: float | None
    last: float | None
    units_a: int
    units_b: int
    ratio: SampleRatio
    crossed: int
    unrouted: int
    repeated: int
    damaged: list[int]
    failures: dict[str, dict[str, int]]
    failing: SampleRatio | None
    metrics: list[SplitMetric]

    @property
    def trouble(self) -> list[str]:
        """Why no winner may be named; empty where the split held."""
        found = []
        if self.ratio.alarm:
            found.append(
                f"sample-ratio mismatch: {self.ratio.units_a} and {self.ratio.units_b} units of a "
                f"split of {self.plan.split:g} (p {self.ratio.always_p:.1g} at any time)"
            )
        units = self.ratio.units_a + self.ratio.units_b
        if self.crossed > CROSSED * units:
            found.append(f"{self.crossed} of {units} units were seen in both arms")
        return found

    def __str__(self) -> str:
        return split_text(self)

    def as_dict(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            **asdict(self),
            "plan": self.plan.record(),
            "trouble": self.trouble,
            "conclusion": conclusion(self),
        }


def split_text(report: SplitReport) -> str:
    """Everything that a person has to see, the conclusion last."""
    return "\n".join(_lines(report))


def conclusion(report: SplitReport) -> str:
    """One plain sentence or two; it claims no more than the always-valid p values do."""
    if report.trouble:
        return (
            f"No winner is named: {'; '.join(report.trouble)}. Find out why before anything else; "
            "the figures above may come from that alone."
        )
    if not report.metrics:
        return "Nothing is recorded yet."
    alpha = 1 - report.level
    shown = [m for m in report.metrics if _below(m.always_p_holm, alpha)]
    if shown:
        return " ".join(_difference(report, m) for m in shown)
    said = (
        "No difference is shown yet, which does not say that the systems are the same"
        if any(m.always_low is not None for m in report.metrics)
        else f"Too early to say anything: it takes {MINIMUM} units in each arm, with some spread"
    )
    if once := [m.name for m in report.metrics if _below(m.p_holm, alpha)]:
        said += (
            f". The p of a single look is below {alpha:.2g} in {', '.join(once)}: that counts only "
            "if this number of units was fixed before and nobody looked earlier"
        )
    return said + "."


def _lines(report: SplitReport) -> Iterator[str]:
    plan, ratio = report.plan, report.ratio
    share = f"{100 * plan.split:g}/{100 - 100 * plan.split:g}"
    yield from wrapped(heading(plan, f"split {share}", report.first, report.last))
    yield from wrapped(
        f"{report.records:,} records of {ratio.units_a + ratio.units_b:,} units ({plan.unit}): "
        f"{ratio.units_a:,} in a, {ratio.units_b:,} in b; sample ratio "
        f"{'MISMATCH' if ratio.alarm else 'as planned'} (p {p_value(ratio.always_p)} at any time; "
        f"{p_value(ratio.p)} if looked at this single time)"
    )
    for note in _notes(report):
        yield from wrapped(f"note: {note}")
    if report.metrics:
        size = f"{100 * report.level:g}%"
        yield ""
        head = ["metric", "a", "b", "a - b", "d", f"once: {size}", "p", f"any time: {size}", "p"]
        rows = [_row(m) for m in report.metrics]
        yield grid(rows, head)
        yield ""
        yield from _sizes(report)
        yield ""
        yield from wrapped(_method(report))
    yield ""
    yield from wrapped(conclusion(report))


def _row(m: SplitMetric) -> list[str]:
    return [
        m.name,
        number(m.mean_a),
        number(m.mean_b),
        number(m.difference, sign=True),
        "-" if m.effect_size is None else f"{m.effect_size:+.2f}",
        between(m.low, m.high),
        p_value(m.p_holm),
        between(m.always_low, m.always_high),
        p_value(m.always_p_holm),
    ]


def _sizes(report: SplitReport) -> Iterator[str]:
    """Units of each metric, what they could show, and how many the wanted difference takes."""
    head = ["metric", "units a", "units b", "these can show", "any time", "wanted"]
    head += ["units needed", "any time"]
    rows = [
        [
            m.name,
            f"{m.units_a:,}",
            f"{m.units_b:,}",
            number(m.detectable),
            number(m.detectable_any_time),
            number(m.wanted),
            "-" if m.needed is None else f"{m.needed:,}",
            "-" if m.needed_any_time is None else f"{m.needed_any_time:,}",
        ]
        for m in report.metrics
    ]
    yield grid(rows, head)


def _notes(report: SplitReport) -> Iterator[str]:
    if report.damaged:
        shown = ", ".join(map(str, report.damaged[:5]))
        yield (
            f"{len(report.damaged)} lines of the journal are not whole and were left out "
            f"(line {shown}{', ...' if len(report.damaged) > 5 else ''}); a crash leaves such"
        )
    if report.crossed:
        yield f"{report.crossed} units were seen in both arms; they are in no comparison"
    if report.unrouted:
        yield f"{report.unrouted} units were seen in another arm than this test routes them to"
    if report.repeated:
        yield f"{report.repeated} records are second ones of a unit that was to have one; left out"
    if report.failures:
        yield f"{failures_said(report.plan, report.failures)}; {_counted_as(report)}"
    for m in report.metrics:
        if m.note:
            yield f"{m.name}: {m.note}"


def _counted_as(report: SplitReport) -> str:
    """How failures enter the metrics."""
    values = report.plan.of_failure()
    names = [m.name for m in report.metrics if m.name in values]
    counted = [f"{values[name]:g} in {name}" for name in names]
    without = [m.name for m in report.metrics if m.failures_without]
    parts = [f"each counts as {', '.join(counted)}"] if counted else []
    if without:
        parts.append(
            f"they have no value in {', '.join(without)}, of which the figures are over requests "
            "that did not fail, and may flatter who fails (failed= of the test sets a value)"
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
        + "Can show, needed: with 80% power; needed counts units of both arms"
        + (", at any time of the mixture; betting takes 20 to 30% more." if True in ways else ".")
    )


def _difference(report: SplitReport, m: SplitMetric) -> str:
    assert m.difference is not None
    high, low = (report.plan.a, report.plan.b)[:: 1 if m.difference > 0 else -1]
    if report.failing is not None and m is report.metrics[-1]:
        p = f"p {p_value(m.always_p_holm)} at any time"
        return f"Shown: {high} fails more often than {low} ({p})."
    interval = between(m.always_low, m.always_high)
    if m.always_low is None or m.always_high is None or m.always_low <= 0 <= m.always_high:
        return (
            f"A difference in {m.name} was shown at an earlier moment (p "
            f"{p_value(m.always_p_holm)}), but the interval of now, {interval}, holds 0 again: did "
            "something change on the way?"
        )
    return (
        f"Shown: {high} has the higher {m.name}, {low} the lower, by {number(abs(m.difference))} "
        f"(a - b {interval}, p {p_value(m.always_p_holm)}, at any time"
        f"{'; of requests that did not fail' if m.failures_without else ''})."
    )


def _below(p: float | None, alpha: float) -> bool:
    return p is not None and p <= alpha
