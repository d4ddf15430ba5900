"""Repetitions of an experiment: what varies between questions, and what between repetitions."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

_Z = 1.959963984540054  # of a 95% interval


@dataclass(frozen=True)
class Components:
    """Variances of a value: `between` questions, and `within` one, between its repetitions.

    `questions` have values, `repeats` of each on the average (the harmonic-like mean of the method
    of moments), `mean` is that over all values.
    """

    questions: int
    repeats: float
    mean: float
    between: float
    within: float

    @property
    def of_experiment(self) -> float:
        """Standard deviation of the mean over these questions from one repetition to the next."""
        return math.sqrt(self.within / self.questions)

    def half_width(self, questions: int, repeats: float) -> float:
        """Half of the 95% interval of the mean, of so many independent questions and repeats."""
        return _Z * math.sqrt((self.between + self.within / repeats) / questions)

    def questions_needed(self, half_width: float) -> int:
        """How many independent questions, repeated as often as these, bring it down to that."""
        spread = self.between + self.within / self.repeats
        return max(1, math.ceil(_Z**2 * spread / half_width**2 - 1e-9))

    def repeats_needed(self, half_width: float) -> int | None:
        """How many repetitions of these questions do; None where no number can, since another
        choice of questions would differ by more."""
        room = self.questions * (half_width / _Z) ** 2 - self.between
        if room <= 0:
            return None
        return max(1, math.ceil(self.within / room - 1e-9))


def variance_components(values: npt.ArrayLike) -> Components | None:
    """The components of values of shape (questions, repeats), NaN where there is none.

    One-way random effects by the method of moments (Searle, Casella & McCulloch 1992, section 3.6):
    `within` is the mean square within questions, `between` (MSB - MSW) / n0 with
    n0 = (N - sum n_i^2 / N) / (k - 1), 0 where that is negative. None for fewer than two questions,
    and where no question has two values. Raises ValueError for another shape.
    """
    matrix = np.asarray(values, float)
    if matrix.ndim != 2:
        raise ValueError(f"values must be (questions, repeats), not of shape {matrix.shape}")
    counts = (~np.isnan(matrix)).sum(axis=1)
    matrix, counts = matrix[counts > 0], counts[counts > 0]
    k, total = len(matrix), int(counts.sum())
    if k < 2 or total == k:
        return None
    means = np.nansum(matrix, axis=1) / counts
    mean = float(np.nansum(matrix) / total)
    within = float(np.nansum((matrix - means[:, None]) ** 2) / (total - k))
    among = float((counts * (means - mean) ** 2).sum() / (k - 1))
    n0 = (total - float((counts**2).sum()) / total) / (k - 1)
    return Components(k, n0, mean, max(0.0, (among - within) / n0), within)
