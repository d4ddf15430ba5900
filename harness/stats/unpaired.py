"""Comparison of two groups of different observations, such as A/B data.

Weaker than a paired comparison of the same size.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from harness.stats.clusters import Clusters, as_columns, to_clusters
from harness.stats.intervals import FEW_CLUSTERS, few_clusters, t_above, t_quantile


@dataclass(frozen=True)
class UnpairedComparison:
    """Mean of `a` minus mean of `b` in one metric.

    `method` of `low`, `high` and `p`: `welch` (Welch's t on the clusters' standard errors) or
    `two-proportion` (Newcombe's interval, pooled z test). `effect_size` is Cohen's d over
    observations, with the mean of both variances. `approximate` and `note` as in a `MeanInterval`.
    """

    mean_a: float
    mean_b: float
    difference: float
    low: float
    high: float
    level: float
    method: str
    p: float
    effect_size: float
    n_a: int
    n_b: int
    clusters_a: int
    clusters_b: int
    approximate: bool
    note: str


def compare_unpaired(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    clusters_a: npt.ArrayLike | None = None,
    clusters_b: npt.ArrayLike | None = None,
    *,
    proportions: bool = False,
    level: float = 0.95,
) -> list[UnpairedComparison]:
    """Compare two matrices (observations, metrics) of the same metrics, one record per metric.

    Clusters were assigned to a group as a whole (a user with all questions). `proportions`: all
    values are 0 or 1; without clusters the two-proportion forms are then used. Raises ValueError
    for different numbers of metrics, and for other values with `proportions`.
    """
    first, second = as_columns(a), as_columns(b)
    if first.shape[1] != second.shape[1]:
        raise ValueError(f"{first.shape[1]} metrics in one group, {second.shape[1]} in the other")
    if proportions and not all(np.isin(m[~np.isnan(m)], (0, 1)).all() for m in (first, second)):
        raise ValueError("proportions must be 0 or 1")
    grouped = (to_clusters(first, clusters_a), to_clusters(second, clusters_b))
    binary = proportions and not (grouped[0].clustered or grouped[1].clustered)
    deviations = [_deviations(to_clusters(matrix)) for matrix in (first, second)]
    results = []
    for at in range(first.shape[1]):
        means = [float(group.means[at]) for group in grouped]
        sizes = [int(group.present[:, at].sum()) for group in grouped]
        if binary and min(sizes) > 0:
            method, (low, high, p) = "two-proportion", _proportions(means, sizes, level)
        else:
            errors = [float(group.standard_errors[at]) for group in grouped]
            degrees = [float(group.degrees[at]) for group in grouped]
            method, (low, high, p) = "welch", _welch(means, errors, degrees, level)
        spread = math.sqrt(sum(float(d[at]) ** 2 for d in deviations) / 2)
        difference = means[0] - means[1]
        clustered = grouped[0].clustered or grouped[1].clustered
        effective = [float(group.effective[at]) for group in grouped]
        note = _note(sizes, effective, method, clustered, shown=not math.isnan(low))
        results.append(
            UnpairedComparison(
                mean_a=means[0],
                mean_b=means[1],
                difference=difference,
                low=low,
                high=high,
                level=level,
                method=method,
                p=p,
                effect_size=difference / spread if spread > 0 else math.nan,
                n_a=int(grouped[0].n[at]),
                n_b=int(grouped[1].n[at]),
                clusters_a=sizes[0],
                clusters_b=sizes[1],
                approximate=bool(note),
                note=note,
            )
        )
    return results


def _welch(
    means: list[float], errors: list[float], degrees: list[float], level: float
) -> tuple[float, float, float]:
    """(low, high, p): Welch's t with Satterthwaite's degrees of freedom; NaN without spread.

    SciPy's ttest_ind is the same for single observations, but does not support clusters.
    """
    squares = [error**2 for error in errors]
    total = sum(squares)
    if not total > 0:
        return math.nan, math.nan, math.nan
    df = total**2 / sum(s**2 / g for s, g in zip(squares, degrees, strict=True))
    difference, error = means[0] - means[1], math.sqrt(total)
    reach = t_quantile((1 + level) / 2, df) * error
    return difference - reach, difference + reach, 2 * t_above(abs(difference) / error, df)


def wilson(proportion: float, n: int, level: float) -> tuple[float, float]:
    """Wilson's score interval of a proportion (1927; Brown, Cai & DasGupta 2001, equation 4)."""
    # SciPy's, of binomtest(), needs scipy.stats, which takes a second to import.
    z = NormalDist().inv_cdf((1 + level) / 2)
    centre = (proportion + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * math.sqrt(proportion * (1 - proportion) / n + (z / (2 * n)) ** 2)
    # At 0 and 1 the bound is the proportion itself, without rounding errors.
    low = 0.0 if proportion == 0 else max(centre - reach, 0.0)
    return low, 1.0 if proportion == 1 else min(centre + reach, 1.0)


def _proportions(means: list[float], sizes: list[int], level: float) -> tuple[float, float, float]:
    """(low, high, p): Newcombe's hybrid score interval (1998, method 10), pooled z test."""
    (p1, p2), (n1, n2) = means, sizes
    (low1, high1), (low2, high2) = wilson(p1, n1, level), wilson(p2, n2, level)
    difference = p1 - p2
    pooled = (p1 * n1 + p2 * n2) / (n1 + n2)
    error = math.sqrt(pooled * (1 - pooled) * (1 / n1 + 1 / n2))
    return (
        difference - math.hypot(p1 - low1, high2 - p2),
        difference + math.hypot(high1 - p1, p2 - low2),
        2 * NormalDist().cdf(-abs(difference) / error) if error > 0 else 1.0,
    )


def _deviations(single: Clusters) -> npt.NDArray[np.float64]:
    """Standard deviation of the observations of each metric."""
    return single.standard_errors * np.sqrt(single.n)


def _note(
    sizes: list[int], effective: list[float], method: str, clustered: bool, *, shown: bool
) -> str:
    unit = "clusters" if clustered else "observations"
    if min(sizes) < 2 and not shown:
        return f"{sizes[0]} and {sizes[1]} {unit}: too few for an interval"
    if not shown:
        return f"all {unit} of a group are equal: no interval"
    if method == "welch" and min(effective) < FEW_CLUSTERS:
        if max(size - worth for size, worth in zip(sizes, effective, strict=True)) < 0.5:
            return f"only {sizes[0]} and {sizes[1]} {unit}"
        few = min(zip(effective, sizes, strict=True))
        return few_clusters(few[1], few[0], clustered)
    return ""
