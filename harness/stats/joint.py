"""Joint tests of many differences over the same clusters.

From ten clusters on, signs of whole clusters are flipped, the same for all columns (metrics,
slices, pairs of systems), which preserves their correlation. Metrics of one run fall together, so
the correction depends on how different they are, not only on their number. The statistic is

    T = sum over clusters of S_g / sqrt(sum over clusters of S_g^2)

Flips do not change its denominator, and Student's t is an increasing function of T. T is at most
the square root of the number of clusters, so neither a column of few clusters nor a single large
cluster raises the threshold of the other columns.

Fewer clusters have too few signs: they are tested by t, with Holm's correction. If all clusters
differ by the same amount there is no spread; one observation of the smallest cluster then counts as
equal. t assumes normal cluster means: if two to four clusters each rise or fall as a whole, it errs
in up to 29% of tests at 5% (`tests/benchmarks/claims.md`).

* `joint_tests`: is the mean of a column 0, or at most 0?
* `rank_ranges`: which ranks can a system have among others?

Flips are valid for any number and size of clusters if differences under the null hypothesis are
jointly symmetric about 0, and for many clusters otherwise (a wild bootstrap with Rademacher
weights; Romano and Wolf 2005, Chernozhukov, Chetverikov and Kato 2013). Error rates:
`tests/benchmarks/ranks.md` and `gates.md`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Unpack

import numpy as np
import numpy.typing as npt

from harness.stats.clusters import Clusters, Ints, Values, to_clusters
from harness.stats.intervals import t_above, t_quantile
from harness.stats.power import errors_to_show
from harness.stats.proportions import holm
from harness.stats.resampling import (
    RESAMPLING,
    DifferenceTest,
    Resampling,
    all_kept,
    product,
    random_kept,
    sign_flip_test,
)

Flags = npt.NDArray[np.bool_]

FEW = 10
"""Fewer clusters are tested by t, which shows differences a third smaller than signs."""
_FARTHEST = 1e4
"""Standard errors above which the noncentral t is not computed."""
_NUMBERS = 1 << 22  # sums of columns in memory at once

# Sums in another order differ in their last digits: statistics equal to the observed one must count
# as at least as large.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class JointTest:
    """The test of one column, corrected for the whole family.

    `least` is the smallest possible p of `clusters` with the other columns as they are: by sign
    flips, if all clusters fell; by t, what a true difference of 1 reaches with the given power. If
    it is above 1 - level, nothing can be shown. `detectable` is the smallest true difference that
    this test, with its correction, shows with that power if the other columns show nothing:
    infinite if there is none, NaN without spread, and for clusters too unequal to know it. p and
    `least` are NaN for a column without observations.
    """

    p: float
    least: float
    detectable: float
    clusters: int


def joint_tests(
    differences: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    one_sided: bool = False,
    power: float = 0.8,
    **resampling: Unpack[Resampling],
) -> list[JointTest]:
    """Test that the mean of each column is 0, with all columns as one family.

    `one_sided` tests that it is at most 0. The probability that any column for which this is true
    gets p <= 1 - level is at most 1 - level: by the step-down max-T of Westfall and Young (1993,
    algorithm 2.8), with signs instead of permutations; below `FEW` clusters by Holm's correction of
    t tests. A family of one has the p of `mean_tests`. Returns one result per column. Raises
    ValueError.
    """
    options: Resampling = {**RESAMPLING, **resampling}
    grouped = to_clusters(differences, clusters)
    _check(options["level"], options["resamples"])
    if not grouped.sums.shape[1]:
        return []
    sides, by_t = 1 if one_sided else 2, few(grouped, of_means=options["of_means"])
    present, alpha = grouped.present.sum(axis=0), 1 - options["level"]
    if by_t:
        grouped = _with_spread(grouped)
        p, tested = _t_tests(grouped, sides), grouped.standard_errors > 0  # else all tie
        p[tested] = holm(p[tested])
        tests = max(int(tested.sum()), 1)
        critical = [t_quantile(1 - alpha / tests / sides, df) for df in grouped.degrees.tolist()]
        least = np.minimum(1, tests * _least_by_t(grouped, sides, power))
    else:
        p, largest = _step_down(grouped.sums, options, one_sided=one_sided)
        reach = float(np.quantile(largest, options["level"], method="higher"))
        critical = [_t_of(reach, g) for g in grouped.effective.tolist()]
        beside = (largest[:, None] >= np.sqrt(present) * (1 - _ROUNDING)).mean(axis=0)
        alone = [least_p(g, options["resamples"], sides) for g in present.tolist()]
        least = np.maximum(alone, beside)
    detectable = _detectable(grouped, critical, power)
    detectable[(least > alpha) & np.isnan(detectable) & (grouped.standard_errors > 0)] = math.inf
    p[present == 0] = math.nan
    columns = (p.tolist(), least.tolist(), detectable.tolist(), present.tolist())
    return [JointTest(*column) for column in zip(*columns, strict=True)]


def _with_spread(grouped: Clusters) -> Clusters:
    """Give columns without spread one: an observation of the smallest cluster counts as equal."""
    sums = grouped.sums.copy()
    for at in np.flatnonzero((grouped.standard_errors == 0) & (grouped.means != 0)):
        counts = np.where(grouped.present[:, at], grouped.counts[:, at], math.inf)
        sums[np.argmin(counts), at] -= grouped.means[at]
    return replace(grouped, sums=sums)


def _least_by_t(grouped: Clusters, sides: int, power: float) -> Values:
    """The p that a true difference of 1 reaches with that power, by column; 1 for one cluster.

    1 is the largest difference of metrics between 0 and 1.
    """
    from scipy.special import nctdtrit

    found = []
    for error, df in zip(grouped.standard_errors.tolist(), grouped.degrees.tolist(), strict=True):
        apart = min(1 / error, _FARTHEST) if error > 0 else _FARTHEST
        found.append(min(1.0, sides * t_above(float(nctdtrit(df, apart, 1 - power)), df)))
    few = grouped.present.sum(axis=0)
    return np.where(few < 2, np.where(few == 1, 1.0, math.nan), found)


def _detectable(grouped: Clusters, critical: Sequence[float], power: float) -> Values:
    """The true difference of each column that has a t above `critical` with that power."""
    columns = (grouped.standard_errors.tolist(), grouped.degrees.tolist(), critical)
    return np.array(
        [
            error * errors_to_show(t, df, power) if error > 0 and not math.isnan(t) else math.nan
            for error, df, t in zip(*columns, strict=True)
        ]
    )


def mean_tests(
    differences: Clusters, options: Resampling, power: float = 0.8
) -> list[DifferenceTest]:
    """Test that the mean of each column is 0, two-sided and without correction.

    By sign flips (`sign_flip_test`), or by t below `FEW` clusters: the smallest p is then what a
    true difference of 1 reaches with that power.
    """
    if not few(differences, of_means=options["of_means"]):
        return sign_flip_test(differences, options["resamples"], options["seed"])
    apart = _with_spread(differences)
    columns = (_t_tests(apart, 2).tolist(), _least_by_t(apart, 2, power).tolist())
    return [DifferenceTest(p, False, least) for p, least in zip(*columns, strict=True)]


def few(clusters: Clusters, *, of_means: bool = False) -> bool:
    """Whether to test by t: for fewer than `FEW` clusters, or means of clusters.

    Never for single observations: their differences have few values, and no normal mean.
    """
    present = int(clusters.present.any(axis=1).sum())
    return present < FEW and (clusters.clustered or of_means)


def _t_tests(grouped: Clusters, sides: int) -> Values:
    """p of each column: 1 without differences or for one cluster, NaN without observations."""
    found = []
    columns = (grouped.means, grouped.standard_errors, grouped.degrees)
    for mean, error, df in zip(*(column.tolist() for column in columns), strict=True):
        size = mean if sides == 1 else abs(mean)
        found.append(sides * t_above(size / error, df) if error > 0 else 0.0 * mean + 1)
    return np.array(found)


def _step_down(sums: Values, options: Resampling, *, one_sided: bool) -> tuple[Values, Values]:
    """p of each column, and the largest T of all columns under each assignment of signs."""
    sums = sums * _inverse(np.sqrt((sums**2).sum(axis=0)))
    observed = sums.sum(axis=0) if one_sided else np.abs(sums.sum(axis=0))
    order = np.argsort(-observed, kind="stable")
    limit = (observed - _ROUNDING * np.abs(observed))[order]
    extreme = np.zeros(len(order), np.int64)
    highest = []
    blocks, exact = _flipped(sums[:, order], options["resamples"], options["seed"])
    for block in blocks:
        if not one_sided:
            reached = np.abs(block)
        else:  # enumerated signs lack their mirror images
            reached = np.concatenate([block, -block]) if exact else block
        # A column is compared with the largest of those that are not above it.
        reached = np.maximum.accumulate(reached[:, ::-1], axis=1)[:, ::-1]
        extreme += (reached >= limit).sum(axis=0)
        highest.append(reached[:, 0])
    largest = np.concatenate(highest)
    p = np.empty(len(order))
    p[order] = np.maximum.accumulate((extreme + (not exact)) / (len(largest) + (not exact)))
    return p, largest


@dataclass(frozen=True)
class RankRanges:
    """The best and worst rank, from 1, of each system, and the smallest possible p.

    `better` is True at [j, k] if system j is shown to be better than k, with all pairs as one
    family. If `least` is above 1 - level, `clusters` are too few to show any order.
    """

    best: Ints
    worst: Ints
    clusters: int
    least: float
    better: Flags


def rank_ranges(
    values: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    level: float = 0.95,
    resamples: int = 999,
    seed: int = 0,
) -> list[RankRanges]:
    """Ranges that contain the true ranks of all systems at once; rank 1 is the largest mean.

    `values` has the shape (observations, systems, metrics), or (observations, systems) for one
    metric. There is one result per metric, and the guarantee is for each metric by itself. Every
    system needs a value for every observation. Raises ValueError.

    Mogstad, Romano, Shaikh and Wilhelm (2024, Review of Economic Studies 91, section 3.2): each
    ordered pair of systems is a hypothesis, "j is no better than k", and a step-down max-T rejects
    any true one with probability at most 1 - level. The best rank of a system is one below the
    systems shown to be better, the worst one above those shown to be worse. Their package (csranks)
    draws normal differences; here the paired differences of whole clusters are flipped.
    """
    array = np.asarray(values, np.float64)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or not np.isfinite(array).all():
        raise ValueError("ranks need (observations, systems, metrics), a finite value in each")
    _check(level, resamples)
    n, systems, metrics = array.shape
    # Only differences count; equal systems have exactly 0.
    apart = (array - array[:, :1]).reshape(n, systems * metrics)
    sums = to_clusters(apart, clusters).sums.reshape(-1, systems, metrics)
    least = least_p(len(sums), resamples)
    if least > 1 - level:
        shown = np.zeros((metrics, systems, systems), bool)
    else:
        families = [sums[:, :, at] for at in range(metrics)]
        tiny = _ROUNDING * np.abs(array).max(initial=0.0, axis=(0, 1))
        shown = np.array(
            [
                _shown(family, *flipped, 1 - level, float(size))
                for family, flipped, size in zip(
                    families, flips(families, resamples, seed), tiny, strict=True
                )
            ]
        )
    return [
        RankRanges(1 + better.sum(axis=0), systems - better.sum(axis=1), len(sums), least, better)
        for better in shown
    ]


def _shown(sums: Values, flipped: Values, exact: bool, alpha: float, tiny: float) -> Flags:
    """Whether system j is shown to be better than k, at [j, k]; `tiny` differences are rounding."""
    m = sums.shape[1]
    order = np.argsort(-sums.sum(axis=0), kind="stable")
    sums, flipped = sums[:, order], flipped[:, order]
    by_system = np.ascontiguousarray(flipped.T)
    totals = sums.sum(axis=0)
    weights, observed = np.zeros((m, m)), np.zeros((m, m))
    for j in range(m - 1):
        apart = sums[:, [j]] - sums[:, j + 1 :]
        scale = np.sqrt(np.einsum("ij,ij->j", apart, apart))
        weights[j, j + 1 :] = _inverse(np.where(scale > tiny, scale, 0.0))
        observed[j, j + 1 :] = (totals[j] - totals[j + 1 :]) * weights[j, j + 1 :]
    # The hypothesis of a system with the smaller mean is never rejected.
    # Enumerated signs lack their mirror images, which have the second row.
    least = np.zeros((2 if exact else 1, by_system.shape[1]))
    shown = np.zeros((m, m), bool)
    highest = np.zeros((m, *least.shape))  # of the hypotheses of each system that are left
    changed = np.arange(m) < m - 1
    while True:
        first = not shown.any()
        for j in np.flatnonzero(changed).tolist():
            left = np.s_[j + 1 :] if first else j + 1 + np.flatnonzero(~shown[j, j + 1 :])
            against = by_system[j] - by_system[left]
            against *= weights[j, left, None]
            ends = against.max(axis=0, initial=0.0), -against.min(axis=0, initial=0.0)
            highest[j] = ends[: len(least)]
            if first:
                np.maximum(least, ends[::-1][: len(least)], out=least)
        largest = np.maximum(highest.max(axis=0), least).ravel()
        reached = np.searchsorted(np.sort(largest), observed * (1 - _ROUNDING))
        p = (len(largest) - reached + (not exact)) / (len(largest) + (not exact))
        new = (observed > 0) & (p <= alpha) & ~shown
        if not new.any():
            back = np.argsort(order)
            return shown[np.ix_(back, back)]
        shown |= new
        changed = new.any(axis=1)


def flips(families: Sequence[Values], resamples: int, seed: int) -> list[tuple[Values, bool]]:
    """Sums of columns under signs of their clusters, and whether all signs were enumerated.

    Each family has the shape (clusters, columns) and gets (signs, columns): all assignments,
    without mirror images, up to `resamples`; else random ones, the same for all families. The signs
    are those of `sign_flip_test`.
    """
    found: dict[int, tuple[Values, bool]] = {}
    for at, sums in enumerate(families):
        if (moved := _moved(sums, resamples)) is not None:
            found[at] = _under(_all_kept(len(moved)), moved), True
    drawn = [at for at in range(len(families)) if at not in found]
    if drawn:
        sums = np.concatenate([families[at] for at in drawn], axis=1)
        flipped = _under(random_kept(len(sums), resamples, seed), sums)
        ends = np.cumsum([families[at].shape[1] for at in drawn])[:-1]
        parts = np.split(flipped, ends, axis=1)
        found |= {at: (part, False) for at, part in zip(drawn, parts, strict=True)}
    return [found[at] for at in range(len(families))]


def _flipped(sums: Values, resamples: int, seed: int) -> tuple[Iterator[Values], bool]:
    """`flips` of one family, in blocks that fit in memory."""
    moved = _moved(sums, resamples)
    exact = moved is not None
    used = sums if moved is None else moved
    kept = random_kept(len(sums), resamples, seed) if moved is None else _all_kept(len(moved))
    rows = max(1, _NUMBERS // sums.shape[1])
    starts = ((block, start) for block in kept for start in range(0, len(block), rows))
    return (_under([block[start : start + rows]], used) for block, start in starts), exact


def _moved(sums: Values, resamples: int) -> Values | None:
    """The clusters with differences, if their signs can be enumerated within `resamples`."""
    moved = sums[(sums != 0).any(axis=1)]
    return moved if len(moved) - 1 <= math.log2(resamples) else None


def _all_kept(n: int) -> Iterable[Values]:
    return all_kept(n) if n else [np.ones((1, 0))]


def _under(kept: Iterable[Values], sums: Values) -> Values:
    """Sums under signs; `kept` is 1 for a sign that stays, 0 for one that flips."""
    # Sixteen columns at a time, made contiguous once for all blocks of signs.
    parts = [np.ascontiguousarray(sums[:, at : at + 16]) for at in range(0, sums.shape[1], 16)]
    blocks = [np.concatenate([product(block, part) for part in parts], axis=1) for block in kept]
    flipped: Values = 2 * np.concatenate(blocks) - sums.sum(axis=0)
    return flipped


def _inverse(scale: Values) -> Values:
    """1 / scale, or 0 for columns without differences."""
    return np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)


def least_p(clusters: int, resamples: int, sides: int = 2) -> float:
    """The smallest p, for `clusters` that all fell; NaN without clusters."""
    return max(sides * 2.0**-clusters, 1 / (resamples + 1)) if clusters else math.nan


def _t_of(reach: float, clusters: float) -> float:
    """Student's t of a T of equal clusters; NaN if T cannot be so large."""
    room = clusters - reach**2
    return reach * math.sqrt((clusters - 1) / room) if room > _ROUNDING else math.nan


def _check(level: float, resamples: int) -> None:
    if not 0 < level < 1 or resamples < 1:
        raise ValueError(f"bad level {level} or resamples {resamples}")
