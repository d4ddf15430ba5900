"""Many differences over the same clusters, tested together by flipping signs of whole clusters.

One set of signs goes over all columns (metrics, slices, pairs of systems), so that what they have
in common is kept: metrics of one run fall together, and a family of them is corrected for as far as
they tell different things, not for their number. The statistic of a column is

    T = sum over clusters of S_g / sqrt(sum over clusters of S_g^2)

whose denominator no flip changes, and of which Student's t is an increasing function. T is at most
the square root of the number of clusters: a column of few clusters can never raise what the other
columns have to reach, nor can one cluster that is larger than all others.

* `joint_tests`: is the mean of a column 0?
* `rank_ranges`: which ranks can a system have among others?

Both hold at any size of clusters and any number of them where the differences of columns that are
alike are jointly symmetric about 0, and for many clusters where they are not (a wild bootstrap with
Rademacher weights; Romano and Wolf 2005, Chernozhukov, Chetverikov and Kato 2013). How they err
below that is simulated in `tests/benchmarks/ranks.md` and `gates.md`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.stats.clusters import Ints, Values, to_clusters
from harness.stats.intervals import t_above
from harness.stats.resampling import all_kept, product, random_kept

Flags = npt.NDArray[np.bool_]

# Sums of the same numbers in another order differ in their last digits: what should be equal to the
# observed statistic must count as at least as large.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class JointTest:
    """The two-sided test of one column, corrected for the whole family.

    `least` is the smallest p that `clusters` could have given in any family, all of which fell:
    where it is above 1 - level, nothing could have been shown. `alone` is the level that this
    column, by itself, would be tested at by what the family asks of it: 1 - level for a family of
    one, less for more, and 0 where so few clusters cannot reach it. All are NaN for a column
    without observations.
    """

    p: float
    least: float
    alone: float
    clusters: int


def joint_tests(
    differences: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> list[JointTest]:
    """Test that the mean of each column is 0, all columns as one family; one result a column.

    The step-down max-T of Westfall and Young (1993, algorithm 2.8), with signs for their
    permutations: that one column or more whose mean is 0 gets p <= 1 - level has a chance of at
    most 1 - level. A family of one gives the p of `sign_flip_test`. Raises ValueError.
    """
    grouped = to_clusters(differences, clusters)
    _check(level, resamples)
    if not grouped.sums.shape[1]:
        return []
    present = grouped.present.sum(axis=0)
    scale = np.sqrt((grouped.sums**2).sum(axis=0))
    order = np.argsort(-np.abs(grouped.sums.sum(axis=0)) * _inverse(scale), kind="stable")
    sums = grouped.sums[:, order] * _inverse(scale[order])
    ((flipped, exact),) = flips([sums], resamples, seed)
    absolute = np.abs(flipped)
    # A column has to reach the largest of those that are not above it.
    largest = np.maximum.accumulate(absolute[:, ::-1], axis=1)[:, ::-1]
    extreme = (largest >= np.abs(sums.sum(axis=0)) * (1 - _ROUNDING)).sum(axis=0)
    p = np.empty(len(order))
    p[order] = np.maximum.accumulate((extreme + (not exact)) / (len(flipped) + (not exact)))
    critical = float(np.quantile(largest[:, 0], level, method="higher"))
    tests = []
    for at, g in enumerate(present.tolist()):
        alone = 1 - level if len(order) == 1 else min(1 - level, _level_of(critical, g))
        found = (float(p[at]), least_p(g, resamples), alone)
        tests.append(JointTest(*(found if g else (math.nan,) * 3), g))
    return tests


@dataclass(frozen=True)
class RankRanges:
    """The best and the worst rank, from 1, of each system, and the smallest p there could be.

    `better` is True at [j, k] where system j is shown to be better than k, of all pairs at once.
    Where `least` is above 1 - level, `clusters` are too few to show any order.
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
    """Ranges that hold the true ranks of all systems at once, the largest mean first.

    `values` has the shape (observations, systems, metrics), or (observations, systems) for one
    metric; there is one result a metric, and the ranges of each hold at once, not those of all.
    Every system needs a value for every observation. Raises ValueError.

    Mogstad, Romano, Shaikh and Wilhelm (2024, Review of Economic Studies 91, section 3.2): every
    ordered pair of systems is a hypothesis, "j is no better than k", of which a step-down max-T
    rejects those that it can; that it rejects a true one has a chance of at most 1 - level. The
    best rank of a system is one below the systems that are shown to be better, the worst is as far
    from the end as there are systems shown to be worse. Theirs (csranks) draws normal differences;
    here the paired differences of whole clusters are flipped.
    """
    array = np.asarray(values, np.float64)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or not np.isfinite(array).all():
        raise ValueError("ranks need (observations, systems, metrics), a finite value in each")
    _check(level, resamples)
    n, systems, metrics = array.shape
    # Only differences count, and where systems are equal this leaves 0.
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
    """[j, k] is True where system j is shown to be better than k; differences up to `tiny` are
    what rounding leaves of none."""
    m = sums.shape[1]
    order = np.argsort(-sums.sum(axis=0), kind="stable")
    sums, flipped = sums[:, order], flipped[:, order]
    by_system = np.ascontiguousarray((np.concatenate([flipped, -flipped]) if exact else flipped).T)
    totals = sums.sum(axis=0)
    weights, observed = np.zeros((m, m)), np.zeros((m, m))
    for j in range(m - 1):
        apart = sums[:, [j]] - sums[:, j + 1 :]
        scale = np.sqrt(np.einsum("ij,ij->j", apart, apart))
        weights[j, j + 1 :] = _inverse(np.where(scale > tiny, scale, 0.0))
        observed[j, j + 1 :] = (totals[j] - totals[j + 1 :]) * weights[j, j + 1 :]
    # That a system with a smaller mean is no better than one with a larger is never rejected.
    least = np.zeros(by_system.shape[1])
    shown = np.zeros((m, m), bool)
    while True:
        first, largest = not shown.any(), least.copy()
        for j in range(m - 1):
            left = j + 1 + np.flatnonzero(~shown[j, j + 1 :])
            against = (by_system[j] - by_system[left]) * weights[j, left, None]
            np.maximum(largest, against.max(axis=0, initial=0.0), out=largest)
            if first:
                np.maximum(least, -against.min(axis=0, initial=0.0), out=least)
        np.maximum(largest, least, out=largest)
        reached = np.searchsorted(np.sort(largest), observed * (1 - _ROUNDING))
        p = (len(largest) - reached + (not exact)) / (len(largest) + (not exact))
        new = (observed > 0) & (p <= alpha) & ~shown
        if not new.any():
            back = np.argsort(order)
            return shown[np.ix_(back, back)]
        shown |= new


