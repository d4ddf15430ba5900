"""What split traffic shows: each metric of two groups of units, and whether the split held."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from harness.errors import UsageError
from harness.live.abtest.plan import Bounds, Plan
from harness.live.abtest.records import Column, Flags, Records
from harness.live.abtest.split_report import FAILED, PERMUTED_TO, SplitMetric, SplitReport
from harness.live.abtest.text import by_arm, known
from harness.statistics.betting import balanced, betting_interval, betting_p
from harness.statistics.corrections import holm
from harness.statistics.power import UnpairedPower
from harness.statistics.proportions import SampleRatio, sample_ratio
from harness.statistics.sequential import difference_sequence
from harness.statistics.units import Ints, Values
from harness.statistics.unpaired import compare_unpaired


def split_report(plan: Plan, records: Records, level: float) -> SplitReport:
    """Compare the arms in every metric."""
    seen_a, seen_b = (
        np.bincount(records.unit[arm], minlength=len(records.units)) > 0
        for arm in (records.in_a, ~records.in_a)
    )
    crossed = seen_a & seen_b
    first = np.zeros(len(records.units), bool)  # a unit's first arm; units are in order of entry
    first[records.unit[::-1]] = records.in_a[::-1]
    router = plan.router()
    routed = np.array([router.arm(unit) == "a" for unit in records.units], bool)
    columns = {name: _kept(column, records, crossed) for name, column in records.metrics.items()}
    repeated = 0
    if plan.once:
        for name, column in columns.items():
            columns[name] = _firsts(column, records.unit)
            repeated += len(column.rows) - len(columns[name].rows)
    found = [
        _metric(plan, name, column, records, level, plan.bounds(name))
        for name, column in sorted(columns.items())
    ]
    failing = _failing(plan, records, crossed)
    if records.failed.any():  # a metric like any other, whose values are 0 and 1
        every = Column(np.arange(len(records)), records.failed.astype(float))
        every = _kept(every, records, crossed)
        every = _firsts(every, records.unit) if plan.once else every
        name = FAILED if FAILED not in columns else f"{FAILED} (raised)"
        share = _metric(plan, name, every, records, level, (0, 1))
        # Where one arm never fails the mixture has no spread to go by; who failed is told exactly.
        found.append(replace(share, always_p=failing.always_p if failing else None))
    return SplitReport(
        plan=plan,
        level=level,
        records=len(records),
        first=records.first,
        last=records.last,
        units_a=int((seen_a & ~crossed).sum()),
        units_b=int((seen_b & ~crossed).sum()),
        ratio=sample_ratio(first, plan.split),
        crossed=int(crossed.sum()),
        unrouted=int(((routed & seen_b) | (~routed & seen_a)).sum()),
        repeated=repeated,
        damaged=records.damaged,
        failures=by_arm(records.kinds),
        failing=failing,
        metrics=_corrected(found),
    )


def _failing(plan: Plan, records: Records, crossed: Flags) -> SampleRatio | None:
    """The arms of the units that met a failure, which are as the split is if both fail alike."""
    rows = np.flatnonzero(records.failed & ~crossed[records.unit])
    _, at = np.unique(records.unit[rows], return_index=True)
    return sample_ratio(records.in_a[rows[np.sort(at)]], plan.split) if len(at) else None


def _kept(column: Column, records: Records, crossed: Flags) -> Column:
    """The values of units that were seen in one arm only."""
    kept = ~crossed[records.unit[column.rows]]
    return column if kept.all() else Column(column.rows[kept], column.values[kept])


def _firsts(column: Column, unit: Ints) -> Column:
    """The first value of each unit."""
    _, at = np.unique(unit[column.rows], return_index=True)
    at.sort()
    return Column(column.rows[at], column.values[at])


def _metric(
    plan: Plan, name: str, column: Column, records: Records, level: float, bounds: Bounds
) -> SplitMetric:
    unit, in_a = records.unit[column.rows], records.in_a[column.rows]
    a, b = (_means(column.values[arm], unit[arm]) for arm in (in_a, ~in_a))
    binary = bool(np.isin(a, (0, 1)).all() and np.isin(b, (0, 1)).all())
    few = len(a) + len(b) <= PERMUTED_TO
    [fixed] = compare_unpaired(
        a, b, level=level, proportions=binary, resamples=10_000 if few else 0
    )
    exact = plan.once and bounds is not None
    if exact and bounds is not None:
        stream, reach = balanced(column.values, in_a, plan.split, bounds)
        always_p = float(betting_p(stream, 0, reach)[-1]) if len(stream) else 1.0
        low, high = betting_interval(stream, reach, level=level)
        span = bounds[1] - bounds[0]
        low, high = max(low, -span), min(high, span)
    else:
        path = difference_sequence(column.values, in_a, unit, level=level, tuned_for=plan.expected)
        always_p, low, high = (
            (float(values[-1]) for values in (path.p, path.low, path.high))
            if len(column.values)
            else (1.0, math.nan, math.nan)
        )
    power = UnpairedPower(
        _deviation(a),
        _deviation(b),
        split=plan.split,
        level=level,
        tuned_for=plan.expected,
    )
    wanted = plan.wanted.get(name)
    units = len(a) + len(b)
    permuted = few and not math.isnan(fixed.permutation.p)
    return SplitMetric(
        name=name,
        mean_a=known(fixed.mean_a),
        mean_b=known(fixed.mean_b),
        units_a=len(a),
        units_b=len(b),
        records_a=int(in_a.sum()),
        records_b=int((~in_a).sum()),
        difference=known(fixed.difference),
        low=known(fixed.low),
        high=known(fixed.high),
        method=fixed.method,
        p=known(fixed.p),
        p_holm=None,
        permutation_p=fixed.permutation.p if permuted else None,
        effect_size=known(fixed.effect_size),
        always_low=known(low),
        always_high=known(high),
        always_p=known(always_p),
        always_p_holm=None,
        exact=exact,
        wanted=wanted,
        needed=_needed(power, name, wanted),
        needed_any_time=_needed(power, name, wanted, any_time=True),
        detectable=known(power.detectable(units)),
        detectable_any_time=known(power.detectable(units, any_time=True)),
        note=fixed.note.replace("observations", "units"),
        failures_without=int(records.failed.sum() - records.failed[column.rows].sum()),
    )


def _needed(
    power: UnpairedPower, name: str, wanted: float | None, *, any_time: bool = False
) -> int | None:
    try:
        return power.units_needed(wanted, any_time=any_time) if wanted else None
    except ValueError as error:
        raise UsageError(
            f"the difference wanted in {name!r} is {wanted:g}: {error}; name a larger one with "
            "--wanted"
        ) from None


def _means(values: Values, unit: Ints) -> Values:
    """The mean of each unit that has a value, in order of first appearance."""
    codes, at = np.unique(unit, return_inverse=True)
    return np.asarray(np.bincount(at, values, len(codes)) / np.bincount(at, minlength=len(codes)))


def _deviation(means: Values) -> float:
    return float(np.std(means, ddof=1)) if len(means) > 1 else math.nan


def _corrected(metrics: list[SplitMetric]) -> list[SplitMetric]:
    """The metrics with their p adjusted for how many there are."""
    columns = [
        holm([math.nan if p is None else p for p in ps])
        for ps in ([m.p for m in metrics], [m.always_p for m in metrics])
    ]
    return [
        SplitMetric(**{**vars(m), "p_holm": known(p), "always_p_holm": known(always)})
        for m, p, always in zip(metrics, *map(np.ndarray.tolist, columns), strict=True)
    ]
