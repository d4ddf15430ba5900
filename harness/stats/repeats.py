"""Variance of repeated experiments, between questions and between repetitions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.stats.clusters import Clusters, to_clusters
from harness.stats.intervals import t_quantile
from harness.stats.power import clusters_for_half_width


@dataclass(frozen=True)
class Components:
    """Variances of a value `between` questions, and `within` a question between its repetitions.

    `questions` is the number with values, `repeats` the average number of repetitions (n0 of the
    method of moments), `mean` the mean over all values. `units` are the questions' means, by
    cluster.
    """

    questions: int
    repeats: float
    mean: float
    between: float
    within: float
    units: Clusters

    @property
    def of_experiment(self) -> float:
        """Standard deviation of the mean over experiments with these questions and repeats."""
        return math.sqrt(self.within / self.repeats / self.questions)

    def clusters_needed(self, half_width: float) -> int | None:
        """Clusters like these for a 95% interval of this half-width; None without spread."""
        error = float(self.units.standard_errors[0])
        return clusters_for_half_width(error, len(self.units.sums), half_width)

    def repeats_needed(self, half_width: float) -> int | None:
        """Repetitions of these questions for a 95% interval of this half-width.

        None if no number is enough, since the questions vary by more, and without spread.
        """
        error, t = float(self.units.standard_errors[0]), t_quantile(0.975, self.units.degrees[0])
        if not error > 0:
            return None
        others = error**2 - self.of_experiment**2
        room = (half_width / t) ** 2 - max(0.0, others)
        if not room > 0:
            return None
        return max(1, math.ceil(self.within / self.questions / room - 1e-9))


def variance_components(
    values: npt.ArrayLike, clusters: npt.ArrayLike | None = None
) -> Components | None:
    """Estimate the components of values of shape (questions, repeats), NaN for missing ones.

    One-way random effects by the method of moments (Searle, Casella & McCulloch 1992, section 3.6):
    `within` is the mean square within questions, `between` is (MSB - MSW) / n0 or 0, with
    n0 = (N - sum n_i^2 / N) / (k - 1). `clusters` has a label per question. None for fewer than two
    questions, and if no question has two values. Raises ValueError for another shape.
    """
    matrix = np.asarray(values, float)
    if matrix.ndim != 2:
        raise ValueError(f"values must be (questions, repeats), not of shape {matrix.shape}")
    counts = (~np.isnan(matrix)).sum(axis=1)
    labels = None if clusters is None else np.asarray(clusters)[counts > 0]
    matrix, counts = matrix[counts > 0], counts[counts > 0]
    k, total = len(matrix), int(counts.sum())
    if k < 2 or total == k:
        return None
    means = np.nansum(matrix, axis=1) / counts
    mean = float(np.nansum(matrix) / total)
    within = float(np.nansum((matrix - means[:, None]) ** 2) / (total - k))
    among = float((counts * (means - mean) ** 2).sum() / (k - 1))
    n0 = (total - float((counts**2).sum()) / total) / (k - 1)
    between = max(0.0, (among - within) / n0)
    return Components(k, n0, mean, between, within, to_clusters(means, labels))
