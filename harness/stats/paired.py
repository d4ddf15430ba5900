"""Comparison of two systems on the same observations.

* `compare_paired`: difference, interval, test by sign flips or t, effect size, power.
* Classic tests: `paired_t`, `wilcoxon`; and `equivalence` (TOST).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Unpack

import numpy as np
import numpy.typing as npt

from harness.stats.clusters import Ints, Values, as_columns, to_clusters
from harness.stats.intervals import (
    MeanInterval,
    cluster_intervals,
    interval_ends,
    mean_intervals,
    t_above,
)
from harness.stats.joint import mean_tests
from harness.stats.power import PairedPower, power_of
from harness.stats.resampling import RESAMPLING, DifferenceTest, Resampling

EQUAL = 1e-12
"""Differences up to this are rounding errors, not wins."""


@dataclass(frozen=True)
class ComparisonColumns:
    """The numbers of many pairs that a board shows, with an entry for each pair.

    The mean `difference`, the ends of its interval, p, and wins, losses and ties of `b`.
    """

    difference: Values
    low: Values
    high: Values
    p: Values
    wins: Ints
    losses: Ints
    ties: Ints


@dataclass(frozen=True)
class PairedComparison:
    """`b` minus `a` in one metric, over the observations that both have.

    `a` is the old system and `b` the new: above 0 is an improvement. `difference` is their mean
    difference with its interval, `test` that of sign flips, or of t below ten haystacks.
    `effect_size` is Cohen's d_z, the mean difference over the standard deviation of differences of
    observations, NaN if that is 0; it is descriptive. `wins` (of `b`), `losses` and `ties` count
    observations, `unpaired` those of one system only.
    """

    mean_a: float
    mean_b: float
    difference: MeanInterval
    test: DifferenceTest
    effect_size: float
    power: PairedPower
    wins: int
    losses: int
    ties: int
    unpaired: int


def compare_paired(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    power: float = 0.8,
    bounds: tuple[float, float] | None = None,
    **resampling: Unpack[Resampling],
) -> list[PairedComparison]:
    """Compare two matrices (observations, metrics) row by row, one record per metric.

    `bounds` are the smallest and largest possible difference. Swapping `a` and `b` only changes
    signs. Raises ValueError for other shapes.
    """
    options: Resampling = {**RESAMPLING, **resampling}
    first, second, differences = _paired(a, b)
    grouped = to_clusters(differences, clusters)
    intervals = cluster_intervals(grouped, level=options["level"], bounds=bounds)
    tests = mean_tests(grouped, options, power)
    powers = power_of(differences, clusters, level=options["level"], power=power)
    wins, losses, ties = _counts(differences)
    both = ~np.isnan(differences)
    one = np.isnan(first) != np.isnan(second)
    return [
        PairedComparison(
            mean_a=_mean(first[both[:, at], at]),
            mean_b=_mean(second[both[:, at], at]),
            difference=intervals[at],
            test=tests[at],
            effect_size=_effect_size(differences[both[:, at], at]),
            power=powers[at],
            wins=int(wins[at]),
            losses=int(losses[at]),
            ties=int(ties[at]),
            unpaired=int(one[:, at].sum()),
        )
        for at in range(differences.shape[1])
    ]


def compare_columns(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    bounds: tuple[float, float] | None = None,
    **resampling: Unpack[Resampling],
) -> ComparisonColumns:
    """Computes the part of `compare_paired` that boards show, with each pair as a column."""
    options: Resampling = {**RESAMPLING, **resampling}
    differences = _paired(a, b)[2]
    grouped = to_clusters(differences, clusters)
    low, high, _ = interval_ends(grouped, level=options["level"], bounds=bounds)
    p = np.array([one.p for one in mean_tests(grouped, options)])
    return ComparisonColumns(grouped.means, low, high, p, *_counts(differences))


def _counts(differences: Values) -> tuple[Ints, Ints, Ints]:
    """Wins, losses and ties of each column."""
    outcome = _outcomes(differences)
    wins, losses, ties = ((outcome == sign).sum(axis=0) for sign in (1, -1, 0))
    return wins, losses, ties


def outcomes(a: npt.ArrayLike, b: npt.ArrayLike) -> Values:
    """1 for a win of `b`, 0 for a tie, -1 for a loss, NaN if a value is missing."""
    return _outcomes(_paired(a, b)[2])


def _outcomes(differences: Values) -> Values:
    return np.where(np.abs(differences) <= EQUAL, 0.0, np.sign(differences))


def _paired(a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[Values, Values, Values]:
    first, second = as_columns(a), as_columns(b)
    if first.shape != second.shape:
        raise ValueError(f"pairs need the same shape, not {first.shape} and {second.shape}")
    differences = second - first
    return first, second, np.where(np.abs(differences) <= EQUAL, 0.0, differences)


def _mean(values: Values) -> float:
    return float(values.mean()) if len(values) else math.nan


def _effect_size(differences: Values) -> float:
    if len(differences) < 2 or np.ptp(differences) <= EQUAL:
        return math.nan
    return float(differences.mean() / differences.std(ddof=1))


@dataclass(frozen=True)
class TestResult:
    """A test statistic, its degrees of freedom (NaN where it has none) and two-sided p."""

    __test__ = False  # not a test for pytest

    statistic: float
    df: float
    p: float


@dataclass(frozen=True)
class Equivalence:
    """Whether a difference is shown to lie between -`margin` and `margin`.

    `low` and `high` are the interval at 1 - 2 * `alpha`, `p` is the larger of the two one-sided p
    values: NaN if the interval is approximate, for the reason in `note`. `share` is an upper bound,
    at 1 - `alpha`, of the share of pairs that differ. `equivalent`: p is below `alpha`, or `share`
    below the margin. `here`: `share` is below the margin for pairs of these clusters, but not
    necessarily for others.
    """

    difference: float
    low: float
    high: float
    margin: float
    alpha: float
    p: float
    share: float
    equivalent: bool
    here: bool
    note: str = ""


def paired_t(
    a: npt.ArrayLike, b: npt.ArrayLike, clusters: npt.ArrayLike | None = None
) -> list[TestResult]:
    """Student's paired t test of `a` minus `b`, one result per metric.

    t = mean difference / standard error (cluster-robust with clusters), with the degrees of freedom
    of `Clusters`: clusters - 1 if all have one size. NaN for fewer than two clusters and if all
    differences are equal. SciPy's ttest_rel is the same, but does not support clusters.
    """
    return [
        TestResult(difference / error, df, 2 * t_above(abs(difference) / error, df))
        if error > 0
        else TestResult(math.nan, df, math.nan)
        for difference, error, df in _spread(a, b, clusters)
    ]


def wilcoxon(a: npt.ArrayLike, b: npt.ArrayLike) -> list[TestResult]:
    """Wilcoxon's signed-rank test of `a` minus `b`, one result per metric; zeros are dropped.

    SciPy's. It tests symmetry about 0, not a mean, and ignores clusters. p is 1 if all differences
    are 0, NaN without pairs.
    """
    from scipy.stats import wilcoxon as signed_rank

    results = []
    for column in _paired(b, a)[2].T:
        differences = np.round(column[~np.isnan(column)], 12)  # so that equal ones tie
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
    """Tests whether the mean difference is smaller than `margin`; one result per metric.

    Two one-sided t tests (Schuirmann 1987) are equal to the interval of the difference at
    1 - 2 * `alpha`; they have no result if that interval is approximate. Differences are from -1 to
    1, so a mean is no larger than the share of pairs that differ, and an upper bound of that share
    below the margin shows equivalence too: exact over single pairs, Korn and Graubard's over
    clusters, unless it is approximate. Error rates: `tests/benchmarks/coverage.md`.

    `margin` is the difference that would not matter, chosen in advance. Raises ValueError for a
    margin that is not above 0, and for differences beyond -1 to 1.
    """
    if not margin > 0 or not 0 < alpha < 0.5:
        raise ValueError(f"margin {margin} must be above 0 and alpha {alpha} below 0.5")
    differences = _paired(a, b)[2]
    if (np.abs(differences) > 1 + EQUAL).any():
        raise ValueError("equivalence is for differences from -1 to 1")
    differ = np.where(np.isnan(differences), np.nan, differences != 0)
    level = 1 - 2 * alpha
    means = mean_intervals(differences, clusters, level=level, bounds=(-1, 1))
    shares = mean_intervals(differ, clusters, level=level, bounds=(0, 1))
    own = mean_intervals(differ, level=level, bounds=(0, 1))
    spread = _spread(b, a, clusters)
    results = []
    for mean, share, here, (_, error, df) in zip(means, shares, own, spread, strict=True):
        p = math.nan
        if not mean.approximate and error > 0:
            p = t_above((margin - abs(mean.value)) / error, df)
        most = here.high if share.approximate else share.high
        results.append(
            Equivalence(
                difference=mean.value,
                low=mean.low,
                high=mean.high,
                margin=margin,
                alpha=alpha,
                p=p,
                share=most,
                equivalent=bool(p < alpha or (not share.approximate and most < margin)),
                here=bool(here.high < margin),
                note=mean.note,
            )
        )
    return results


def _spread(
    a: npt.ArrayLike, b: npt.ArrayLike, clusters: npt.ArrayLike | None
) -> list[tuple[float, float, float]]:
    """(mean of a minus b, standard error, degrees of freedom) of each metric."""
    grouped = to_clusters(_paired(b, a)[2], clusters)
    columns = (grouped.means, grouped.standard_errors, grouped.degrees)
    return list(zip(*(column.tolist() for column in columns), strict=True))
