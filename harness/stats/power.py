"""Smallest detectable differences, and sample sizes for given ones.

* `power_of`: the same observations under two systems.
* `UnpairedPower`: two groups of different units, looked at once or at any time.
* `clusters_for_half_width`: the interval of one mean.

Only the observed spread is used, never the observed difference: power at the observed difference is
the p value in other words (Hoenig & Heisey 2001).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy.typing as npt

from harness.stats.betting import shown_from
from harness.stats.clusters import Clusters, as_columns, to_clusters
from harness.stats.intervals import t_quantile

_HIGHEST = 1_000.0  # no noncentral t is computed above this t


@dataclass(frozen=True)
class PairedPower:
    """The power of a paired comparison of one metric.

    `deviation` is the standard deviation of the differences, `design_effect` the
    factor of the variance of their mean due to clusters (1 without clusters; below 1 if clusters
    are more alike than by chance). `detectable` is the smallest true difference, of either sign,
    that a two-sided test at 1 - `level` shows with probability `power`: NaN for fewer than two
    clusters, or without spread.
    """

    n: int
    clusters: int
    degrees: float
    deviation: float
    design_effect: float
    standard_error: float
    level: float
    power: float
    detectable: float


def power_of(
    differences: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    level: float = 0.95,
    power: float = 0.8,
) -> list[PairedPower]:
    """Power from the spread of observed differences; their mean is not used.

    `detectable` is that of a t test (`errors_to_show`) with the degrees of freedom of `Clusters`:
    clusters - 1 if all have one size. With clusters the standard error is cluster-robust, and the
    design effect is its square over s^2 / n (Kish 1965).
    """
    if not (0 < level < 1 and 0 < power < 1):
        raise ValueError(f"level {level} and power {power} must be between 0 and 1")
    matrix = as_columns(differences)
    single, grouped = to_clusters(matrix), to_clusters(matrix, clusters)
    return [
        _power(single, grouped, at, float(error), level, power)
        for at, error in enumerate(grouped.standard_errors)
    ]


def _power(
    single: Clusters, clusters: Clusters, at: int, error: float, level: float, power: float
) -> PairedPower:
    n, g = int(single.n[at]), int(clusters.present[:, at].sum())
    alone = float(single.standard_errors[at])
    told = g >= 2 and error > 0
    degrees = float(clusters.degrees[at])
    critical = t_quantile((1 + level) / 2, degrees)
    return PairedPower(
        n=n,
        clusters=g,
        degrees=degrees,
        deviation=alone * math.sqrt(n) if n else math.nan,
        design_effect=(error / alone) ** 2 if told and alone > 0 else math.nan,
        standard_error=error,
        level=level,
        power=power,
        detectable=error * errors_to_show(critical, degrees, power) if told else math.nan,
    )


def errors_to_show(critical: float, degrees: float, power: float) -> float:
    """The true difference, in standard errors, with a t above `critical` with probability `power`.

    Of the noncentral t; infinite for a very large `critical`.
    """
    from scipy.special import nctdtrinc

    if not (degrees > 0 and critical < _HIGHEST):
        return math.inf
    return float(nctdtrinc(degrees, 1 - power, critical))


@dataclass(frozen=True)
class UnpairedPower:
    """Power of comparing the means of two groups; a unit is in a with probability `split`.

    `deviation_a` and `deviation_b` are the standard deviations of a unit's value in each, `span` is
    the distance of the bounds of the values, if they have any. The test is two-sided at 1 -
    `level`.
    """

    deviation_a: float
    deviation_b: float
    split: float = 0.5
    level: float = 0.95
    power: float = 0.8
    span: float | None = None

    def detectable(self, units: int, *, any_time: bool = False) -> float:
        """The smallest true difference that `units` of both groups show with probability `power`.

        Looked at once: (t_{(1 + level) / 2} + t_{power}) * standard error, with units - 2 degrees
        of freedom. At `any_time`: by betting on the `balanced` stream, at that moment; slightly
        pessimistic, since it may have been shown earlier. NaN if spread or span is 0 or unknown,
        infinite for too few units.
        """
        if not self.deviation_a + self.deviation_b > 0 or (any_time and self.span is None):
            return math.nan
        if units < 4:
            return math.inf
        welch = self.deviation_a**2 / self.split + self.deviation_b**2 / (1 - self.split)
        error = math.sqrt(welch / units)
        if any_time and self.span is not None:
            reach = self.span / min(self.split, 1 - self.split)
            least = reach * shown_from(units, math.sqrt(welch) / reach, self.level)
            found = least + NormalDist().inv_cdf(self.power) * error
            return found if found <= self.span else math.inf
        df = units - 2
        return (t_quantile((1 + self.level) / 2, df) + t_quantile(self.power, df)) * error

    def units_needed(self, difference: float, *, any_time: bool = False) -> int | None:
        """Units of both groups that show `difference`.

        None if the spread is 0 or unknown. Raises ValueError for a difference of 0, and for one
        that needs more than `MOST`.
        """
        if not difference or math.isnan(difference):
            raise ValueError("the difference must not be 0")
        if math.isnan(self.detectable(4, any_time=any_time)):
            return None
        return _first(lambda n: self.detectable(n, any_time=any_time) <= abs(difference))


def clusters_for_half_width(
    standard_error: float, clusters: int, half_width: float, *, level: float = 0.95
) -> int | None:
    """The smallest number of clusters with a t interval of at most this half-width.

    t_{(1 + level) / 2, n - 1} s / sqrt(n) <= half_width, where s = standard_error * sqrt(clusters)
    is the observed spread: the sample-size formula of a mean (Cochran 1977, section 4.6), with t
    for the normal quantile. It treats the spread as known. None without spread (fewer than two
    clusters, or all equal). Raises ValueError for a half-width of 0 or less, and for one that needs
    more than `MOST`.
    """
    if not half_width > 0:
        raise ValueError(f"the half-width must be above 0, not {half_width}")
    if clusters < 2 or not standard_error > 0:
        return None
    spread, p = standard_error * math.sqrt(clusters), (1 + level) / 2
    return _first(lambda n: t_quantile(p, n - 1) * spread / math.sqrt(n) <= half_width)


MOST = 2**53
"""Largest number of units; floats do not represent larger ones exactly."""


def _first(enough: Callable[[int], bool]) -> int:
    """The smallest integer above 1 for which `enough` is true. Raises ValueError above `MOST`."""
    # SciPy's root finders are for continuous functions.
    low, high = 1, 2  # it is in (low, high]
    while not enough(high):
        if high >= MOST:
            raise ValueError(f"more than {MOST:.0e} units would be needed for so small a number")
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
