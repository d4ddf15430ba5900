"""What split traffic shows: each metric of two groups of units, and whether the split held."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from harness.abtest.plan import Plan
from harness.abtest.records import Column, Flags, Records
from harness.statistics.betting import balanced, betting_interval, betting_p
from harness.statistics.corrections import holm
from harness.statistics.power import UnpairedPower
from harness.statistics.proportions import SampleRatio, sample_ratio
from harness.statistics.sequential import difference_sequence
from harness.statistics.units import Ints, Values
from harness.statistics.unpaired import compare_unpaired

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
    mixture, and betting takes 20 to 30% more. None is not measurable.
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


@dataclass(frozen=True)
class SplitReport:
    """A report of split traffic; `str` is the page for a terminal.

    `crossed` units were seen in both arms and are in no comparison, `unrouted` ones were seen in
    another arm than the plan deals them to, `repeated` records are second ones of a unit that was
    to have one. `damaged` are lines of the journal that are not whole.
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
    metrics: list[SplitMetric]

    @property
    def trouble(self) -> list[str]:
        """Why no winner may be named; empty where the split held."""
        found = []
        if self.ratio.alarm:
            found.append(
                f"sample-ratio mismatch: {self.ratio.units_a} and {self.ratio.units_b} units of a "
                f"split of {self.plan.split:g} (p {min(self.ratio.p, self.ratio.always_p):.1g})"
            )
        units = self.ratio.units_a + self.ratio.units_b
        if self.crossed > CROSSED * units:
            found.append(f"{self.crossed} of {units} units were seen in both arms")
        return found

    def __str__(self) -> str:
        from harness.abtest.split_text import split_text

        return split_text(self)

    def as_dict(self) -> dict[str, Any]:
        """The same for programs."""
        from harness.abtest.split_text import conclusion

        return {
            **asdict(self),
            "plan": self.plan.record(),
            "trouble": self.trouble,
            "conclusion": conclusion(self),
        }


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
        _metric(plan, name, column, records, level) for name, column in sorted(columns.items())
    ]
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
        metrics=_corrected(found),
    )


def _kept(column: Column, records: Records, crossed: Flags) -> Column:
    """The values of units that were seen in one arm only."""
    kept = ~crossed[records.unit[column.rows]]
    return column if kept.all() else Column(column.rows[kept], column.values[kept])


def _firsts(column: Column, unit: Ints) -> Column:
    """The first value of each unit."""
    _, at = np.unique(unit[column.rows], return_index=True)
    at.sort()
    return Column(column.rows[at], column.values[at])


def _metric(plan: Plan, name: str, column: Column, records: Records, level: float) -> SplitMetric:
    unit, in_a = records.unit[column.rows], records.in_a[column.rows]
    a, b = (_means(column.values[arm], unit[arm]) for arm in (in_a, ~in_a))
    binary = bool(np.isin(a, (0, 1)).all() and np.isin(b, (0, 1)).all())
    few = len(a) + len(b) <= PERMUTED_TO
    [fixed] = compare_unpaired(
        a, b, level=level, proportions=binary, resamples=10_000 if few else 0
    )
    bounds = plan.bounds(name)
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
        mean_a=_known(fixed.mean_a),
        mean_b=_known(fixed.mean_b),
        units_a=len(a),
        units_b=len(b),
        records_a=int(in_a.sum()),
        records_b=int((~in_a).sum()),
        difference=_known(fixed.difference),
        low=_known(fixed.low),
        high=_known(fixed.high),
        method=fixed.method,
        p=_known(fixed.p),
        p_holm=None,
        permutation_p=fixed.permutation.p if permuted else None,
        effect_size=_known(fixed.effect_size),
        always_low=_known(low),
        always_high=_known(high),
        always_p=_known(always_p),
        always_p_holm=None,
        exact=exact,
        wanted=wanted,
        needed=power.units_needed(wanted) if wanted else None,
        needed_any_time=power.units_needed(wanted, any_time=True) if wanted else None,
        detectable=_known(power.detectable(units)),
        detectable_any_time=_known(power.detectable(units, any_time=True)),
        note=fixed.note.replace("observations", "units"),
    )


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
        SplitMetric(**{**vars(m), "p_holm": _known(p), "always_p_holm": _known(always)})
        for m, p, always in zip(metrics, *map(np.ndarray.tolist, columns), strict=True)
    ]


def _known(value: float) -> float | None:
    """None for what is not measurable."""
    return value if math.isfinite(value) else None
