"""The sign-flip test: flips the signs of whole clusters, for all metrics at once.

SciPy's `permutation_test` takes 190 times as long for 6,980 queries and 8 metrics
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

# Signs per block, which fit in the processor's cache.
_BLOCK = 1 << 18
# Sums in another order differ in their last digits; signs that reproduce the observed sum must
# count as at least as extreme.
_ROUNDING = 1e-10
# OpenBLAS uses several threads from about this many multiplications on, and they wait for one
# another: on a busy machine such a product took ten times as long as on one thread.
_ONE_THREAD = 1 << 19
_COLUMNS = 16
_ALIKE = 256  # metrics whose signs are enumerated together


class Resampling(TypedDict, total=False):
    """Interval level, number and seed of resamples, and whether observations are cluster means."""

    level: float
    resamples: int
    seed: int
    of_means: bool


RESAMPLING: Resampling = {"level": 0.95, "resamples": 10_000, "seed": 0, "of_means": False}
"""The defaults."""


@dataclass(frozen=True)
class DifferenceTest:
    """A two-sided p value of sign flips or of t, and the smallest possible one.

    By sign flips `smallest` is the p for differences of one sign; by t, the p that a true
    difference of 1 reaches with the given power. `exact`: all assignments of signs were enumerated.
    Both p are NaN without pairs, and p is 1 if every difference is 0.
    """

    p: float
    exact: bool
    smallest: float


def sign_flip_test(differences: Clusters, resamples: int, seed: int) -> list[DifferenceTest]:
    """Test that the mean difference is 0; one result a metric.

    Under the null hypothesis the systems are exchangeable within a pair, so each cluster's
    difference has either sign with equal probability (Fisher; Smucker, Allan & Carterette, CIKM
    2007). Up to `resamples` assignments are enumerated (each with its mirror image, which has the
    same |sum|), more are sampled, and p = (b + 1) / (B + 1), never 0 (Phipson & Smyth 2010).
    """
    sums = differences.sums
    free = (sums != 0).sum(axis=0)
    exact = free - 1 <= math.log2(resamples)
    drawn = np.flatnonzero(~exact)
    extreme = _count_extreme(sums[:, drawn], random_kept(len(sums), resamples, seed))
    found = {
        column: _sampled(n, resamples)
        for column, n in zip(drawn.tolist(), extreme.tolist(), strict=True)
    }
    for k in np.unique(free[exact]).tolist():
        alike = np.flatnonzero(exact & (free == k))
        for some in np.split(alike, range(_ALIKE, len(alike), _ALIKE)):
            columns = sums[:, some].T
            moved = columns[columns != 0].reshape(len(some), k).T
            found |= zip(some.tolist(), _enumerated(moved), strict=True)
    for column in np.flatnonzero(differences.n == 0).tolist():
        found[column] = DifferenceTest(np.nan, True, np.nan)
    return [found[column] for column in range(sums.shape[1])]


def _enumerated(sums: Values) -> list[DifferenceTest]:
    """Enumerate the signs of the clusters that differ from 0, as many in each metric."""
    k = len(sums)
    if k == 0:
        return [DifferenceTest(1.0, True, 1.0)] * sums.shape[1]
    half = 1 << (k - 1)
    extreme = _count_extreme(sums, all_kept(k)).tolist()
    return [DifferenceTest(n / half, True, 1 / half) for n in extreme]


def _count_extreme(sums: Values, kept: Iterator[Values]) -> npt.NDArray[np.int64]:
    """Count, per metric, the assignments with a sum at least as far from 0 as the observed one.

    `kept` is 1 for a sign that stays, 0 for one that flips: the sum is 2 * (kept @ sums) - total.
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
    width = 8 * -(-n // 64)  # whole words, so that draws do not depend on the block size
    rows = max(1, _BLOCK // max(n, 1))
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        raw = np.frombuffer(generator.bytes(size * width), np.uint8).reshape(size, width)
        yield np.unpackbits(raw, axis=1, count=n).astype(np.float64)


def all_kept(k: int) -> Iterator[Values]:
    """All assignments that keep the first of `k` signs, in blocks of shape (rows, k)."""
    half, rows = 1 << (k - 1), max(1, _BLOCK // k)
    for start in range(0, half, rows):
        at = np.arange(start, min(start + rows, half))[:, None]
        rest = ((at >> np.arange(k - 1)) & 1).astype(np.float64)
        yield np.concatenate([np.ones((len(at), 1)), rest], axis=1)


def _sampled(extreme: int, resamples: int) -> DifferenceTest:
    """p of sampled assignments, including the observed one (Phipson & Smyth 2010)."""
    return DifferenceTest((extreme + 1) / (resamples + 1), False, 1 / (resamples + 1))


def product(left: Values, right: Values) -> Values:
    """left @ right in tiles, which stay on one thread."""
    out = np.empty((len(left), right.shape[1]))
    for column in range(0, right.shape[1], _COLUMNS):
        part = np.ascontiguousarray(right[:, column : column + _COLUMNS])
        rows = max(4, _ONE_THREAD // max(part.size, 1))
        for row in range(0, len(left), rows):
            tile = np.s_[row : row + rows, column : column + _COLUMNS]
            out[tile] = left[row : row + rows] @ part
    return out
