"""Means and standard errors after each observation of a stream, in constant memory.

`running_mean` and `running_clustered` give the whole path of a stored stream at once; `Moments` is
the same for a stream that is still coming in, and is kept as three numbers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.statistics.units import Ints, Values, cluster_codes

_ROUNDING = 1e-10  # of the sum of squares


@dataclass
class Moments:
    """Count, mean and sum of squared deviations of what came so far (Welford 1962).

    Plain numbers: `dataclasses.asdict` writes it to JSON and `Moments(**record)` reads it again.
    """

    n: int = 0
    mean: float = 0.0
    squares: float = 0.0

    def add(self, values: npt.ArrayLike) -> None:
        """Take in one value or many (Chan, Golub & LeVeque 1979). Raises ValueError for NaN."""
        new = np.atleast_1d(np.asarray(values, np.float64))
        if not np.isfinite(new).all():
            raise ValueError("values must be finite numbers")
        if not new.size:
            return
        mean = float(new.mean())
        shift, total = mean - self.mean, self.n + new.size
        self.squares += float(((new - mean) ** 2).sum()) + shift**2 * self.n * new.size / total
        self.mean += shift * new.size / total
        self.n = total

    @property
    def variance(self) -> float:
        """Unbiased variance of the observations; NaN for fewer than two."""
        return self.squares / (self.n - 1) if self.n > 1 else math.nan

    @property
    def standard_error(self) -> float:
        """Standard error of the mean; NaN for fewer than two observations."""
        return math.sqrt(self.variance / self.n) if self.n > 1 else math.nan


@dataclass(frozen=True)
class Running:
    """What is known of a mean after each observation; arrays of one shape, time on the last axis.

    `units` counts the independent units so far: observations, or clusters. The mean is NaN before
    the first observation, the standard error before the second unit.
    """

    units: Ints
    mean: Values
    standard_error: Values


def running_mean(values: npt.ArrayLike, taken: npt.ArrayLike | None = None) -> Running:
    """The path of the mean of independent observations, along the last axis.

    `taken` marks the observations that belong to this stream; at the others it stands still, so
    that two streams that share a clock have paths of one length. Raises ValueError for values that
    are not finite.
    """
    x = _finite(values)
    here = np.ones(x.shape, bool) if taken is None else np.asarray(taken, bool)
    if here.shape != x.shape:
        raise ValueError(f"taken is of shape {here.shape}, the values of {x.shape}")
    # Deviations from a number near the mean keep their digits in the sum of squares.
    centre = x.mean(axis=-1, keepdims=True) if x.size else x
    deviation = np.where(here, x - centre, 0.0)
    n = here.cumsum(axis=-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = deviation.cumsum(axis=-1) / n
        squares = _residual((deviation**2).cumsum(axis=-1), n, mean)
        error = np.where(n > 1, np.sqrt(squares / (n - 1.0) / n), np.nan)
    return Running(n, mean + centre, error)


def running_clustered(
    values: npt.ArrayLike, clusters: npt.ArrayLike, taken: npt.ArrayLike | None = None
) -> Running:
    """The path of the mean over clusters (users, who keep coming back) of each one's own mean.

    One dimension. Every cluster counts once, however many values it has, so the standard error is
    s / sqrt(clusters) of their means so far, and a few busy clusters cannot carry it. A value
    changes the mean of its own cluster alone, so a step costs O(1). Raises ValueError as
    `running_mean`, and for labels of another length.
    """
    x = _finite(values)
    if x.ndim != 1:
        raise ValueError(f"clustered values must have one dimension, not {x.ndim}")
    codes, _ = cluster_codes(clusters, len(x))
    here = np.flatnonzero(np.ones(x.shape, bool) if taken is None else np.asarray(taken, bool))
    centre = x.mean() if x.size else 0.0
    new, total, earlier = x[here] - centre, *_before(x[here] - centre, codes[here])
    old_mean, new_mean = total / np.maximum(earlier, 1.0), (total + new) / (earlier + 1.0)
    step = np.zeros((3, len(x)))
    step[:, here] = earlier == 0, new_mean - old_mean, new_mean**2 - old_mean**2
    units, s, ss = step.cumsum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = s / units
        squares = _residual(ss, units, mean)
        error = np.where(units > 1, np.sqrt(squares / (units - 1.0) / units), np.nan)
    return Running(units.astype(np.int64), mean + centre, error)


def _finite(values: npt.ArrayLike) -> Values:
    x = np.asarray(values, np.float64)
    if x.ndim == 0:
        raise ValueError("values must be an array, time on the last axis")
    if not np.isfinite(x).all():
        raise ValueError("values must be finite numbers")
    return x


def _residual(squares: Values, n: Ints | Values, mean: Values) -> Values:
    """Sum of squares around the mean; 0 where only rounding is left of a spread.

    Equal values must not seem to have one: the difference would look infinitely sure.
    """
    left = squares - n * mean**2
    return np.where(left > _ROUNDING * squares, left, 0.0)


def _before(values: Values, codes: Ints) -> tuple[Values, Values]:
    """Sum and number of the earlier values of the same cluster, for each observation."""
    order = np.argsort(codes, kind="stable")
    first = np.flatnonzero(np.diff(codes[order], prepend=-1))
    start = np.repeat(first, np.diff(np.append(first, len(codes))))
    total = np.cumsum(values[order]) - values[order]
    sums, counts = np.empty(len(codes)), np.empty(len(codes))
    sums[order] = total - total[start]
    counts[order] = np.arange(len(codes)) - start
    return sums, counts
