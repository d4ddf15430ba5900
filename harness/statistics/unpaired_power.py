"""What two groups can show: smallest detectable difference, and how many units a wanted one takes.

Only the spread of what was observed is used, never the observed difference: the power to find the
difference that happened to be found is the p value in other words (Hoenig & Heisey 2001).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

from harness.statistics.intervals import t_quantile
from harness.statistics.sequential import MINIMUM, TUNED_FOR, mixture_interval


@dataclass(frozen=True)
class UnpairedPower:
    """The power of comparing the means of two groups, to which a unit goes with chance `split`.

    `deviation_a` and `deviation_b` are the standard deviations of a unit's value in each. Power is
    `power`, two-sided, at 1 - `level`.
    """

    deviation_a: float
    deviation_b: float
    split: float = 0.5
    level: float = 0.95
    power: float = 0.8
    tuned_for: float = TUNED_FOR

    def detectable(self, units: int, *, any_time: bool = False) -> float:
        """The smallest true difference that `units` in all show with probability `power`.

        Looked at once: (t_{(1 + level) / 2} + t_{power}) * standard error, with units - 2 degrees
        of freedom. At `any_time`: the reach and the standard error of `difference_sequence` at that
        moment; a little pessimistic, as it may have been shown before. NaN where there is no spread
        or none is known, infinite where there are too few units.
        """
        if not self.deviation_a + self.deviation_b > 0:
            return math.nan
        smaller = units * min(self.split, 1 - self.split)
        if units < 4 or (any_time and smaller < MINIMUM):
            return math.inf
        a, b = self.deviation_a**2, self.deviation_b**2
        welch = a / self.split + b / (1 - self.split)
        error = math.sqrt(welch / units)
        if any_time:
            pooled = a / (1 - self.split) + b / self.split
            error = math.sqrt(max(welch, pooled) / units)
            _, reach = mixture_interval(0, 1, units, level=self.level, tuned_for=self.tuned_for)
            return (float(reach) + NormalDist().inv_cdf(self.power)) * error
        df = units - 2
        return (t_quantile((1 + self.level) / 2, df) + t_quantile(self.power, df)) * error

    def units_needed(self, difference: float, *, any_time: bool = False) -> int | None:
        """Units in all, of both groups, that would show `difference`.

        None where there is no spread, or none is known. Raises ValueError for a difference of 0.
        """
        if not difference or math.isnan(difference):
            raise ValueError("the wanted difference must not be 0")
        if not self.deviation_a + self.deviation_b > 0:
            return None
        return _first(lambda n: self.detectable(n, any_time=any_time) <= abs(difference))


def _first(enough: Callable[[int], bool]) -> int:
    """The least whole number from which on `enough` holds."""
    low, high = 1, 2
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
