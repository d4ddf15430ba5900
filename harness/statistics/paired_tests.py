"""The other paired tests, for those who are asked for them: t, Wilcoxon, equivalence (TOST)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.statistics.intervals import t_above, t_quantile
from harness.statistics.units import as_columns, units_of


@dataclass(frozen=True)
class TestResult:
    """A test statistic, its degrees of freedom (NaN where it has none) and two-sided p."""

    __test__ = False  # not a test of pytest's

    statistic: float
    df: float
    p: float


@dataclass(frozen=True)
class Equivalence:
    """Whether a difference is shown to lie within -`margin` to `margin`.

    `p` is the larger of the two one-sided p values. `low` and `high` are the interval at
    1 - 2 * `alpha`; `equivalent` (p below `alpha`) means that it lies within the margin.
    """

    difference: float
    low: float
    high: float
    margin: float
    alpha: float
    p: float
    equivalent: bool


def paired_t(
    a: npt.ArrayLike, b: npt.ArrayLike, clusters: npt.ArrayLike | None = None
) -> list[TestResult]:
    """Student's paired t test, one result a metric; with clusters, on the cluster-robust error.

    t = mean difference / standard error, with units - 1 degrees of freedom. NaN for fewer than two
    units and where all differences are equal.
    """
    return [
        TestResult(difference / error, df, 2 * t_above(abs(difference) / error, df))
        if error > 0
        else TestResult(math.nan, df, math.nan)
        for difference, error, df in _spread(a, b, clusters)
    ]


def wilcoxon(a: npt.ArrayLike, b: npt.ArrayLike) -> list[TestResult]:
    """Wilcoxon's signed-rank test, one result a metric; ties of 0 are dropped, as he did.

    SciPy's. It tests symmetry about 0, not a mean, and knows no clusters.
    p is 1 where every difference is 0, NaN where there is no pair.
    """
    from scipy.stats import wilcoxon as signed_rank

    results = []
    for column in (as_columns(a) - as_columns(b)).T:
        differences = column[~np.isnan(column)]
        if not differences.any():
            p = 1.0 if len(differences) else math.nan
            results.append(TestResult(math.nan, math.nan, p))
            continue
        found = signed_rank(differences, zero_method="wilcox")
        results.append(TestResult(float(found.statistic), math.nan, float(found.pvalue)))
    return results


def equivalence(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    margin: float,
    clusters: npt.ArrayLike | None = None,
    *,
    alpha: float = 0.05,
) -> list[Equivalence]:
    """Two one-sided paired t tests (Schuirmann 1987): is the difference smaller than `margin`?

    One result a metric. `margin` is the difference that would not matter, chosen beforehand; raises
    ValueError where it is not above 0. Nothing is shown by fewer than two units, nor by differences
    that are all equal: without a spread nobody knows how sure that is (p NaN).
    """
    if not margin > 0 or not 0 < alpha < 0.5:
        raise ValueError(f"margin {margin} must be above 0 and alpha {alpha} below 0.5")
    results = []
    for difference, error, df in _spread(a, b, clusters):
        if not error > 0:
            unknown = math.nan
            results.append(Equivalence(difference, unknown, unknown, margin, alpha, unknown, False))
            continue
        reach = t_quantile(1 - alpha, df) * error
        # How many standard errors the difference is above -margin, and below margin.
        p = max(t_above((margin + shift) / error, df) for shift in (difference, -difference))
        results.append(
            Equivalence(
                difference,
                difference - reach,
                difference + reach,
                margin,
                alpha,
                p,
                bool(p < alpha),
            )
        )
    return results


def _spread(
    a: npt.ArrayLike, b: npt.ArrayLike, clusters: npt.ArrayLike | None
) -> list[tuple[float, float, float]]:
    """(mean difference, standard error, degrees of freedom) of each metric."""
    first, second = as_columns(a), as_columns(b)
    if first.shape != second.shape:
        raise ValueError(f"pairs need the same shape, not {first.shape} and {second.shape}")
    units = units_of(first - second, clusters)
    df = units.present.sum(axis=0) - 1.0
    return list(zip(units.means.tolist(), units.standard_errors.tolist(), df.tolist(), strict=True))
