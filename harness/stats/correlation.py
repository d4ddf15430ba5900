"""Pearson's and Spearman's correlation of two measures of the same observations.

Intervals are over observations or whole clusters, with ranks computed for each resample:

* 40 clusters or more: percentile bootstrap.
* 2 to 39: jackknife over clusters of Fisher's z = atanh(r), with t of clusters - 1 degrees of
  freedom (Efron & Tibshirani 1993, An Introduction to the Bootstrap, section 11.5, on the z scale).

Simulated coverage of 95% intervals of Pearson's r of two shares, such as recall by ids and by
similarity (1,000 to 1,500 samples each): Fisher's interval, which assumes normal values, covers 81
to 88% for 20 to 400 observations. With 3, 5, 10, 20 and 39 clusters the bootstrap covers 76, 83,
90, 91 and 94%, the jackknife 96, 95, 95, 95 and 95%. From 80 single observations on the bootstrap
covers 94 to 95%.

If few observations differ from the rest, coverage is far lower: 6 to 27% for two scores of 60 that
are 1 in 2% with a true r of 0 to 0.3. The note gives their numbers if fewer than five observations
are expected to differ in both measures by chance, as in a chi-square test.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.stats.clusters import Ints, Values, cluster_codes
from harness.stats.intervals import FEW_CLUSTERS, counted, few_clusters, t_quantile

RESAMPLES = 2_000
FEW_EXPECTED = 5


@dataclass(frozen=True)
class Correlation:
    """A coefficient from -1 to 1 with its interval.

    `n` observations in `clusters` (single observations unless `clustered`). `value` is None if one
    measure does not vary, or for fewer than three observations; `low` and `high` are None if there
    is no interval. `note` is the reason, or why an interval is approximate.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    clusters: int
    clustered: bool
    note: str


def correlations(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Correlation]:
    """`pearson` and `spearman` of two measures, shape (n,) each; pairs with a NaN are excluded.

    Pearson's r is the covariance over the product of the standard deviations; Spearman's rho is r
    of the ranks, with mean ranks for equal values. Raises ValueError for other shapes.
    """
    first, second = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if first.ndim != 1 or first.shape != second.shape:
        raise ValueError(f"two measures of shape (n,), not {first.shape} and {second.shape}")
    known = ~(np.isnan(first) | np.isnan(second))
    first, second = first[known], second[known]
    n = len(first)
    codes, n_clusters = np.arange(n), n
    if clusters is not None:
        codes, n_clusters = cluster_codes(np.asarray(clusters)[known], n)
    clustered = n_clusters < n
    pairs = [_Distinct.of(first), _Distinct.of(second)]
    once = np.ones(n)
    values = _both(pairs, once) if n > 2 else (np.nan, np.nan)
    few = n_clusters < FEW_CLUSTERS
    others = np.zeros((0, 2))
    if not np.isnan(values).all() and n_clusters > 1:
        weights = (
            _without_one(codes, n_clusters) if few else _drawn(codes, n_clusters, resamples, seed)
        )
        others = np.array([_both(pairs, weight) for weight in weights])
    rare, effective = "", 0.0
    if n:
        effective = n**2 / float((np.bincount(codes) ** 2).sum())
        unlike = [len(np.unique(codes[one.unlike])) for one in pairs]
        if unlike[0] * unlike[1] < FEW_EXPECTED * n_clusters:
            rare = f"only {unlike[0]} and {unlike[1]} of {counted(n_clusters, clustered)} differ"
    found = {}
    for at, name in enumerate(("pearson", "spearman")):
        value, low, high = values[at], None, None
        if not np.isnan(value) and len(others):
            ends = (_jackknife if few else _percentiles)(value, others[:, at], level)
            low, high = ends or (None, None)
        found[name] = Correlation(
            None if np.isnan(value) else float(value),
            low,
            high,
            n,
            n_clusters,
            clustered,
            _note(n, n_clusters, effective, clustered, np.isnan(value), low is None) or rare,
        )
    return found


