"""The permutation test of two groups: units change groups, all metrics at once."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations, islice

import numpy as np

from harness.statistics.bootstrap import same_units
from harness.statistics.products import product
from harness.statistics.resampling import Randomisation
from harness.statistics.units import Units, Values

_BLOCK = 1 << 18
_ROUNDING = 1e-9


def permutation_test(a: Units, b: Units, resamples: int, seed: int) -> list[Randomisation]:
    """Test that two groups have the same mean; two-sided, one result a metric.

    Units (whole clusters) are dealt anew to groups of the sizes they had, and Welch's t is taken
    each time: exact where the groups are alike in every way, and right for the means of large
    groups that differ in spread, which the plain difference is not (Janssen 1997; Chung & Romano
    2013). All deals are enumerated where they are no more than `resamples`, else
    p = (b + 1) / (B + 1).
    """
    sums, counts = np.concatenate([a.sums, b.sums]), np.concatenate([a.counts, b.counts])
    both = Units(sums, counts, a.clustered or b.clustered)
    results = [Randomisation(np.nan, True, 0, np.nan)] * sums.shape[1]
    for columns in same_units(both):
        here = both.present[:, columns[0]]
        n = int(here.sum())
        k = int(here[: len(a.sums)].sum())
        if 0 < k < n:
            part = (sums[here][:, columns], counts[here][:, columns])
            for column, result in zip(columns, _test(*part, k, resamples, seed), strict=True):
                results[column] = result
    return results


def _test(
    sums: Values, counts: Values, k: int, resamples: int, seed: int
) -> Iterator[Randomisation]:
    """Results of metrics that share their units; the first `k` units are the first group."""
    n, deals = len(sums), math.comb(len(sums), k)
    exact = deals <= resamples
    observed = np.zeros((1, n))
    observed[0, :k] = 1
    limit = np.abs(_welch_t(observed, sums, counts))[0] * (1 - _ROUNDING)
    extreme = np.zeros(sums.shape[1], np.int64)
    for members in _all_deals(n, k) if exact else _random_deals(n, k, resamples, seed):
        extreme += (np.abs(_welch_t(members, sums, counts)) >= limit).sum(axis=0)
    for found in extreme.tolist():
        if exact:
            yield Randomisation(found / deals, True, deals, (2 if 2 * k == n else 1) / deals)
        else:
            yield Randomisation(
                (found + 1) / (resamples + 1), False, resamples, 1 / (resamples + 1)
            )


def _welch_t(members: Values, sums: Values, counts: Values) -> Values:
    """Welch's t of each deal and metric; 0 where the means agree, infinite where only they differ.

    `members` (deals, units) is 1 for units of the first group. Every sum over a group that the
    linearised variance needs (see Units.standard_errors) is a product with it.
    """
    moments = (sums, counts, sums**2, sums * counts, counts**2)
    first = [product(members, moment) for moment in moments]
    second = [moment.sum(axis=0) - part for moment, part in zip(moments, first, strict=True)]
    size = members.sum(axis=1, keepdims=True)
    mean_a, variance_a = _mean_and_variance(first, size)
    mean_b, variance_b = _mean_and_variance(second, sums.shape[0] - size)
    difference, variance = mean_a - mean_b, variance_a + variance_b
    scale = np.abs(sums).sum(axis=0) / counts.sum(axis=0)
    difference = np.where(np.abs(difference) <= _ROUNDING * scale, 0.0, difference)
    # A group of equal units has no variance but what rounding leaves.
    variance = np.where(variance <= (_ROUNDING * scale) ** 2, 0.0, variance)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(difference == 0, 0.0, difference / np.sqrt(variance))


def _mean_and_variance(group: list[Values], g: Values) -> tuple[Values, Values]:
    """Mean, and variance of the mean, of each deal; a single unit adds no variance."""
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
