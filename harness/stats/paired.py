"""Two systems on the same observations.

* `compare_paired`: difference, interval, randomisation test, effect size, power.
* For those who are asked for them: `paired_t`, `wilcoxon`, and `equivalence` (TOST).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Unpack

import numpy as np
import numpy.typing as npt

from harness.stats.clusters import Clusters, Values, as_columns, to_clusters
from harness.stats.intervals import (
    FEW_UNLIKE,
    MeanInterval,
    cluster_intervals,
    share_interval,
    t_above,
    worth_of,
)
from harness.stats.power import PairedPower, power_of
from harness.stats.resampling import (
    RESAMPLING,
    Randomisation,
    Resampling,
    sign_flip_test,
)

# Two values that were computed in another order are equal, not a win.
_EQUAL = 1e-12
# Ten clusters of LoCoMo's sizes tell as much as 9.6, and its single categories as 9.3.
FEW_EFFECTIVE = 9


@dataclass(frozen=True)
class PairedComparison:
    """`b` minus `a` in one metric, over the observations that both have.

    `a` is the old system and `b` the new: above 0 is an improvement. `difference` is their mean
    difference with its interval, `test` the randomisation test of it. `effect_size` is Cohen's d_z:
    mean difference over the standard deviation of differences, NaN where that is 0; with clusters
    the same number, over observations: it describes how large a difference is beside their spread,
    and no inference rests on it. `wins` (of `b`), `losses` and `ties` count observations,
    `unpaired` those that only one of the two has.
    """

    mean_a: float
    mean_b: float
    difference: MeanInterval
    test: Randomisation
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
    """Compare two matrices (observations, metrics) row by row, one record a metric.

    `bounds` are the least and greatest value that a difference can have. Swapping `a` and `b`
    changes signs and nothing else. Raises ValueError for other shapes.
    """
    options: Resampling = {**RESAMPLING, **resampling}
    first, second, differences = _paired(a, b)
    grouped = to_clusters(differences, clusters)
    intervals = cluster_intervals(grouped, level=options["level"], bounds=bounds)
    tests = sign_flip_test(grouped, options["resamples"], options["seed"])
    powers = power_of(differences, clusters, level=options["level"], power=power)
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
            wins=int((outcome[:, at] > 0).sum()),
            losses=int((outcome[:, at] < 0).sum()),
            ties=int((outcome[:, at] == 0).sum()),
            unpaired=int(one[:, at].sum()),
        )
        for at in range(differences.shape[1])
    ]


def outcomes(a: npt.ArrayLike, b: npt.ArrayLike) -> Values:
    """1 where `b` wins, 0 where they tie, -1 where it loses, NaN where one has no value."""
    return _outcomes(_paired(a, b)[2])


def _outcomes(differences: Values) -> Values:
    return np.where(np.abs(differences) <= _EQUAL, 0.0, np.sign(differences))


def _paired(a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[Values, Values, Values]:
    first, second = as_columns(a), as_columns(b)
    if first.shape != second.shape:
        raise ValueError(f"pairs need the same shape, not {first.shape} and {second.shape}")
    differences = second - first
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

    `p` is the larger of the two one-sided p values, 0.5 for all that are not below it. `low` and
    `high` are the interval at 1 - 2 * `alpha`; `equivalent` (p below `alpha`) means that it lies
    within the margin. `note` says why nothing can be told, where it cannot: p is then NaN.
    """

    difference: float
    low: float
    high: float
    margin: float
    alpha: float
    p: float
    equivalent: bool
    note: str = ""


