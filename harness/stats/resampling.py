"""Tests by exchange of clusters, all metrics at once.

* `sign_flip_test`: the paired randomisation test, signs of differences flipped.
* `permutation_test`: two groups, clusters dealt anew.

Not SciPy's `permutation_test`: for 6,980 queries and 8 metrics it takes 190 times as long
(`tests/benchmarks/resampling.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, islice
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from harness.stats.clusters import Clusters, Values

# Signs, or places in a deal, handled at once: small enough for the processor's cache.
_BLOCK = 1 << 18
# Sums of the same numbers in another order differ in their last digits; an exchange that gives the
# observed sum, or t, again must count as at least as extreme.
_ROUNDING = 1e-10
_ROUNDING_OF_T = 1e-9
# OpenBLAS gives a product to several threads from about this many multiplications on. Those wait
# for one another: beside other work, such a product took ten times as long as on one thread.
_ONE_THREAD = 1 << 19
_COLUMNS = 16


class Resampling(TypedDict, total=False):
    """The level of intervals, and the number and seed of the resamples of tests."""

    level: float
    resamples: int
    seed: int


RESAMPLING: Resampling = {"level": 0.95, "resamples": 10_000, "seed": 0}
"""The defaults."""


@dataclass(frozen=True)
class Randomisation:
    """A two-sided p value, and the smallest that the test could have given.

    `assignments` is how many (of signs to pairs, of clusters to groups) were looked at; `exact`
    says that these are all there are. Both p are NaN where there is nothing to test (no pair), and
    p is 1 where every difference is 0.
    """

    p: float
    exact: bool
    assignments: int
    smallest: float


def sign_flip_test(differences: Clusters, resamples: int, seed: int) -> list[Randomisation]:
    """Test that the mean difference is 0; one result a metric.

    Under the null hypothesis the two systems may be exchanged within a pair, so that every
    cluster's difference has either sign with equal chance (Fisher; Smucker, Allan & Carterette,
    CIKM 2007). All assignments are enumerated where they are no more than `resamples` (each with
    its mirror image, which has the same |sum|), else they are drawn and p = (b + 1) / (B + 1),
    never 0 (Phipson & Smyth 2010).
    """
    sums = differences.sums
    free = (sums != 0).sum(axis=0)
    exact = free - 1 <= math.log2(resamples)
    drawn = np.flatnonzero(~exact)
    extreme = _count_extreme(sums[:, drawn], random_kept(len(sums), resamples, seed))
    found = dict(zip(drawn.tolist(), extreme.tolist(), strict=True))
    results = []
    for column in range(sums.shape[1]):
        if differences.n[column] == 0:
            results.append(Randomisation(np.nan, True, 0, np.nan))
        elif column in found:
            results.append(_sampled(found[column], resamples))
        else:
            some = sums[sums[:, column] != 0, column][:, None]
            results.append(_enumerated(some))
    return results


def _enumerated(sums: Values) -> Randomisation:
    """All assignments of signs to the clusters of one metric that differ from 0; (clusters, 1)."""
    k = len(sums)
    if k == 0:
        return Randomisation(1.0, True, 1, 1.0)
    half = 1 << (k - 1)
    extreme = int(_count_extreme(sums, all_kept(k))[0])
    return Randomisation(extreme / half, True, 2 * half, 1 / half)


def _count_extreme(sums: Values, kept: Iterator[Values]) -> npt.NDArray[np.int64]:
    """How many assignments give a sum at least as far from 0 as the observed one, a metric.

    `kept` is 1 where a sign stays and 0 where it flips: the sum is then 2 * (kept @ sums) - total.
    """
    total = sums.sum(axis=0)
    limit = np.abs(total) - _ROUNDING * np.abs(sums).sum(axis=0)
    extreme = np.zeros(sums.shape[1], np.int64)
    if sums.shape[1]:
        for block in kept:
            extreme += (np.abs(2 * product(block, sums) - total) >= limit).sum(axis=0)
    return extreme


def random_kept(n: int, resamples: int, seed: int) -> Iterator[Values]:
    """Random bits in blocks of shape (rows, n)."""
    generator = np.random.default_rng(seed)
    width = 8 * -(-n // 64)  # whole words, so that the draws do not depend on the block
    rows = max(1, _BLOCK // max(n, 1))
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        raw = np.frombuffer(generator.bytes(size * width), np.uint8).reshape(size, width)
        yield np.unpackbits(raw, axis=1, count=n).astype(np.float64)


def all_kept(k: int) -> Iterator[Values]:
    """Every assignment that keeps the first of `k` signs, in blocks of shape (rows, k)."""
    half, rows = 1 << (k - 1), max(1, _BLOCK // k)
    for start in range(0, half, rows):
        at = np.arange(start, min(start + rows, half))[:, None]
        rest = ((at >> np.arange(k - 1)) & 1).astype(np.float64)
        yield np.concatenate([np.ones((len(at), 1)), rest], axis=1)


def permutation_test(a: Clusters, b: Clusters, resamples: int, seed: int) -> list[Randomisation]:
    """Test that two groups have the same mean; two-sided, one result a metric.

    Whole clusters are dealt anew to groups of the sizes they had, and Welch's t is taken
    each time: exact where the groups are alike in every way, and right for the means of large
    groups that differ in spread, which the plain difference is not (Janssen 1997; Chung & Romano
    2013). All deals are enumerated where they are no more than `resamples`, else
    p = (b + 1) / (B + 1).
    """
    sums, counts = np.concatenate([a.sums, b.sums]), np.concatenate([a.counts, b.counts])
    both = Clusters(sums, counts, a.clustered or b.clustered)
    results = [Randomisation(np.nan, True, 0, np.nan)] * sums.shape[1]
    for columns in _same_clusters(both):
        here = both.present[:, columns[0]]
        n = int(here.sum())
        k = int(here[: len(a.sums)].sum())
        if 0 < k < n:
            part = (sums[here][:, columns], counts[here][:, columns])
            for column, result in zip(columns, _dealt(*part, k, resamples, seed), strict=True):
                results[column] = result
    return results


def _dealt(
    sums: Values, counts: Values, k: int, resamples: int, seed: int
) -> Iterator[Randomisation]:
    """Results of metrics that share their clusters; the first `k` clusters are the first group."""
    n, deals = len(sums), math.comb(len(sums), k)
    exact = deals <= resamples
    observed = np.zeros((1, n))
    observed[0, :k] = 1
    limit = np.abs(_welch_t(observed, sums, counts))[0] * (1 - _ROUNDING_OF_T)
    extreme = np.zeros(sums.shape[1], np.int64)
    for members in _all_deals(n, k) if exact else _random_deals(n, k, resamples, seed):
        extreme += (np.abs(_welch_t(members, sums, counts)) >= limit).sum(axis=0)
    for found in extreme.tolist():
        if exact:
            yield Randomisation(found / deals, True, deals, (2 if 2 * k == n else 1) / deals)
        else:
            yield _sampled(found, resamples)


def _welch_t(members: Values, sums: Values, counts: Values) -> Values:
    """Welch's t of each deal and metric; 0 where the means agree, infinite where only they differ.

    `members` (deals, clusters) is 1 for clusters of the first group. Every sum over a group that
    the linearised variance of a ratio needs (Cochran 1977, section 6.3) is a product with it.
    """
    moments = (sums, counts, sums**2, sums * counts, counts**2)
    first = [product(members, moment) for moment in moments]
    second = [moment.sum(axis=0) - part for moment, part in zip(moments, first, strict=True)]
    size = members.sum(axis=1, keepdims=True)
    mean_a, variance_a = _mean_and_variance(first, size)
    mean_b, variance_b = _mean_and_variance(second, sums.shape[0] - size)
    difference, variance = mean_a - mean_b, variance_a + variance_b
    scale = np.abs(sums).sum(axis=0) / counts.sum(axis=0)
    difference = np.where(np.abs(difference) <= _ROUNDING_OF_T * scale, 0.0, difference)
    # A group of equal clusters has no variance but what rounding leaves.
    variance = np.where(variance <= (_ROUNDING_OF_T * scale) ** 2, 0.0, variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(difference == 0, 0.0, difference / np.sqrt(variance))


def _mean_and_variance(group: list[Values], g: Values) -> tuple[Values, Values]:
    """Mean, and variance of the mean, of each deal; a single cluster adds no variance."""
    s, c, ss, sc, cc = group
    mean = s / c
    residual = np.maximum(ss - 2 * mean * sc + mean**2 * cc, 0.0)
    return mean, residual / c**2 * g / np.maximum(g - 1, 1)


def _random_deals(n: int, k: int, resamples: int, seed: int) -> Iterator[Values]:
    """`k` random members of `n`, in blocks of shape (rows, n): the places of the k least keys."""
    generator = np.random.default_rng(seed)
    rows = max(1, _BLOCK // n)
    for start in range(0, resamples, rows):
        keys = generator.random((min(rows, resamples - start), n))
        members = np.zeros(keys.shape)
        np.put_along_axis(members, np.argpartition(keys, k - 1, axis=1)[:, :k], 1.0, axis=1)
        yield members


def _all_deals(n: int, k: int) -> Iterator[Values]:
    """Every choice of `k` members of `n`, in blocks of shape (rows, n)."""
    choices = combinations(range(n), k)
    while chosen := list(islice(choices, max(1, _BLOCK // n))):
        members = np.zeros((len(chosen), n))
        np.put_along_axis(members, np.array(chosen), 1.0, axis=1)
        yield members


def _sampled(extreme: int, resamples: int) -> Randomisation:
    """p of drawn assignments, the observed one counted among them (Phipson & Smyth 2010)."""
    return Randomisation((extreme + 1) / (resamples + 1), False, resamples, 1 / (resamples + 1))


def _same_clusters(clusters: Clusters) -> list[list[int]]:
    """Metrics grouped by which clusters have them."""
    groups: dict[bytes, list[int]] = {}
    for column, here in enumerate(clusters.present.T):
        groups.setdefault(here.tobytes(), []).append(column)
    return list(groups.values())


def product(left: Values, right: Values) -> Values:
    """left @ right, in tiles of some rows and columns: as fast on a busy machine as on idle."""
    out = np.empty((len(left), right.shape[1]))
    for column in range(0, right.shape[1], _COLUMNS):
        part = np.ascontiguousarray(right[:, column : column + _COLUMNS])
        rows = max(4, _ONE_THREAD // max(part.size, 1))
        for row in range(0, len(left), rows):
            tile = np.s_[row : row + rows, column : column + _COLUMNS]
            out[tile] = left[row : row + rows] @ part
    return out