@dataclass(frozen=True)
class _Distinct:
    """A measure by its distinct values, ascending: `code` of each observation."""

    values: Values
    code: Ints
    distinct: int

    @classmethod
    def of(cls, values: Values) -> _Distinct:
        levels, code = np.unique(values, return_inverse=True)
        return cls(values, code, len(levels))

    @property
    def unlike(self) -> npt.NDArray[np.bool_]:
        """Observations that do not have the most frequent value."""
        return np.asarray(self.code != np.bincount(self.code).argmax())

    def ranks(self, weight: Values) -> Values:
        """Mean rank of each observation in a sample that contains it `weight` times."""
        counts = np.bincount(self.code, weights=weight, minlength=self.distinct)
        ranks: Values = (np.cumsum(counts) - (counts - 1) / 2)[self.code]
        return ranks


def _both(pair: list[_Distinct], weight: Values) -> tuple[float, float]:
    """Pearson's and Spearman's coefficient of a sample."""
    a, b = pair
    return _r(a.values, b.values, weight), _r(a.ranks(weight), b.ranks(weight), weight)


def _r(x: Values, y: Values, weight: Values) -> float:
    """Weighted Pearson coefficient; NaN if one measure does not vary.

    SciPy's pearsonr and spearmanr have no weights; here they are the counts of a resample.
    """
    total = weight.sum()
    x, y = x - weight @ x / total, y - weight @ y / total
    xx, yy = weight @ (x * x), weight @ (y * y)
    # Equal values, up to rounding.
    if min(xx, yy) <= 1e-20 * total:
        return float("nan")
    return float(np.clip(weight @ (x * y) / np.sqrt(xx * yy), -1.0, 1.0))


def _percentiles(value: float, drawn: Values, level: float) -> tuple[float, float] | None:
    """Quantiles of the resampled coefficients."""
    # There is no coefficient if one measure does not vary in a resample.
    known = drawn[~np.isnan(drawn)]
    if len(known) <= len(drawn) / 2:
        return None
    low, high = np.quantile(known, [(1 - level) / 2, (1 + level) / 2]).tolist()
    return (low, high) if high - low > 1e-12 else None


def _jackknife(value: float, without: Values, level: float) -> tuple[float, float] | None:
    """tanh(atanh(r) -+ t * se), se^2 = (G - 1) / G * sum over clusters (z_-g - mean)^2."""
    if np.isnan(without).any() or max(abs(value), np.abs(without).max()) >= 1 - 1e-12:
        return None
    g, z = len(without), np.arctanh(without)
    error = np.sqrt((g - 1) / g * ((z - z.mean()) ** 2).sum())
    reach = t_quantile((1 + level) / 2, g - 1) * error
    if error < 1e-12:
        return None
    return tuple(np.tanh([np.arctanh(value) - reach, np.arctanh(value) + reach]).tolist())


def _without_one(codes: Ints, clusters: int) -> Iterator[Values]:
    """Weights without each cluster in turn: 0 for its observations, else 1."""
    for cluster in range(clusters):
        yield (codes != cluster).astype(np.float64)


def _drawn(codes: Ints, clusters: int, resamples: int, seed: int) -> Iterator[Values]:
    """Counts of each observation in resamples of whole clusters."""
    generator = np.random.default_rng(seed)
    for _ in range(resamples):
        drawn = np.bincount(generator.integers(0, clusters, clusters), minlength=clusters)
        yield drawn[codes].astype(np.float64)


def _note(n: int, clusters: int, effective: float, clustered: bool, none: bool, open_: bool) -> str:
    if n < 3:
        return f"{n} observations have no correlation"
    if none:
        return "one of the two does not vary"
    if open_:
        return f"no interval: no spread of {counted(clusters, clustered)}"
    few = few_clusters(clusters, effective, clustered)
    return f"approximate: {few}" if few else ""
