"""One protocol applied to one run: values by query, a result for every slice and metric, warnings.

A warning names metrics that cannot tell systems apart, or not be known, on this dataset and run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from harness.datasets.reader import Dataset
from harness.records.scores import AnsweredOnly, MetricResult, TieRange
from harness.scoring.arrays import Flags, Ints, Values, mean
from harness.scoring.depth import depth_sensitive
from harness.scoring.haystacks import UNKNOWN_SIZE
from harness.scoring.metrics import Metric
from harness.scoring.protocols import Protocol
from harness.scoring.random_baseline import random_baseline
from harness.scoring.ranks import Ranked
from harness.scoring.ties import TieOrders
from harness.scoring.upper_bound import UpperBounds

SATURATED = 0.005
"""A mean this close to its upper bound leaves no room for a better system."""

BOUND = "an upper bound"
"""The `upper_bound_method` where the best could not be worked out for all queries."""


Results = dict[str, MetricResult]
"""The results of one slice, by metric."""


@dataclass(frozen=True)
class Column:
    """One metric of one protocol over all queries; every array has shape (n,).

    `values` is NaN where the query is not scored. `measurable` is False where the ranking was too
    short to know the value. `random` and `maximum` are None where there is no such level; `best`,
    `worst` and `expected` are what other orders of equal scores would give, None where ties change
    nothing. `exact`: where the maximum can be reached. `random_method` says how the random baseline
    was estimated, where it is not exact. `depth_sensitive`: where deeper rankings could give
    another value.
    """

    metric: Metric | str
    values: Values
    measurable: Flags
    random: Values | None
    maximum: Values | None
    best: Values | None = None
    worst: Values | None = None
    expected: Values | None = None
    exact: Flags | None = None
    random_method: str = ""
    depth_sensitive: Flags | None = None

    @cached_property
    def _scored(self) -> Flags:
        return ~np.isnan(self.values)

    def result(self, mask: Flags, failed: Flags | None = None) -> MetricResult | None:
        """Returns the mean over the scored queries of a slice; None where there are none.

        The value is None when a ranking in the slice was too short to know it. Queries that
        `failed` count with their value, which is 0 for what found nothing; where there are any,
        `answered_only` is the mean over the others.
        """
        mine = mask & self._scored
        n = int(np.count_nonzero(mine))
        if not n:
            return None
        unknown = int(np.count_nonzero(mine & ~self.measurable))
        exact = self.exact is None or bool(self.exact[mine].all())
        return MetricResult(
            value=None if unknown else mean(self.values[mine]),
            n=n,
            random_baseline=None if self.random is None else mean(self.random[mine]),
            random_method="" if self.random is None else self.random_method,
            upper_bound=None if self.maximum is None else mean(self.maximum[mine]),
            upper_bound_method="" if self.maximum is None or exact else BOUND,
            ties=self._ties(mine),
            answered_only=self._answered_only(mine, failed, unknown),
            unmeasurable=unknown,
        )

    def _ties(self, mine: Flags) -> TieRange | None:
        if self.best is None or self.worst is None or self.expected is None:
            return None
        worst, expected, best = (
            float(values[mine].sum() / np.count_nonzero(mine))
            for values in (self.worst, self.expected, self.best)
        )
        return TieRange(worst=worst, expected=expected, best=best) if best != worst else None

    def _answered_only(
        self, mine: Flags, failed: Flags | None, unknown: int
    ) -> AnsweredOnly | None:
        if failed is None or not (mine & failed).any():
            return None
        answered = mine & ~failed
        value = None if unknown else mean(self.values[answered])
        return AnsweredOnly(value=value, n=int(np.count_nonzero(answered)))


def slice_results(
    columns: Sequence[Column], masks: Mapping[str, Flags], failed: Flags
) -> dict[str, Results]:
    """The results of each slice that has any; see `Column.result`."""
    found = {
        name: {
            str(one.metric): result
            for one in columns
            if (result := one.result(mask, failed)) is not None
        }
        for name, mask in masks.items()
    }
    return {name: results for name, results in found.items() if results}


def document_columns(
    protocol: Protocol,
    metrics: list[Metric],
    ranked: Ranked,
    scored: Flags,
    present: Flags,
    sizes: Ints,
    stable: Ints | None = None,
) -> list[Column]:
    """Every metric on documents; `present` (m,) and `sizes` (n,) as in random_baseline.py, `stable`
    (n,) as in depth.py; without it nothing is said of what depth changes."""
    orders, upper_bounds = TieOrders(ranked), UpperBounds(ranked, present)
    sized = sizes.max(initial=0) < UNKNOWN_SIZE
    columns = []
    for metric in metrics:
        finish = finisher(protocol, metric, scored)
        best = worst = expected = None
        if orders.any and (mean := orders.expected(metric)) is not None:
            low, high = (finish(values) for values in reversed(orders.bounds(metric)))
            if np.nanmax(high - low, initial=0) > 1e-12:
                best, worst, expected = high, low, finish(mean)
        baseline = random_baseline(metric, ranked, present, sizes) if sized else None
        top = upper_bounds(metric)
        columns.append(
            Column(
                metric,
                finish(metric(ranked)),
                np.ones(ranked.n, bool),
                None if baseline is None else finish(baseline),
                None if top is None else finish(top.values),
                best,
                worst,
                expected,
                None if top is None else top.exact,
                depth_sensitive=None if stable is None else depth_sensitive(metric, ranked, stable),
            )
        )
    return columns


def query_table(
    dataset: Dataset, asked: Flags, protocol: str, level: str, columns: Sequence[Column]
) -> pa.Table:
    """One row a query that was asked: what it is, and its values; null where it was not scored."""
    rows = np.flatnonzero(asked)
    names = dataset.haystack_bases
    table = {
        "query": [dataset.query_ids[i] for i in rows],
        "ability": dataset.abilities[rows],
        "category": dataset.categories[rows],
        "haystack": [names[h] for h in dataset.query_haystack[rows]],
        "protocol": pa.repeat(protocol, len(rows)),
        "level": pa.repeat(level, len(rows)),
    }
    for column in columns:
        known = np.where(column.measurable, column.values, np.nan)[rows]
        table[str(column.metric)] = pa.array(known, from_pandas=True)
    return pa.table(table)


class MetricWarnings:
    """Gathers the metrics that say little over all protocols of a run; a line a kind and level."""

    def __init__(self, depth: int, sizes: Ints) -> None:
        """`depth`: documents a ranking could hold; `sizes` (queries,): those of the haystack."""
        self._depth = depth
        self._median = float(np.median(sizes)) if len(sizes) else 0.0
        # (kind, level) -> names in order of first mention
        self._names: dict[tuple[str, str], dict[str, None]] = defaultdict(dict)

    def collect(self, columns: list[Column], level: str, results: Results) -> None:
        """Looks at the results of one protocol at one level: all for bounds, recall and hit for the
        rest."""
        for column in columns:
            metric, result = column.metric, results.get(str(column.metric))
            if result is not None and result.upper_bound_method:
                self._names["bound", level][str(metric)] = None
            if isinstance(metric, str) or result is None or metric.k is None:
                continue
            if metric.name not in ("recall", "hit"):
                continue
            value, bound = result.value, result.upper_bound
            if result.unmeasurable:
                self._names["short", level][str(metric.k)] = None
            elif level != "turn>session" and self._median <= metric.k:
                self._names["whole", level][str(metric)] = None
            elif value is not None and bound is not None and bound - value < SATURATED:
                self._names["saturated", level][str(metric)] = None

    def lines(self) -> list[str]:
        """Returns one sentence for each kind and level."""
        sentences = {
            "whole": "k reaches the whole haystack, so {names} cannot tell systems apart",
            "saturated": "saturated, within {close} of the upper bound: {names}",
            "bound": "the upper bound is loose, so perhaps no ranking reaches it: {names}",
            "short": "rankings of {depth} turns hold too few sessions for k = {names}; "
            "run with a larger --k for that",
        }
        return [
            f"{level}: "
            + sentences[kind].format(names=", ".join(names), close=SATURATED, depth=self._depth)
            for (kind, level), names in self._names.items()
        ]


def finisher(protocol: Protocol, metric: Metric, scored: Flags) -> Callable[[Values], Values]:
    """Gives queries with nothing relevant the protocol's value, and unscored ones NaN."""
    empty = protocol.empty.get(metric.name, 0.0)
    return lambda values: np.where(scored, np.where(np.isnan(values), empty, values), np.nan)
