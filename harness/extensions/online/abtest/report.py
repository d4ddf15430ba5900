"""Report of split traffic: compares each metric of two arms, and checks the split.

It is available as a record, and as text for a terminal of at most 100 columns.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TypeVar

import numpy as np
from msgspec.structs import replace

from harness.errors import UsageError
from harness.extensions.online.abtest.event_log import Flags, RecordColumns
from harness.extensions.online.abtest.plan import ABTestPlan, Bounds
from harness.io.records import Record
from harness.io.terminal import grid
from harness.stats.betting import balanced, betting_interval, betting_p
from harness.stats.clusters import Ints, Values, as_columns, to_clusters
from harness.stats.intervals import FEW_EVENTS_T, events_of
from harness.stats.power import UnpairedPower
from harness.stats.proportions import SampleRatio, holm, sample_ratio
from harness.stats.unpaired import UnpairedComparison, compare_unpaired

FAILED = "failed"
"""Name of the metric that is 1 for a failed request (its system raised an error)."""

MAX_CROSSED = 0.01  # share of units seen in both arms above which no winner is named
WIDTH = 100


class SplitMetric(Record, omit_defaults=False):
    """One metric in both arms. Every unit counts once, by the mean of its records.

    `difference` is a - b; `low`, `high` and `p` are valid for one look at a fixed number of units,
    the `anytime_` fields at any time, for metrics with bounds. The `_holm` fields are adjusted over
    the metrics of the plan and `failed`. `effect_size` is Cohen's d over units. `required_n` units
    of both arms detect `min_effect` with 80% power, the present units `min_detectable_effect`.
    `failures_excluded` counts failed requests without a value. None means not measurable.
    """

    name: str
    mean_a: float | None
    mean_b: float | None
    units_a: int
    units_b: int
    difference: float | None
    low: float | None
    high: float | None
    method: str
    p: float | None
    p_holm: float | None
    effect_size: float | None
    anytime_low: float | None
    anytime_high: float | None
    anytime_p: float | None
    anytime_p_holm: float | None
    min_effect: float | None
    required_n: int | None
    required_n_anytime: int | None
    min_detectable_effect: float | None
    min_detectable_effect_anytime: float | None
    note: str
    failures_excluded: int = 0


class SplitReport(Record, omit_defaults=False, tag="split"):
    """A report of split traffic; `str` is its text for a terminal.

    `crossed` units were seen in both arms and are excluded, `misrouted` units were seen in the arm
    that the plan does not route them to, `repeated` counts later records of a unit that has one
    observation. `failures` are by arm and kind of error; if there are any, the last metric is
    `failed`, their share of a unit's requests. `damaged_lines` are incomplete, `duplicate_lines`
    repeat an earlier one. `errors` are the reasons why no winner is named.
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
    duplicate_lines: list[int]
    failures: dict[str, dict[str, int]]
    metrics: list[SplitMetric]
    errors: list[str]
    conclusion: str

    def __str__(self) -> str:
        return "\n".join(_lines(self))


# -- Analysis --------------------------------------------------------------------------------------


def split_report(plan: ABTestPlan, records: RecordColumns, level: float) -> SplitReport:
    """Compares the arms in every metric."""
    seen_a, seen_b = (
        np.bincount(records.unit[arm], minlength=len(records.unit_ids)) > 0
        for arm in (records.in_a, ~records.in_a)
    )
    crossed = seen_a & seen_b
    first = np.zeros(len(records.unit_ids), bool)  # a unit's first arm; units are in order of entry
    first[records.unit[::-1]] = records.in_a[::-1]
    router = plan.router()
    routed = np.array([router.arm(unit) == "a" for unit in records.unit_ids], bool)
    columns = dict(sorted(records.metrics.items()))
    failed = FAILED if FAILED not in columns else f"{FAILED} (raised)"
    if records.failed.any():  # an ordinary metric with values 0 and 1
        columns[failed] = (np.arange(len(records)), records.failed.astype(float))
    metrics, repeated = [], 0
    for name, (rows, values) in columns.items():
        kept = ~crossed[records.unit[rows]]
        rows, values = rows[kept], values[kept]
        if plan.one_observation_per_unit:
            once = np.sort(np.unique(records.unit[rows], return_index=True)[1])
            repeated += len(rows) - len(once) if name in records.metrics else 0
            rows, values = rows[once], values[once]
        bounds = plan.metrics.get(name) if name in records.metrics else (0.0, 1.0)
        metrics.append(_metric(plan, name, (rows, values), records, level, bounds))
    bounded = [name for name, bounds in plan.metrics.items() if bounds]
    for p, planned in (("p", plan.metrics), ("anytime_p", bounded)):
        given = [math.nan if getattr(m, p) is None else getattr(m, p) for m in metrics]
        # The family includes unseen metrics; a family that grows would undercorrect early looks.
        unseen = {*planned, failed} - {m.name for m in metrics if getattr(m, p) is not None}
        corrected = holm([*given, *(1.0 for _ in unseen)]).tolist()
        adjusted = zip(metrics, corrected[: len(metrics)], strict=True)
        metrics = [nonfinite_to_none(replace(m, **{f"{p}_holm": value})) for m, value in adjusted]
    report = SplitReport(
        plan=plan,
        level=level,
        records=len(records),
        first=records.first,
        last=records.last,
        units_a=int((seen_a & ~crossed).sum()),
        units_b=int((seen_b & ~crossed).sum()),
        ratio=sample_ratio(first, plan.split),
        crossed=int(crossed.sum()),
        misrouted=int(((routed & seen_b) | (~routed & seen_a)).sum()),
        repeated=repeated,
        damaged_lines=records.damaged,
        duplicate_lines=records.duplicates,
        failures=group_by_arm(records.errors),
        metrics=metrics,
        errors=[],
        conclusion="",
    )
    report = replace(report, errors=[*_errors(report)])
    return replace(report, conclusion=_conclusion(report))


