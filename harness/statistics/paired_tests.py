"""The other paired tests, for those who are asked for them: t, Wilcoxon, equivalence (TOST)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.statistics.student_t import cdf, quantile, two_sided_p
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
        TestResult(difference / error, df, two_sided_p(difference / error, df))
        if error > 0
        else TestResult(math.nan, df, math.nan)
        for difference, error, df in _spread(a, b, clusters)
    ]


def wilcoxon(a: npt.ArrayLike, b: npt.ArrayLike) -> list[TestResult]:
    """Wilcoxon's signed-rank test, one result a metric; ties of 0 are dropped, as he did.

    SciPy's, which must be installed. It tests symmetry about 0, not a mean, and knows no clusters.
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
        reach = quantile(1 - alpha, df) * error
        p = max(1 - cdf(t, df) for t in _distances(difference, error, margin))
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


def _distances(difference: float, error: float, margin: float) -> tuple[float, float]:
    """How many standard errors the difference is above -margin and below margin."""
    above, below = margin + difference, margin - difference
    if error > 0:
        return above / error, below / error
    # No spread at all (NaN: unknown): the difference is where it is.
    unknown = math.nan if math.isnan(error) else math.inf
    return math.copysign(unknown, above), math.copysign(unknown, below)


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
