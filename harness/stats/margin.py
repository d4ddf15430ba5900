"""One-sided tests of a mean against a margin: is a drop larger, or smaller, than is allowed?

Differences of retrieval metrics are mostly 0, with a few large ones, and sign flips and t err
against a margin: of 20 queries of which 2% drop by 1, t shows in 68% of samples that the drop is
below 0.02. So single observations are tested by Gaffke's bound (2005; Learned-Miller and Thomas
2020): the mean under random (Dirichlet) weights of the observations and of one more with the most
adverse value, 1 or -1. Of 0s and 1s it is Clopper and Pearson's, and it needs no distribution.

Clusters need both that test and t with cluster-robust errors (CR2). Below `MIN_CLUSTERS`
effective clusters nothing is shown: t would assume that their means are normal. Error rates:
`tests/benchmarks/margins.md`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.stats.clusters import Clusters, Values, as_columns, to_clusters
from harness.stats.intervals import t_above, t_quantile

MIN_CLUSTERS = 6
"""Minimum effective number of clusters; below it, no test is decided."""
_NUMBERS = 1 << 22  # weights in memory at once


@dataclass(frozen=True)
class MarginTest:
    """A mean tested against a margin, with an interval of level 1 - 2 * `alpha`.

    `p_above` tests that the mean is at most the margin, `p_below` that it is at least the margin. A
    small p_above shows that it is above. Both are NaN without observations. `undecided`: fewer than
    `MIN_CLUSTERS` effective clusters; both are then 1, and the interval is from -1 to 1.
    """

    mean: float
    low: float
    high: float
    p_above: float
    p_below: float
    clusters: int
    undecided: bool


def margin_tests(
    values: npt.ArrayLike,
    margins: Sequence[float],
    clusters: npt.ArrayLike | None = None,
    *,
    alpha: float = 0.05,
    resamples: int = 10_000,
    seed: int = 0,
) -> list[MarginTest]:
    """Tests the mean of each column, with values from -1 to 1, against its margin.

    Tests are one-sided and not corrected. Raises ValueError for other values, and for another
    number of margins.
    """
    matrix = as_columns(values)
    if len(margins) != matrix.shape[1]:
        raise ValueError(f"{matrix.shape[1]} columns need as many margins, not {len(margins)}")
    if (np.abs(matrix) > 1 + 1e-9).any():
        raise ValueError("tests against a margin are for values from -1 to 1")
    grouped = to_clusters(matrix, clusters)
    weighted = _weighted(matrix, np.array(margins), alpha, resamples, seed)
    found = []
    for at, margin in enumerate(margins):
        present, mean = int(grouped.present[:, at].sum()), float(grouped.means[at])
        if not present:
            found.append(MarginTest(math.nan, math.nan, math.nan, math.nan, math.nan, 0, False))
            continue
        if grouped.clustered and grouped.effective[at] < MIN_CLUSTERS - 0.5:
            found.append(MarginTest(mean, -1.0, 1.0, 1.0, 1.0, present, True))
            continue
        low, high, p_above, p_below = weighted[at]
        if grouped.clustered:
            t_low, t_high, t_p_above, t_p_below = _by_t(grouped, at, margin, alpha)
            low, high = min(low, t_low), max(high, t_high)
            p_above, p_below = max(p_above, t_p_above), max(p_below, t_p_below)
        found.append(MarginTest(mean, low, high, p_above, p_below, present, False))
    return found


def _weighted(
    matrix: Values, margins: Values, alpha: float, resamples: int, seed: int
) -> list[tuple[float, float, float, float]]:
    """(low, high, p_above, p_below) of each column by Gaffke's bound."""
    present = ~np.isnan(matrix)
    rows = np.concatenate([np.where(present, np.round(matrix, 12), 0.0), present], axis=1)
    # Equal rows share one weight, the sum of theirs: most queries are equal in both runs.
    rows, counts = np.unique(rows, axis=0, return_counts=True)
    n = matrix.shape[1]
    generator = np.random.default_rng(seed)
    lower, upper = [], []
    block = max(1, _NUMBERS // len(rows))
    for start in range(0, resamples, block):
        size = min(block, resamples - start)
        sums = generator.standard_gamma(counts, (size, len(rows))) @ rows
        extra = generator.standard_gamma(1.0, (size, 1))
        lower.append((sums[:, :n] - extra) / (sums[:, n:] + extra))
        upper.append((sums[:, :n] + extra) / (sums[:, n:] + extra))
    below, above = np.concatenate(lower), np.concatenate(upper)
    ends = np.quantile(below, alpha, axis=0), np.quantile(above, 1 - alpha, axis=0)
    tails = (below <= margins).sum(axis=0), (above >= margins).sum(axis=0)
    columns = (*ends, *((1 + tail) / (1 + resamples) for tail in tails))
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _by_t(
    grouped: Clusters, at: int, margin: float, alpha: float
) -> tuple[float, float, float, float]:
    """(low, high, p_above, p_below) by t; equal clusters leave the decision to `_weighted`."""
    mean, error, df = (
        float(of[at]) for of in (grouped.means, grouped.standard_errors, grouped.degrees)
    )
    if not error > 0:
        return mean, mean, float(mean <= margin), float(mean >= margin)
    apart = (mean - margin) / error
    reach = error * t_quantile(1 - alpha, df)
    return mean - reach, mean + reach, t_above(apart, df), t_above(-apart, df)
