"""How many observations a mean needs until its interval is as narrow as is wanted."""

from __future__ import annotations

import math

from harness.statistics.intervals import t_quantile


def units_for_half_width(
    standard_error: float, units: int, half_width: float, *, level: float = 0.95
) -> int | None:
    """The least number of units whose t interval has that half-width, or a smaller one.

    t_{(1 + level) / 2, n - 1} s / sqrt(n) <= half_width, where s = standard_error * sqrt(units) is
    the spread seen in `units` units: the sample-size formula of a mean (Cochran 1977, section 4.6),
    with t for the normal quantile. It takes the spread for known: what is needed in the end differs
    as far as the spread of these units is not that of all. None where they show no spread (fewer
    than two, or all equal). Raises ValueError for a half-width of 0 or less.
    """
    if not half_width > 0:
        raise ValueError(f"the half-width must be above 0, not {half_width}")
    if units < 2 or not standard_error > 0:
        return None
    spread = standard_error * math.sqrt(units)

    def wide(n: int) -> bool:
        return t_quantile((1 + level) / 2, n - 1) * spread / math.sqrt(n) > half_width

    low, high = 1, 2  # the least number that suffices is in (low, high]
    while wide(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if wide(middle) else (low, middle)
    return high
