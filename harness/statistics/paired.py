"""Two systems on the same observations.

* `compare_paired`: difference, interval, randomisation test, effect size, power.
* For those who are asked for them: `paired_t`, `wilcoxon`, and `equivalence` (TOST).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.statistics.intervals import Interval, t_above, t_quantile, unit_intervals
from harness.statistics.power import PairedPower, power_of
from harness.statistics.resampling import Randomisation, sign_flip_test
from harness.statistics.units import Values, as_columns, units_of

# Two values that were computed in another order are equal, not a win.
_EQUAL = 1e-12


@dataclass(frozen=True)
class PairedComparison:
    """`a` minus `b` in one metric, over the observations that both have.

    `difference` is their mean difference with its interval, `test` the randomisation test of it.
    `effect_size` is Cohen's d_z: mean difference over the standard deviation of differences, NaN
    where that is 0; with clusters the same number, over observations: it describes how large a
    difference is beside their spread, and no inference rests on it. `won`, `lost` and `tied` count
    observations; `unpaired` those that one of the two lacks, which are left out.
    """

    mean_a: float
    mean_b: float
    difference: Interval
    test: Randomisation
    effect_size: float
    power: PairedPower
    won: int
    lost: int
    tied: int
    unpaired: int


def compare_paired(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    level: float = 0.95,
    power: float = 0.8,
    resamples: int = 10_000,
    seed: int = 0,
    bounds: tuple[float, float] | None = None,
) -> list[PairedComparison]:
    """Compare two matrices (observations, metrics) row by row, one record a metric.

    `bounds` are the least and greatest value that a difference can have. Swapping `a` and `b`
    changes signs and nothing else. Raises ValueError for other shapes.
    """
    first, second, differences = _paired(a, b)
    units = units_of(differences, clusters)
    intervals = unit_intervals(units, level=level, resamples=resamples, seed=seed, bounds=bounds)
    tests = sign_flip_test(units, resamples, seed)
    powers = power_of(differences, clusters, level=level, power=power)
    both = ~np.isnan(differences)
    one = np.isnan(first) != np.isnan(second)
    outcome = _outcomes(differences)
    return [
        PairedComparison(
            mean_a=_mean(first[both[:, at], at]),
            mean_b=_mean(second[both[:, at], at]),
            difference=intervals[at],
            test=tests[at],
            effect_size=_effect_size(differences[both[:, at], at]),
            power=powers[at],
            won=int((outcome[:, at] > 0).sum()),
            lost=int((outcome[:, at] < 0).sum()),
            tied=int((outcome[:, at] == 0).sum()),
            unpaired=int(one[:, at].sum()),
        )
        for at in range(differences.shape[1])
    ]


def outcomes(a: npt.ArrayLike, b: npt.ArrayLike) -> Values:
    """1 where `a` wins, 0 where they tie, -1 where it loses, NaN where one has no value."""
    return _outcomes(_paired(a, b)[2])


def _outcomes(differences: Values) -> Values:
    return np.where(np.abs(differences) <= _EQUAL, 0.0, np.sign(differences))


def _paired(a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[Values, Values, Values]:
    first, second = as_columns(a), as_columns(b)
    if first.shape != second.shape:
        raise ValueError(f"pairs need the same shape, not {first.shape} and {second.shape}")
    differences = first - second
    return first, second, np.where(np.abs(differences) <= _EQUAL, 0.0, differences)


def _mean(values: Values) -> float:
    return float(values.mean()) if len(values) else math.nan


def _effect_size(differences: Values) -> float:
    if len(differences) < 2 or np.ptp(differences) <= _EQUAL:
        return math.nan
    return float(differences.mean() / differences.std(ddof=1))


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
    units and where all differences are equal. SciPy's ttest_rel is the same without clusters, of
    which it takes none.
    """
    return [
        TestResult(difference / error, df, 2 * t_above(abs(difference) / error, df))
        if error > 0
        else TestResult(math.nan, df, math.nan)
        for difference, error, df in _spread(a, b, clusters)
    ]


def wilcoxon(a: npt.ArrayLike, b: npt.ArrayLike) -> list[TestResult]:
    """Wilcoxon's signed-rank test, one result a metric; ties of 0 are dropped, as he did.

    SciPy's. It tests symmetry about 0, not a mean, and knows no clusters. p is 1 where every
    difference is 0, NaN where there is no pair.
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
