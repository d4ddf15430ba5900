"""Always-valid p values and intervals: right however often, and whenever, one looks.

A p value of a fixed n is right once, at that n. Here P(p ever falls to alpha or below) <= alpha
under the null, over all times together, and P(some interval of the sequence misses the truth)
<= 1 - level (Johari, Koomen, Pekelis & Walsh 2022; Howard, Ramdas, McAuliffe & Sekhon 2021). One
may stop at any moment for any reason, and go on after it.

Two ways, chosen by simulation (`tests/benchmarks/ab_power.md`):

* **Betting** (`stats/betting.py`) for values with known bounds, each of a unit of its own: one
  stream, paired differences, or two streams made one by `balanced`. *Exact* at every n.
* **The normal mixture** (here) for two streams whose units come back or whose values have no
  bounds, as seconds. *Asymptotic*: it takes the estimate to be normal and its standard error to be
  true, so nothing is said before `MINIMUM` units a stream.

Why not the normal mixture for all: with one stream of values that are mostly 0 or mostly 1, the
error of the mean and that of its standard error go together, and the rate of false alarms of a
claimed 5% is 10 to 12%. In the difference of two streams the skew cancels: 0 to 4%. Betting needs
20 to 30% more units there than the mixture, and is then exact.

Below them stands what the mixture needs to know: the mean and its standard error after each
observation of a stored stream (`running_mean`, `running_clustered`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.stats.clusters import Ints, Values, cluster_codes

MINIMUM = 100  # units of a stream before the normal mixture says anything
TUNED_FOR = 1_000  # units (of both streams together) at which its intervals are shortest
_ROUNDING = 1e-10  # of the sum of squares


@dataclass(frozen=True)
class Sequence:
    """What may be said after each observation; arrays of one shape, time on the last axis.

    `units` of all streams so far, `estimate` (mean, or mean of a minus mean of b), the interval
    `low` to `high` of that moment, and `p`, the least so far. Before anything can be said the
    interval is NaN and p is 1.
    """

    units: Ints
    estimate: Values
    low: Values
    high: Values
    p: Values


def mean_sequence(
    values: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    null: float = 0.0,
    level: float = 0.95,
    tuned_for: float = TUNED_FOR,
    minimum: int = MINIMUM,
) -> Sequence:
    """The mean of one stream of values (or paired differences); asymptotic.

    For values without bounds and roughly symmetric, or whose clusters come back; for bounded ones
    `betting` is exact, and safe where this is not. `null` is the mean that p tests. Time is on the
    last axis, other axes are streams of their own. `clusters` as in `difference_sequence`. Raises
    ValueError for values that are not finite.
    """
    path = running_mean(values) if clusters is None else running_clustered(values, clusters)
    said = path.units >= minimum
    return _sequence(path.units, path.mean, path.standard_error, said, null, level, tuned_for)


def difference_sequence(
    values: npt.ArrayLike,
    in_a: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    null: float = 0.0,
    level: float = 0.95,
    tuned_for: float = TUNED_FOR,
    minimum: int = MINIMUM,
) -> Sequence:
    """Mean of stream a minus mean of stream b, unpaired; asymptotic.

    `in_a` says of each value which stream it is from, in the order of time. The standard error is
    the larger of Welch's and the pooled one, which matters where the streams are of unlike size:
    with 10% of units in a and 95% of values 1, Welch's alone errs in 8% of tests of a claimed 5%.
    With `clusters` (users who come back; one dimension only) the mean is over clusters of each
    one's own mean so far, and the units are clusters. Raises ValueError for values that are not
    finite and labels of another length.

    What the clusters assume: that a cluster's mean after more values estimates what it did after
    fewer, and that clusters are independent. The boundary is made for a stream of new units; means
    that grow more precise while their clusters stay are near to that, not the same, and no theorem
    is claimed. In the simulations, with users that come back evenly, in sessions, by a power law or
    ever more, p fell to 0.05 in 1 to 3% of tests. (The mean over all values would not do: where few
    users make most values its cluster-robust error is too small, and even a single look finds 9 to
    49% instead of 5%.)
    """
    x, first = np.asarray(values, np.float64), np.asarray(in_a, bool)
    if first.shape != x.shape:
        raise ValueError(f"in_a is of shape {first.shape}, the values of {x.shape}")
    a, b = (
        running_mean(x, taken) if clusters is None else running_clustered(x, clusters, taken)
        for taken in (first, ~first)
    )
    return _difference(a, b, null, level, tuned_for, minimum)


def mixture_p(
    difference: npt.ArrayLike,
    standard_error: npt.ArrayLike,
    units: npt.ArrayLike,
    *,
    tuned_for: float = TUNED_FOR,
) -> Values:
    """Two-sided p of one moment: the reciprocal of the mixture's likelihood ratio, at most 1.

    p = sqrt(1 + r) exp(-z^2 / 2 * r / (1 + r)), with z = difference / standard error and
    r = units * rho^2 (Robbins 1970; Waudby-Smith, Arbour, Sinha, Kennedy & Ramdas 2024, Annals of
    Statistics 52(6), equation 155 of arXiv 2103.06476; the mSPRT of Johari et al. with a plug-in
    variance). The running minimum of this is the always-valid p: `min(p, mixture_p(...))` after
    each observation, from `MINIMUM` units on. 1 where the standard error is 0 or unknown.
    """
    error = np.asarray(standard_error, np.float64)
    r = np.asarray(units, np.float64) * _rho_squared(tuned_for)
    known = error > 0
    z = np.asarray(difference, np.float64) / np.where(known, error, 1.0)
    log_p = 0.5 * np.log1p(r) - z**2 / 2 * r / (1 + r)
    return np.where(known & ~np.isnan(log_p), np.exp(np.minimum(log_p, 0.0)), 1.0)


def mixture_interval(
    estimate: npt.ArrayLike,
    standard_error: npt.ArrayLike,
    units: npt.ArrayLike,
    *,
    level: float = 0.95,
    tuned_for: float = TUNED_FOR,
) -> tuple[Values, Values]:
    """(low, high) of one moment: the values whose `mixture_p` is above 1 - `level`.

    estimate -/+ se * sqrt((1 + r) / r * (2 log(1 / alpha) + log(1 + r))), the same paper's
    equation 9. NaN where the standard error is 0 or unknown.
    """
    if not 0 < level < 1:
        raise ValueError(f"level {level} must be between 0 and 1")
    r = np.asarray(units, np.float64) * _rho_squared(tuned_for)
    error = np.asarray(standard_error, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        factor = np.sqrt((1 + r) / r * (-2 * math.log(1 - level) + np.log1p(r)))
        reach = np.where(error > 0, error, np.nan) * factor
    middle = np.asarray(estimate, np.float64)
    return middle - reach, middle + reach


def _rho_squared(tuned_for: float) -> float:
    """The mixture's width for which 95% intervals are shortest at `tuned_for` units.

    The paper's approximation, its equation 161. Always at 95%: other levels of one test have to
    come from one mixture, or p and the intervals would not agree.
    """
    if not (tuned_for > 0 and math.isfinite(tuned_for)):
        raise ValueError(f"tuned_for must be a number of units above 0, not {tuned_for}")
    reach = -2 * math.log(0.05)
    return (reach + math.log(reach + 1)) / tuned_for


def _difference(
    a: Running, b: Running, null: float, level: float, tuned_for: float, minimum: int
) -> Sequence:
    said = np.minimum(a.units, b.units) >= minimum
    # A stream without any spread so far says nothing of how sure its mean is.
    said &= (a.standard_error > 0) & (b.standard_error > 0)
    error = np.where(said, _larger_error(a, b), np.nan)
    return _sequence(a.units + b.units, a.mean - b.mean, error, said, null, level, tuned_for)


def _larger_error(a: Running, b: Running) -> Values:
    """The larger of Welch's and the pooled standard error of the difference.

    In arms of one size they are the same. In a small arm of a skewed metric the mean and its own
    standard error go together, and only the spread of the large arm can tell that both are off.
    """
    n, m = a.units.astype(np.float64), b.units.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        own, other = n * a.standard_error**2, m * b.standard_error**2
        pooled = ((n - 1) * own + (m - 1) * other) / (n + m - 2) * (1 / n + 1 / m)
        return np.sqrt(np.maximum(a.standard_error**2 + b.standard_error**2, pooled))


def _sequence(
    units: Ints,
    estimate: Values,
    error: Values,
    said: npt.NDArray[np.bool_],
    null: float,
    level: float,
    tuned_for: float,
) -> Sequence:
    error = np.where(said, error, np.nan)
    p = mixture_p(estimate - null, error, units, tuned_for=tuned_for)
    low, high = mixture_interval(estimate, error, units, level=level, tuned_for=tuned_for)
    return Sequence(units, estimate, low, high, np.minimum.accumulate(p, axis=-1))


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