def _metric(
    plan: ABTestPlan,
    name: str,
    column: tuple[Ints, Values],
    records: RecordColumns,
    level: float,
    bounds: Bounds,
) -> SplitMetric:
    rows, values = column
    # Units are numbered in the order of their first records.
    _, first, unit = np.unique(records.unit[rows], return_index=True, return_inverse=True)
    own = np.bincount(unit, values) / np.bincount(unit)
    in_a = records.in_a[rows[first]]
    a, b = own[in_a], own[~in_a]
    binary = bool(np.isin(own, (0, 1)).all())
    [fixed] = compare_unpaired(a, b, level=level, proportions=binary)
    p, low, high = _anytime(own, in_a, plan.split, bounds, level)
    spread_a, spread_b = (float(np.std(x, ddof=1)) if len(x) > 1 else math.nan for x in (a, b))
    power = UnpairedPower(
        spread_a, spread_b, plan.split, level, span=bounds[1] - bounds[0] if bounds else None
    )
    effect, units = plan.min_effects.get(name), len(own)
    return nonfinite_to_none(
        SplitMetric(
            name=name,
            mean_a=fixed.mean_a,
            mean_b=fixed.mean_b,
            units_a=len(a),
            units_b=len(b),
            difference=fixed.difference,
            low=fixed.low,
            high=fixed.high,
            method=fixed.method,
            p=fixed.p,
            p_holm=None,
            effect_size=fixed.effect_size,
            anytime_p=p,
            anytime_low=low,
            anytime_high=high,
            anytime_p_holm=None,
            min_effect=effect,
            required_n=_required_n(power, name, effect),
            required_n_anytime=_required_n(power, name, effect, any_time=True),
            min_detectable_effect=power.detectable(units),
            min_detectable_effect_anytime=power.detectable(units, any_time=True),
            note=_note(fixed, a, b, bounds),
            failures_excluded=int(records.failed.sum() - records.failed[rows].sum()),
        )
    )


def _anytime(
    own: Values, in_a: Flags, split: float, bounds: Bounds, level: float
) -> tuple[float, float, float]:
    """Returns p and the interval that are valid at any time, for unit means; NaN without bounds.

    They are exact at a single look. Validity over all looks is proved for units that are seen once,
    and simulated for units that return (`tests/benchmarks/ab_power.md`).
    """
    if bounds is None or not len(own):
        return math.nan, math.nan, math.nan
    stream, reach = balanced(np.clip(own, *bounds), in_a, split, bounds)  # rounded sums
    low, high = betting_interval(stream, reach, level=level)
    span = bounds[1] - bounds[0]
    return float(betting_p(stream, 0, reach)[-1]), max(low, -span), min(high, span)


def _note(fixed: UnpairedComparison, a: Values, b: Values, bounds: Bounds) -> str:
    """Describes what is approximate, and why there is no anytime-valid p."""
    notes = [fixed.note.replace("observations", "units")]
    if not fixed.note and fixed.method == "welch":
        events = [float(events_of(to_clusters(as_columns(x)))[0]) for x in (a, b)]
        if min(events) < FEW_EVENTS_T:
            notes = ["single look: approximate, a few units carry the spread of an arm"]
    if bounds is None:
        notes.append(
            "no bounds in the plan, so no anytime-valid result; give (lowest, highest) in metrics= "
            "of a new test"
        )
    return "; ".join(filter(None, notes))


def _required_n(
    power: UnpairedPower, name: str, effect: float | None, *, any_time: bool = False
) -> int | None:
    try:
        return power.units_needed(effect, any_time=any_time) if effect else None
    except ValueError as error:
        raise UsageError(
            f"the minimum effect of {name!r} is {effect:g}: {error}; set a larger one with "
            "--min-effect"
        ) from None


