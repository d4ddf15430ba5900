"""Computes means over slices, and what is published with them, from the values of the queries.

Intervals are of values from 0 to 1: Clopper and Pearson's for single zeros and ones; otherwise Korn
and Graubard's, which is the same with as many zeros and ones as would make the mean as uncertain.
For clusters that is the bias-reduced variance (CR2, Bell and McCaffrey 2002) with its degrees of
freedom.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from harness.analysis.verify.inputs import Flags, Floats, Ints

Place = tuple[str, ...]
"""The keys that lead to a number in scores.json."""

_LEVEL = 0.95
_ROUNDING = 1e-13
"""A smaller spread, as a share of the mean, is what rounding leaves of none."""


def mean(values: Floats) -> float | None:
    """Returns the mean; None of no values, or where one of them is not known."""
    return None if not len(values) or np.isnan(values).any() else float(values.mean())


def cell(
    values: Floats, failed: Flags, groups: Ints, levels: Mapping[str, Floats], *, clustered: bool
) -> Iterator[tuple[Place, float | None]]:
    """Yields all numbers of one metric over one slice, by the keys that lead to them.

    `values`, `failed`, `groups` (haystacks) and `levels` have an entry for each query of the slice;
    `clustered`: queries share haystacks.
    """
    unknown = int(np.isnan(values).sum())
    yield ("value",), mean(values)
    yield ("n",), len(values)
    yield ("unmeasurable",), unknown
    for name, level in levels.items():
        yield tuple(name.split(".")), mean(level)
    yield ("answered_only", "value"), mean(values[~failed])
    yield ("answered_only", "n"), int((~failed).sum())
    if unknown or not len(values):
        return
    _, number, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    means = np.bincount(number, values) / sizes
    yield ("macro_haystack", "value"), mean(means)
    yield ("macro_haystack", "groups"), len(means)
    units = (means, sizes) if clustered else (values, np.ones(len(values), int))
    for place, (ones, weights) in (
        (("interval",), units),
        (("macro_haystack", "interval"), (means, np.ones(len(means), int))),
    ):
        effective = float(weights.sum() ** 2 / (weights**2).sum())
        low, high = interval(ones, weights, clustered=clustered)
        yield (*place, "clusters"), len(weights)
        yield (*place, "effective_clusters"), round(effective, 2)
        yield (*place, "low"), low
        yield (*place, "high"), high


def interval(means: Floats, sizes: Ints, *, clustered: bool) -> tuple[float | None, float | None]:
    """Returns the interval of the mean over all values; None where no spread can be seen.

    `means`, `sizes`: of each independent unit, of size 1 unless `clustered`.
    """
    from scipy.special import betaincinv, ndtri, stdtrit

    n, sums = int(sizes.sum()), means * sizes
    share = min(float(sums.sum()) / n, 1.0)
    single = not clustered and bool(np.isin(means, (0, 1)).all())
    if len(sizes) == 1 and not single:
        return None, None
    effective, tail = float(n), (1 - _LEVEL) / 2
    if not single:
        weights, squares = sizes / n, int((sizes**2).sum())
        variance = float(((sums - sizes * share) ** 2 / (1 - weights)).sum()) / n**2
        q = sizes**2 / (1 - weights)
        df = n**2 / (squares + float(q.sum() ** 2 - (q**2).sum()) / n**2)
        effective = n**2 / squares
        if variance > (_ROUNDING * share) ** 2 and 0 < share < 1:
            effective = share * (1 - share) / variance
        effective *= float(ndtri(tail) / stdtrit(df, tail)) ** 2
    found = share * effective
    low = float(betaincinv(found, effective - found + 1, tail)) if found > 0 else 0.0
    high = float(betaincinv(found + 1, effective - found, 1 - tail)) if found < effective else 1.0
    return min(low, share), max(high, share)
