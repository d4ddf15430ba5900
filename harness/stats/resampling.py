"""The test by sign flips: signs of whole clusters' differences flipped, all metrics at once.

Not SciPy's `permutation_test`: for 6,980 queries and 8 metrics it takes 190 times as long
(`tests/benchmarks/resampling.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypedDict

import numpy as np
import numpy.typing as npt

from harness.stats.clusters import Clusters, Values

# Signs handled at once: small enough for the processor's cache.
_BLOCK = 1 << 18
# Sums of the same numbers in another order differ in their last digits; signs that give the
# observed sum again must count as at least as extreme.
_ROUNDING = 1e-10
# OpenBLAS gives a product to several threads from about this many multiplications on. Those wait
# for one another: beside other work, such a product took ten times as long as on one thread.
_ONE_THREAD = 1 << 19
_COLUMNS = 16


class Resampling(TypedDict, total=False):
    """The level of intervals, the number and seed of the resamples of tests, and whether each
    observation is the mean of a cluster."""

    level: float
    resamples: int
    seed: int
    of_means: bool


RESAMPLING: Resampling = {"level": 0.95, "resamples": 10_000, "seed": 0, "of_means": False}
"""The defaults."""


@dataclass(frozen=True)
class DifferenceTest:
    """A two-sided p value of sign flips or of t, and the smallest that it could have been.

    By sign flips `smallest` is p if all differences had one sign; by t it is what a true difference
    of 1 reaches with the wanted power. `exact` says that all assignments of signs were looked at.
    Both p are NaN where there is nothing to test (no pair), and p is 1 where every difference is 0.
    """

    p: float
    exact: bool
    smallest: float


def sign_flip_test(differences: Clusters, resamples: int, seed: int) -> list[DifferenceTest]:
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
            results.append(DifferenceTest(np.nan, True, np.nan))
        elif column in found:
            results.append(_sampled(found[column], resamples))
        else:
            some = sums[sums[:, column] != 0, column][:, None]
            results.append(_enumerated(some))
    return results


def _enumerated(sums: Values) -> DifferenceTest:
    """All assignments of signs to the clusters of one metric that differ from 0; (clusters, 1)."""
    k = len(sums)
    if k == 0:
        return DifferenceTest(1.0, True, 1.0)
    half = 1 << (k - 1)
    extreme = int(_count_extreme(sums, all_kept(k))[0])
    return DifferenceTest(extreme / half, True, 1 / half)


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


def _sampled(extreme: int, resamples: int) -> DifferenceTest:
    """p of drawn assignments, the observed one counted among them (Phipson & Smyth 2010)."""
    return DifferenceTest((extreme + 1) / (resamples + 1), False, 1 / (resamples + 1))


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