R = TypeVar("R", bound=Record)


def nonfinite_to_none(record: R) -> R:
    """Replaces values of a record that are not measurable (NaN, infinite) by None."""
    values = {name: getattr(record, name) for name in record.__struct_fields__}
    odd = [n for n, v in values.items() if isinstance(v, float) and not math.isfinite(v)]
    return replace(record, **dict.fromkeys(odd))


def group_by_arm(kinds: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    """Groups counts of failures by arm and kind of error; empty without failures."""
    found: dict[str, dict[str, int]] = {"a": {}, "b": {}} if kinds else {}
    for (arm, kind), n in sorted(kinds.items()):
        found[arm][kind] = n
    return found


# -- Conclusions -----------------------------------------------------------------------------------


def _errors(report: SplitReport) -> Iterator[str]:
    ratio = report.ratio
    if ratio.mismatch:
        yield (
            f"sample-ratio mismatch: {ratio.units_a} and {ratio.units_b} units for a split of "
            f"{report.plan.split:g} (anytime p {ratio.anytime_p:.1g})"
        )
    units = ratio.units_a + ratio.units_b
    if report.crossed > MAX_CROSSED * units:
        yield f"{report.crossed} of {units} units were seen in both arms"


def _conclusion(report: SplitReport) -> str:
    """Returns one or two sentences; they claim no more than the always-valid p values do."""
    if report.errors:
        return (
            f"No winner is named: {'; '.join(report.errors)}. Find the cause first; it may explain "
            "the differences above."
        )
    if not report.metrics:
        return "No records yet."
    alpha = 1 - report.level
    shown = [m for m in report.metrics if _is_below(m.anytime_p_holm, alpha)]
    if shown:
        return " ".join(_difference(report, m) for m in shown)
    text = "No significant difference yet; this does not show that the systems are equal"
    if all(m.anytime_p is None for m in report.metrics):
        text = "No anytime-valid conclusion: no metric has bounds (metrics= of the test)"
    if once := [m.name for m in report.metrics if _is_below(m.p_holm, alpha)]:
        text += single_look(alpha, f" in {', '.join(once)}")
    return text + "."


def _difference(report: SplitReport, m: SplitMetric) -> str:
    assert m.anytime_low is not None and m.anytime_high is not None
    # Signs follow the tested estimate, which differs from the difference of means shown with it.
    more_a = m.anytime_low + m.anytime_high > 0
    high, low = (report.plan.a, report.plan.b)[:: 1 if more_a else -1]
    tested = (
        f"a - b {format_interval(m.anytime_low, m.anytime_high)}, p {p_value(m.anytime_p_holm)}, "
        "anytime-valid"
    )
    if report.failures and m is report.metrics[-1]:
        return f"Significant: {high} fails more often than {low} ({tested})."
    excluded = "; failed requests excluded" if m.failures_excluded else ""
    return f"Significant: {high} has a higher {m.name} than {low} ({tested}{excluded})."


def single_look(alpha: float, where: str = "") -> str:
    """Returns the caveat for a low p at a single look."""
    return (
        f". The single-look p is below {alpha:.2g}{where}; it is valid only if the number of units "
        "was fixed in advance and nobody looked earlier"
    )


def _is_below(p: float | None, alpha: float) -> bool:
    return p is not None and p <= alpha


# -- Text ------------------------------------------------------------------------------------------


def _lines(report: SplitReport) -> Iterator[str]:
    plan, ratio = report.plan, report.ratio
    share = f"{100 * plan.split:g}/{100 - 100 * plan.split:g}"
    yield from wrap_text(heading(plan, f"split {share}", report.first, report.last))
    yield from wrap_text(
        f"{report.records:,} records of {ratio.units_a + ratio.units_b:,} units "
        f"({plan.randomization_unit}): {ratio.units_a:,} in a, {ratio.units_b:,} in b; sample "
        f"ratio {'MISMATCH' if ratio.mismatch else 'as planned'} (anytime p "
        f"{p_value(ratio.anytime_p)}, single-look p {p_value(ratio.p)})"
    )
    for note in _notes(report):
        yield from wrap_text(f"note: {note}")
    if report.metrics:
        size = f"{100 * report.level:g}%"
        head = ["metric", "a", "b", "a - b", "d", f"one look: {size}", "p", f"anytime: {size}", "p"]
        sizes = ["metric", "units a", "units b", "detectable", "anytime", "min. effect"]
        yield from ("", grid([_differences(m) for m in report.metrics], head), "")
        yield grid([_sizes(m) for m in report.metrics], [*sizes, "required n", "anytime"])
        yield from ("", *wrap_text(_method(report)))
    yield from ("", *wrap_text(report.conclusion))


def _differences(m: SplitMetric) -> list[str]:
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


def _sizes(m: SplitMetric) -> list[str]:
    """Formats the units, detectable effects and required units of a metric."""
    effects = (m.min_detectable_effect, m.min_detectable_effect_anytime, m.min_effect)
    required = ("-" if n is None else f"{n:,}" for n in (m.required_n, m.required_n_anytime))
    return [m.name, f"{m.units_a:,}", f"{m.units_b:,}", *map(number, effects), *required]


def _notes(report: SplitReport) -> Iterator[str]:
    yield from excluded_lines(report.damaged_lines, report.duplicate_lines)
    if report.crossed:
        yield f"{report.crossed} units were seen in both arms and are excluded"
    if report.misrouted:
        yield f"{report.misrouted} units were not seen in the arm that this test routes them to"
    if report.repeated:
        yield f"{report.repeated} later records of a unit are excluded"
    if report.failures:
        yield f"{failures_text(report.plan, report.failures)}; {_counted_as(report)}"
    for m in report.metrics:
        if m.note:
            yield f"{m.name}: {m.note}"


def _counted_as(report: SplitReport) -> str:
    """Describes how failures count in the metrics."""
    values = report.plan.failure_values()
    counted = [f"{values[m.name]:g} in {m.name}" for m in report.metrics if m.name in values]
    without = [m.name for m in report.metrics if m.failures_excluded]
    parts = [f"each counts as {', '.join(counted)}"] if counted else []
    if without:
        parts.append(
            f"they are excluded from {', '.join(without)}, which may favour the failing system "
            "(on_failure= of the test sets a value)"
        )
    return "; ".join(parts)


def _method(report: SplitReport) -> str:
    methods = {m.method for m in report.metrics}
    tests = {"welch": "Welch's t", "two-proportion": "the two-proportion z"}
    return (
        "A unit counts once, by the mean of its records. One look: "
        f"{' or '.join(tests[one] for one in tests if one in methods)}, valid only at a single "
        "look, at a number of units fixed in advance. Anytime: betting, for metrics with bounds, "
        f"valid however often you look. p: Holm over the planned metrics and `{FAILED}`; intervals "
        "are not corrected. Detectable, required (units of both arms): with 80% power."
    )


def heading(plan: ABTestPlan, method: str, first: float | None, last: float | None) -> str:
    """Returns the heading: the test, its systems and its time."""
    when = ""
    if first is not None and last is not None:
        start, end = (f"{datetime.fromtimestamp(t, UTC):%Y-%m-%d %H:%M}" for t in (first, last))
        if start[:10] == end[:10]:
            end = end[11:]  # do not repeat the day
        when = f", {start} UTC" if start.endswith(end) else f", {start} to {end} UTC"
    return f"A/B test {plan.name}: a = {plan.a}, b = {plan.b}, {method}{when}"


def excluded_lines(damaged: list[int], duplicates: list[int]) -> Iterator[str]:
    """Describes the lines of a log that are excluded."""
    for lines, why in ((damaged, "are incomplete"), (duplicates, "repeat an earlier line")):
        if lines:
            shown = ", ".join(map(str, lines[:5])) + (", ..." if len(lines) > 5 else "")
            yield f"{len(lines)} lines of the log {why} and were excluded (line {shown})"


def failures_text(plan: ABTestPlan, failures: Mapping[str, Mapping[str, int]]) -> str:
    """Formats how often each system failed, and with which errors."""
    parts = []
    for arm, system in (("a", plan.a), ("b", plan.b)):
        kinds = failures[arm]
        how = f" ({', '.join(f'{n:,} {kind}' for kind, n in kinds.items())})" if kinds else ""
        parts.append(f"{system} {sum(kinds.values()):,}{how}")
    return f"FAILURES: {', '.join(parts)}"


def wrap_text(text: str) -> list[str]:
    """Wraps a text; continuation lines are indented."""
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def number(value: float | None, *, sign: bool = False) -> str:
    """Formats a number in significant digits; `-` if not measurable."""
    if value is None:
        return "-"
    size, plus = abs(value), "+" if sign else ""
    if size >= 1000:
        return f"{value:{plus},.0f}"
    if size >= 100:
        return f"{value:{plus}.1f}"
    return f"{value:{plus}.1e}" if 0 < size < 0.001 else f"{value:{plus}.3f}"


def format_interval(low: float | None, high: float | None) -> str:
    """Formats an interval."""
    if low is None or high is None:
        return "-"
    return f"{number(low, sign=True)} to {number(high, sign=True)}"


def p_value(p: float | None) -> str:
    """Formats a p value; never 0."""
    if p is None:
        return "-"
    if p < 0.0001:
        return "<0.0001"
    return f"{p:.4f}" if p < 0.01 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"
