"""Analyses split traffic: compares each metric of two arms, and checks the split."""

from __future__ import annotations

import math

import numpy as np
from msgspec.structs import replace

from harness.errors import UsageError
from harness.extensions.online.abtest.event_log import Flags, MetricColumn, Observations
from harness.extensions.online.abtest.plan import ABTestPlan, Bounds
from harness.extensions.online.abtest.report import (
    FAILED,
    MAX_PERMUTED,
    SplitMetric,
    SplitReport,
    with_conclusion,
)
from harness.extensions.online.abtest.text import finite_or_none, group_by_arm
from harness.stats.betting import balanced, betting_interval, betting_p
from harness.stats.clusters import Ints, Values
from harness.stats.corrections import holm
from harness.stats.power import UnpairedPower
from harness.stats.proportions import SampleRatio, sample_ratio
from harness.stats.sequential import difference_sequence
from harness.stats.unpaired import compare_unpaired


def split_report(plan: ABTestPlan, records: Observations, level: float) -> SplitReport:
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
    columns = {
        name: _uncrossed(column, records, crossed) for name, column in records.metrics.items()
    }
    repeated = 0
    if plan.one_observation_per_unit:
        for name, column in columns.items():
            columns[name] = _firsts(column, records.unit)
            repeated += len(column.rows) - len(columns[name].rows)
    metrics = [
        _metric(plan, name, column, records, level, plan.bounds(name))
        for name, column in sorted(columns.items())
    ]
    failing = _failing(plan, records, crossed)
    if records.failed.any():  # a metric like any other, whose values are 0 and 1
        every = MetricColumn(np.arange(len(records)), records.failed.astype(float))
        every = _uncrossed(every, records, crossed)
        every = _firsts(every, records.unit) if plan.one_observation_per_unit else every
        name = FAILED if FAILED not in columns else f"{FAILED} (raised)"
        share = _metric(plan, name, every, records, level, (0, 1))
        # Where one arm never fails the mixture has no spread; the test of who failed is exact.
        metrics.append(replace(share, anytime_p=failing.anytime_p if failing else None))
    return with_conclusion(
        SplitReport(
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
            failures=group_by_arm(records.errors),
            failure_ratio=failing,
            metrics=_corrected(metrics),
            errors=[],
            conclusion="",
        )
    )


def _failing(plan: ABTestPlan, records: Observations, crossed: Flags) -> SampleRatio | None:
    """Tests the arms of the units with a failure, which follow the split if both fail alike."""
    rows = np.flatnonzero(records.failed & ~crossed[records.unit])
    _, at = np.unique(records.unit[rows], return_index=True)
    return sample_ratio(records.in_a[rows[np.sort(at)]], plan.split) if len(at) else None


def _uncrossed(column: MetricColumn, records: Observations, crossed: Flags) -> MetricColumn:
    """Returns the values of units that were seen in one arm only."""
    kept = ~crossed[records.unit[column.rows]]
    return column if kept.all() else MetricColumn(column.rows[kept], column.values[kept])


def _firsts(column: MetricColumn, unit: Ints) -> MetricColumn:
    """Returns the first value of each unit."""
    _, at = np.unique(unit[column.rows], return_index=True)
    at.sort()
    return MetricColumn(column.rows[at], column.values[at])


def _metric(
    plan: ABTestPlan,
    name: str,
    column: MetricColumn,
    records: Observations,
    level: float,
    bounds: Bounds,
) -> SplitMetric:
    unit, in_a = records.unit[column.rows], records.in_a[column.rows]
    a, b = (_means(column.values[arm], unit[arm]) for arm in (in_a, ~in_a))
    binary = bool(np.isin(a, (0, 1)).all() and np.isin(b, (0, 1)).all())
    few = len(a) + len(b) <= MAX_PERMUTED
    [fixed] = compare_unpaired(
        a, b, level=level, proportions=binary, resamples=10_000 if few else 0
    )
    exact = plan.one_observation_per_unit and bounds is not None
    if exact and bounds is not None:
        stream, reach = balanced(column.values, in_a, plan.split, bounds)
        anytime_p = float(betting_p(stream, 0, reach)[-1]) if len(stream) else 1.0
        low, high = betting_interval(stream, reach, level=level)
        span = bounds[1] - bounds[0]
        low, high = max(low, -span), min(high, span)
    else:
        path = difference_sequence(
            column.values, in_a, unit, level=level, tuned_for=plan.expected_n
        )
        anytime_p, low, high = (
            (float(values[-1]) for values in (path.p, path.low, path.high))
            if len(column.values)
            else (1.0, math.nan, math.nan)
        )
    power = UnpairedPower(
        _deviation(a),
        _deviation(b),
        split=plan.split,
        level=level,
        tuned_for=plan.expected_n,
    )
    effect = plan.min_effects.get(name)
    units = len(a) + len(b)
    permuted = few and not math.isnan(fixed.permutation.p)
    return SplitMetric(
        name=name,
        mean_a=finite_or_none(fixed.mean_a),
        mean_b=finite_or_none(fixed.mean_b),
        units_a=len(a),
        units_b=len(b),
        records_a=int(in_a.sum()),
        records_b=int((~in_a).sum()),
        difference=finite_or_none(fixed.difference),
        low=finite_or_none(fixed.low),
        high=finite_or_none(fixed.high),
        method=fixed.method,
        p=finite_or_none(fixed.p),
        p_holm=None,
        permutation_p=fixed.permutation.p if permuted else None,
        effect_size=finite_or_none(fixed.effect_size),
        anytime_low=finite_or_none(low),
        anytime_high=finite_or_none(high),
        anytime_p=finite_or_none(anytime_p),
        anytime_p_holm=None,
        exact=exact,
        min_effect=effect,
        required_n=_required_n(power, name, effect),
        required_n_anytime=_required_n(power, name, effect, any_time=True),
        min_detectable_effect=finite_or_none(power.detectable(units)),
        min_detectable_effect_anytime=finite_or_none(power.detectable(units, any_time=True)),
        note=fixed.note.replace("observations", "units"),
        failures_excluded=int(records.failed.sum() - records.failed[column.rows].sum()),
    )


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


def _means(values: Values, unit: Ints) -> Values:
    """Returns the mean of each unit that has a value, in order of the codes."""
    codes, at = np.unique(unit, return_inverse=True)
    return np.asarray(np.bincount(at, values, len(codes)) / np.bincount(at, minlength=len(codes)))


def _deviation(means: Values) -> float:
    return float(np.std(means, ddof=1)) if len(means) > 1 else math.nan


def _corrected(metrics: list[SplitMetric]) -> list[SplitMetric]:
    """Adjusts the p values for the number of metrics (Holm)."""
    columns = [
        holm([math.nan if p is None else p for p in ps])
        for ps in ([m.p for m in metrics], [m.anytime_p for m in metrics])
    ]
    return [
        replace(m, p_holm=finite_or_none(p), anytime_p_holm=finite_or_none(anytime))
        for m, p, anytime in zip(metrics, *map(np.ndarray.tolist, columns), strict=True)
    ]
