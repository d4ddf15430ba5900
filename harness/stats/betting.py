"""Betting on a bounded mean: exact, always-valid p values and intervals at every n.

To test that the mean of values in [0, 1] is m, bet at fair odds that each next value is above m:
with a share c of the capital at stake, the capital is prod((1 - c) + c x_i / m). If m is the
conditional mean given all earlier values, this is a martingale that starts at 1, and reaches
1 / alpha at any time with probability at most alpha (Ville 1939). This assumes no distribution, no
independence, and no number of observations. One player bets on above, one on below; each spreads
its capital evenly over `SHARES`, since the best share depends on the unknown mean; p is half the
reciprocal of the larger capital, as each player has half of alpha.

The p value of a fixed n is valid once. These p values may be looked at after every value, and a
test may stop at any time. The usual normal mixture (mSPRT) assumes normal means: if two arms have
equal means and one has rare large values, it errs in up to 90% of tests at 5%
(`tests/benchmarks/ab_power.md`). Counting events cannot warn of values that have not occurred yet.

Source: Waudby-Smith & Ramdas 2024, Estimating means of bounded random variables by betting, JRSS B
86(1), the hedged capital process of section 4, with a fixed mixture of shares instead of an
adaptive one: as exact, nothing to tune, and the capital is monotone in m, so that bisection finds
the interval.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from harness.stats.clusters import Ints, Values

SHARES = np.geomspace(0.004, 0.98, 16)
_STEP = 1e-6  # precision of interval ends, relative to the bounds; rounded outwards


def betting_p(values: npt.ArrayLike, null: float, bounds: tuple[float, float] = (0, 1)) -> Values:
    """Two-sided p after each value for the mean `null`; the minimum of all is valid too.

    P(any p is ever <= alpha) <= alpha for values with the conditional mean `null` given all earlier
    values. Time is the last axis; other axes are separate streams. Raises ValueError for values
    outside `bounds` and a null that is not between them.
    """
    x, m = _scaled(values, null, bounds)
    return _p(np.maximum(_log_wealth(x, m), _log_wealth(1 - x, 1 - m)))


def betting_interval(
    values: npt.ArrayLike, bounds: tuple[float, float] = (0, 1), *, level: float = 0.95
) -> tuple[float, float]:
    """Exact interval of the mean at this moment; `values` are all so far, in one dimension.

    Contains the means for which the present capital is below 2 / (1 - level) on either side; not
    intersected with earlier intervals. Without values it is `bounds`. Raises ValueError like
    `betting_p`.
    """
    if not 0 < level < 1:
        raise ValueError(f"level {level} must be between 0 and 1")
    x, _ = _scaled(values, sum(bounds) / 2, bounds)
    kinds, times = np.unique(x, return_counts=True)
    limit = math.log(2 / (1 - level))
    low = _last_refuted(kinds, times, limit)
    high = 1 - _last_refuted(1 - kinds, times, limit)
    start, end = bounds
    return start + low * (end - start), start + high * (end - start)


def shown_from(units: int, deviation: float, level: float = 0.95) -> float:
    """Smallest mean of `units` values from -1 to 1 that rejects 0; infinite if there is none.

    For planning: approximates log(1 + c x) by c x - (c x)^2 / 2 with a known spread of the values.
    """
    stakes, limit = SHARES, math.log(2 * len(SHARES) / (1 - level))
    low, high = 0.0, float(units)
    while high - low > _STEP * high:
        total = (low + high) / 2
        logs = stakes * total - (stakes * deviation) ** 2 * units / 2
        low, high = (low, total) if np.logaddexp.reduce(logs) >= limit else (total, high)
    return high / units if high < units else math.inf


def balanced(
    values: npt.ArrayLike,
    in_a: npt.ArrayLike,
    split: float = 0.5,
    bounds: tuple[float, float] = (0, 1),
) -> tuple[Values, tuple[float, float]]:
    """A stream with the mean of a minus the mean of b, and the bounds of its values.

    For units assigned to a with probability `split`, each seen once: (x - g) / split in a and
    -(x - g) / (1 - split) in b, with the mean g of all earlier values. The assignment is random, so
    the expectation of each entry is exactly the mean difference, even while both arms drift
    (inverse probability weighting; g only reduces the spread). The null is 0. Time is the last
    axis. Raises ValueError like `betting_p`.
    """
    if not 0 < split < 1:
        raise ValueError(f"split {split} must be between 0 and 1")
    x, middle = _scaled(values, sum(bounds) / 2, bounds)
    first = np.asarray(in_a, bool)
    if first.shape != x.shape:
        raise ValueError(f"in_a is of shape {first.shape}, the values of {x.shape}")
    guess = (x.cumsum(axis=-1) - x + middle) / np.arange(1, x.shape[-1] + 1)
    size = bounds[1] - bounds[0]
    reach = size / min(split, 1 - split)
    entries = (x - guess) * np.where(first, 1 / split, -1 / (1 - split)) * size
    return entries, (-reach, reach)


def _scaled(
    values: npt.ArrayLike, null: float, bounds: tuple[float, float]
) -> tuple[Values, float]:
    """Scale values and null to bounds of 0 and 1."""
    low, high = bounds
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"bounds {low} and {high} must be two finite numbers, the lower first")
    if not low < null < high:
        raise ValueError(f"a mean of {null} is not between the bounds {low} and {high}")
    x = np.asarray(values, np.float64)
    if x.ndim == 0:
        raise ValueError("values must be an array, time on the last axis")
    outside = ~((x >= low) & (x <= high))
    if outside.any():
        raise ValueError(f"value {x[outside][0]} is outside the bounds {low} and {high}")
    return (x - low) / (high - low), (null - low) / (high - low)


def _log_wealth(x: Values, m: float) -> Values:
    """Logarithm of the capital of the player who bets on values above `m`, after each value."""
    total = np.full(x.shape, -np.inf)
    for share in SHARES:
        np.logaddexp(total, np.log1p(share * (x / m - 1)).cumsum(axis=-1), out=total)
    return total - math.log(len(SHARES))


def _p(log_wealth: npt.ArrayLike) -> Values:
    return np.exp(np.minimum(math.log(2) - np.asarray(log_wealth, np.float64), 0.0))


def _last_refuted(x: Values, times: Ints, limit: float) -> float:
    """The largest mean, at most a step too low, for which the log capital reaches `limit`."""
    # SciPy's bisect may end on either side of the root: the interval would not be exact.
    low, high = 0.0, 1.0
    while high - low > _STEP:
        middle = (low + high) / 2
        if _final(x, times, middle) >= limit:
            low = middle
        else:
            high = middle
    return low


def _final(x: Values, times: Ints, m: float) -> float:
    """Logarithm of the final capital; `times` are the counts of the distinct values."""
    logs = [float(times @ np.log1p(share * (x / m - 1))) for share in SHARES]
    return float(np.logaddexp.reduce(logs)) - math.log(len(SHARES))