def flips(families: Sequence[Values], resamples: int, seed: int) -> list[tuple[Values, bool]]:
    """Sums of columns under signs of their clusters, and whether these are all signs there are.

    Each family has the shape (clusters, columns) and gets (signs, columns): every assignment,
    without mirror images, where there are no more than `resamples`; else random ones, the same for
    all families. The signs are those of `sign_flip_test`.
    """
    found: dict[int, tuple[Values, bool]] = {}
    for at, sums in enumerate(families):
        moved = sums[(sums != 0).any(axis=1)]
        if len(moved) - 1 <= math.log2(resamples):
            kept = all_kept(len(moved)) if len(moved) else [np.ones((1, 0))]
            found[at] = _under(kept, moved), True
    drawn = [at for at in range(len(families)) if at not in found]
    if drawn:
        sums = np.concatenate([families[at] for at in drawn], axis=1)
        flipped = _under(random_kept(len(sums), resamples, seed), sums)
        ends = np.cumsum([families[at].shape[1] for at in drawn])[:-1]
        parts = np.split(flipped, ends, axis=1)
        found |= {at: (part, False) for at, part in zip(drawn, parts, strict=True)}
    return [found[at] for at in range(len(families))]


def _under(kept: Iterable[Values], sums: Values) -> Values:
    """Sums where `kept` is 1 for a sign that stays, 0 for one that flips."""
    # Columns by sixteen, each contiguous once and not again for every block of signs.
    parts = [np.ascontiguousarray(sums[:, at : at + 16]) for at in range(0, sums.shape[1], 16)]
    blocks = [np.concatenate([product(block, part) for part in parts], axis=1) for block in kept]
    flipped: Values = 2 * np.concatenate(blocks) - sums.sum(axis=0)
    return flipped


def _inverse(scale: Values) -> Values:
    """1 / scale, 0 where that is 0: columns without a difference never reach anything."""
    return np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)


def least_p(clusters: int, resamples: int) -> float:
    """The least p of so many clusters, all of which fell: they and their mirror image, of all
    assignments. NaN for none."""
    return max(2.0 ** (1 - clusters), 1 / (resamples + 1)) if clusters else math.nan


def _level_of(critical: float, clusters: int) -> float:
    """The level of a test by itself for which T must reach `critical`, by Student's t.

    t = T sqrt((G - 1) / (G - T^2)), of `clusters` - 1 degrees of freedom. 0 where T cannot reach
    it, or hardly: 1 less so small a level is 1 to a computer.
    """
    room = clusters - critical**2
    if room <= 0:
        return 0.0
    level = 2 * t_above(critical * math.sqrt((clusters - 1) / room), clusters - 1)
    return level if level > _ROUNDING else 0.0


def _check(level: float, resamples: int) -> None:
    if not 0 < level < 1 or resamples < 1:
        raise ValueError(f"bad level {level} or resamples {resamples}")
