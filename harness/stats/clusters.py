"""Independent clusters: observations, or groups of observations that are not independent.

The mean of a metric is sum / count over all observations. By cluster that is a ratio of two sums,
and an observation by itself is a cluster of one: so everything else in this package works on the
sums and counts of clusters and needs to know nothing more.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
_ROUNDING = 1e-13


@dataclass(frozen=True)
class Clusters:
    """Sums and counts of each cluster and metric, both of shape (clusters, metrics).

    `clustered` is False where every cluster is a single observation.
    """

    sums: Values
    counts: Values
    clustered: bool

    @cached_property
    def n(self) -> Ints:
        """Observations of each metric, shape (metrics,)."""
        return np.asarray(self.counts.sum(axis=0), np.int64)

    @cached_property
    def present(self) -> npt.NDArray[np.bool_]:
        """Which clusters have an observation of a metric, shape (clusters, metrics)."""
        return self.counts > 0

    @cached_property
    def means(self) -> Values:
        """Mean over observations, shape (metrics,); NaN where there are none."""
        return _ratio(self.sums.sum(axis=0), self.counts.sum(axis=0))

    @cached_property
    def effective(self) -> Values:
        """How many clusters of equal size would tell as much, shape (metrics,); NaN for none.

        (sum of sizes)^2 / sum of squared sizes (Kish 1965): the number of clusters where all have
        the same size, and little more than 1 where one holds nearly everything.
        """
        return _ratio(self.counts.sum(axis=0) ** 2, (self.counts**2).sum(axis=0))

    @cached_property
    def standard_errors(self) -> Values:
        """Standard error of each mean, shape (metrics,); NaN for fewer than two clusters.

        se^2 = 1 / N^2 * sum over clusters (S_g - mean * N_g)^2 / (1 - N_g / N): the bias-reduced
        cluster-robust variance, CR2 (Bell & McCaffrey 2002), of a mean, for which
        (I - H)^(-1/2) has this closed form. Where all clusters have one size it is the linearised
        variance of a ratio (Cochran 1977, section 6.3), and s^2 / n where every cluster is one
        observation. Unlike that, it does not take a cluster that holds most of the observations,
        and so pulls the mean to itself, for one that agrees with it.
        """
        n = self.counts.sum(axis=0)
        residual = self.sums - self.counts * np.nan_to_num(self.means)
        raised = _ratio(residual**2, 1 - _ratio(self.counts, n[None, :]))
        errors = np.sqrt(_ratio(np.nansum(raised, axis=0), n**2))
        errors = np.where(self.present.sum(axis=0) < 2, np.nan, errors)
        # Equal clusters have no spread but what rounding leaves of it.
        size = _ratio(np.abs(self.sums).sum(axis=0), n)
        return np.where(errors <= _ROUNDING * size, 0.0, errors)

    @cached_property
    def degrees(self) -> Values:
        """Degrees of freedom of each standard error, shape (metrics,); NaN below two clusters.

        Satterthwaite's, as Bell and McCaffrey take them for CR2: 2 E(se^2)^2 / Var(se^2) if the
        observations were independent. With q_g = N_g^2 / (1 - N_g / N) that is
        N^2 / (sum N_g^2 + ((sum q_g)^2 - sum q_g^2) / N^2): clusters - 1 where all have one size,
        and 1.5 for one cluster of 180 and nine of 5.
        """
        n = self.counts.sum(axis=0)
        q = np.nan_to_num(_ratio(self.counts**2, 1 - _ratio(self.counts, n[None, :])))
        between = q.sum(axis=0) ** 2 - (q**2).sum(axis=0)
        found = _ratio(n**2, (self.counts**2).sum(axis=0) + _ratio(between, n**2))
        return np.where(self.present.sum(axis=0) < 2, np.nan, found)

    def by_cluster(self) -> Clusters:
        """Every cluster counted once, by its own mean: for the mean over haystacks."""
        means = np.where(self.present, np.nan_to_num(_ratio(self.sums, self.counts)), 0.0)
        return Clusters(means, self.present.astype(np.float64), self.clustered)

    def column(self, at: int) -> tuple[Values, Values]:
        """(sums, counts) of the clusters that are present in one metric."""
        here = self.present[:, at]
        return self.sums[here, at], self.counts[here, at]


def to_clusters(values: npt.ArrayLike, clusters: npt.ArrayLike | None = None) -> Clusters:
    """Gather observations into clusters; clusters keep the order in which they first appear.

    Raises ValueError for infinite values, more than two dimensions, and labels of another length.
    """
    matrix = as_columns(values)
    scored = ~np.isnan(matrix)
    filled = np.where(scored, matrix, 0.0)
    if clusters is None:
        return Clusters(filled, scored.astype(np.float64), clustered=False)
    codes, n = cluster_codes(clusters, len(matrix))
    if n == len(matrix):
        return Clusters(filled, scored.astype(np.float64), clustered=False)
    sums, counts = np.zeros((n, matrix.shape[1])), np.zeros((n, matrix.shape[1]))
    for at in range(matrix.shape[1]):  # a tenth of the time of np.add.at, in the same order
        sums[:, at] = np.bincount(codes, filled[:, at], n)
        counts[:, at] = np.bincount(codes, scored[:, at], n)
    return Clusters(sums, counts, clustered=True)


def as_columns(values: npt.ArrayLike) -> Values:
    """Values as a float64 matrix (observations, metrics). Raises ValueError."""
    matrix = np.asarray(values, np.float64)
    if matrix.ndim == 1:
        matrix = matrix[:, None]
    if matrix.ndim != 2:
        raise ValueError(f"values must be (observations, metrics), not of shape {matrix.shape}")
    if np.isinf(matrix).any():
        raise ValueError("values must be finite, or NaN where there is none")
    return matrix


def cluster_codes(clusters: npt.ArrayLike, n: int) -> tuple[Ints, int]:
    """A number for each observation's cluster, by first appearance, and how many there are."""
    labels: npt.NDArray[Any] = np.asarray(clusters)
    if labels.shape != (n,):
        raise ValueError(f"clusters must be {n} labels, not of shape {labels.shape}")
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    place = np.empty(len(first), np.int64)
    place[np.argsort(first)] = np.arange(len(first))
    return place[inverse], len(first)


def _ratio(part: Values, whole: Values) -> Values:
    """part / whole, NaN where whole is not above 0."""
    out = np.full(np.broadcast_shapes(np.shape(part), np.shape(whole)), np.nan)
    np.divide(part, whole, out=out, where=whole > 0)
    return out