def paired_t(
    a: npt.ArrayLike, b: npt.ArrayLike, clusters: npt.ArrayLike | None = None
) -> list[TestResult]:
    """Student's paired t test of `a` less `b`, one result a metric.

    With clusters it is that of the cluster-robust error.
    t = mean difference / standard error, with the degrees of freedom of `Clusters`: clusters - 1
    where all have one size. NaN for fewer than two clusters and where all differences are equal.
    SciPy's ttest_rel is the same without clusters, of which it takes none.
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
    """Two one-sided tests (Schuirmann 1987): is the mean difference smaller than `margin`?

    One result a metric, for differences from -1 to 1. The bounds are not t's: where few pairs
    differ, nearly all of them in one direction, t took systems that differ by exactly `margin` for
    equivalent in up to 47.6% of samples (`tests/benchmarks/coverage.md`). What `b` gains and what
    it loses are two means between 0 and 1, each with its Korn-Graubard bound, and the difference of
    two has its bound from theirs: the square-and-add method of Newcombe (1998) and Donner and Zou
    (2012), with their correlation.

    `margin` is the difference that would not matter, chosen beforehand. Where fewer than ten
    clusters differ at all, or clusters that tell less than nine of equal size, nothing can be told.
    Raises ValueError for a margin that is not above 0, and for differences beyond -1 to 1.
    """
    if not margin > 0 or not 0 < alpha < 0.5:
        raise ValueError(f"margin {margin} must be above 0 and alpha {alpha} below 0.5")
    differences = _paired(a, b)[2]
    if (np.abs(differences) > 1 + _EQUAL).any():
        raise ValueError("equivalence is for differences from -1 to 1")
    gained, lost = (
        to_clusters(
            np.where(np.isnan(differences), np.nan, np.maximum(sign * differences, 0)), labels
        )
        for sign, labels in ((1, clusters), (-1, clusters))
    )
    grouped = to_clusters(differences, clusters)
    results = []
    for at, difference in enumerate(grouped.means.tolist()):
        if unknown := _cannot_tell(gained, lost, at):
            nothing = (difference, math.nan, math.nan, margin, alpha, math.nan, False)
            results.append(Equivalence(*nothing, unknown))
            continue

        def upper(sign: int, confidence: float, at: int = at) -> float:
            """The bound above the difference, or above its opposite."""
            more, less = (gained, lost) if sign > 0 else (lost, gained)
            return _square_and_add(more, less, grouped, at, confidence)

        p = max(_one_sided(partial(upper, sign), margin) for sign in (1, -1))
        results.append(
            Equivalence(
                difference,
                -upper(-1, 1 - alpha),
                upper(1, 1 - alpha),
                margin,
                alpha,
                p,
                bool(p < alpha),
            )
        )
    return results


def _cannot_tell(gained: Clusters, lost: Clusters, at: int) -> str:
    """Why so few clusters that differ show no equivalence; empty where they are enough."""
    sums, counts = gained.column(at)
    differ = (sums != 0) | (lost.column(at)[0] != 0)
    unlike = int(differ.sum())
    said = f"{unlike} of {len(sums)} {'clusters' if gained.clustered else 'observations'} differ"
    if unlike < FEW_UNLIKE:
        return f"{said}, fewer than {FEW_UNLIKE}: cannot tell"
    effective = float(counts[differ].sum() ** 2 / (counts[differ] ** 2).sum())
    if effective < FEW_EFFECTIVE:
        return f"{said}, so unequal that they tell as much as {effective:.1f}: cannot tell"
    return ""


def _square_and_add(
    more: Clusters, less: Clusters, both: Clusters, at: int, confidence: float
) -> float:
    """The upper bound of mean(more) - mean(less), each between 0 and 1, at one-sided confidence."""
    level = 2 * confidence - 1
    means = np.array([part.means[at] for part in (more, less)])
    errors = np.array([part.standard_errors[at] for part in (more, less)])
    worth = worth_of(means, errors, both.degrees[at], both.effective[at], level)
    # A part that is nowhere seen has no spread of its own: what the other says of the clusters
    # holds for it too.
    worth = np.where((means == 0) & (means[::-1] > 0), worth[::-1], worth)
    low, high = share_interval(means, worth, level)
    over, under = float(high[0] - means[0]), float(means[1] - low[1])
    shared = 0.0
    if min(errors) > 0:
        total = float((errors**2).sum() - both.standard_errors[at] ** 2)
        shared = min(max(total / (2 * errors[0] * errors[1]), -1.0), 1.0)
    reach = math.sqrt(max(over**2 + under**2 - 2 * shared * over * under, 0.0))
    return float(means[0] - means[1]) + reach


def _one_sided(upper: Callable[[float], float], margin: float) -> float:
    """The least p at which the upper bound is below the margin; 0.5 for more than that."""
    from scipy.optimize import brentq

    def beyond(log_p: float) -> float:
        return upper(1 - math.exp(log_p)) - margin

    low, high = math.log(1e-15), math.log(0.5 - 1e-9)
    if beyond(high) >= 0:
        return 0.5
    return math.exp(low if beyond(low) < 0 else float(brentq(beyond, low, high, xtol=1e-10)))


def _spread(
    a: npt.ArrayLike, b: npt.ArrayLike, clusters: npt.ArrayLike | None
) -> list[tuple[float, float, float]]:
    """(mean of a less b, standard error, degrees of freedom) of each metric."""
    grouped = to_clusters(_paired(b, a)[2], clusters)
    columns = (grouped.means, grouped.standard_errors, grouped.degrees)
    return list(zip(*(column.tolist() for column in columns), strict=True))
