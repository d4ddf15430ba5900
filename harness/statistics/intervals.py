"""Confidence intervals of means, by the method that the number of independent units allows.

* 40 units or more: percentile bootstrap, in which whole clusters are resampled.
* 2 to 39: t with (units - 1) degrees of freedom; for clusters, of the linearised ratio (cluster t).
* Single observations that are all 0 or 1, when there are fewer than 40, or fewer than 5 of one
  kind: Wilson's score interval.

Why: simulated coverage, in `tests/benchmarks/coverage.md` (Monte Carlo error 0.5 points). With ten
clusters of LoCoMo's sizes a 95% percentile bootstrap covers 87 to 90%, BCa 89 to 90%; the cluster t
93 to 95%, and 90% where the mean is near its bound and clusters differ much. The wild bootstrap-t
does as the cluster t; the studentised bootstrap covers 93 to 96%, by intervals up to 40% longer and
on some data without end. With five clusters it is 77 to 85% against 93 to 95% (88%). From 40 units
on the percentile bootstrap covers 92 to 96%. BCa is not offered: nowhere did it gain what this
choice does not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from harness.statistics.resampling import bootstrap_means
from harness.statistics.units import Units, Values, units_of

FEW_UNITS = 40
FEW_UNLIKE = 5
METHODS = ("auto", "bootstrap", "t", "wilson")


@dataclass(frozen=True)
class Interval:
    """A mean and its confidence interval.

    `n` observations in `units` independent units (clusters when `clustered`). `method` is
    `bootstrap`, `t`, `wilson`, or `none` (then low and high are NaN). `resamples` is 0 where there
    were none. `rough` warns that the true coverage may be off by more than a point or two, and
    `note` says why.
    """

    value: float
    low: float
    high: float
    n: int
    units: int
    clustered: bool
    level: float
    method: str
    resamples: int
    rough: bool
    note: str

    @property
    def how(self) -> str:
        """How the interval was made, in words."""
        unit = "clusters" if self.clustered else "observations"
        names = {
            "bootstrap": f"percentile bootstrap over {self.units} {unit}, "
            f"{self.resamples} resamples",
            "t": f"{'cluster ' if self.clustered else ''}t over {self.units} {unit}",
            "wilson": f"Wilson's score over {self.units} {unit}",
            "none": "no interval",
        }
        return names[self.method]


def mean_intervals(
    values: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
    bounds: tuple[float, float] | None = None,
    method: str = "auto",
) -> list[Interval]:
    """The mean of each metric with its interval.

    `bounds` are the least and the greatest value that an observation can have: t intervals are cut
    there, and (0, 1) allows Wilson's. `method` overrules the choice described above. The same seed
    gives the same intervals, for a metric alone or beside others. Raises ValueError.
    """
    return unit_intervals(
        units_of(values, clusters),
        level=level,
        resamples=resamples,
        seed=seed,
        bounds=bounds,
        method=method,
    )


def unit_intervals(
    units: Units,
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
    bounds: tuple[float, float] | None = None,
    method: str = "auto",
) -> list[Interval]:
    """As `mean_intervals`, of observations that are gathered into units already."""
    if not 0 < level < 1 or resamples < 1 or method not in METHODS:
        raise ValueError(f"bad level {level}, resamples {resamples} or method {method!r}")
    means, errors, g = units.means, units.standard_errors, units.present.sum(axis=0)
    unlike = [_unlike(*units.column(at)) for at in range(len(means))]
    methods = [
        _method(method, units, at, unlike[at], proportions=bounds == (0, 1))
        for at in range(len(means))
    ]
    lows, highs = np.full(len(means), np.nan), np.full(len(means), np.nan)
    booted = [at for at, name in enumerate(methods) if name == "bootstrap"]
    if booted:
        chosen = Units(units.sums[:, booted], units.counts[:, booted], units.clustered)
        sampled = bootstrap_means(chosen, resamples, seed)
        lows[booted], highs[booted] = np.quantile(
            sampled, [(1 - level) / 2, (1 + level) / 2], axis=0
        )
    low_bound, high_bound = bounds or (-math.inf, math.inf)
    results = []
    for at, name in enumerate(methods):
        if name == "t":
            reach = t_quantile((1 + level) / 2, int(g[at]) - 1) * errors[at]
            lows[at] = max(means[at] - reach, low_bound)
            highs[at] = min(means[at] + reach, high_bound)
        elif name == "wilson":
            lows[at], highs[at] = wilson(means[at], int(g[at]), level)
        note = _note(name, int(g[at]), unlike[at], units.clustered)
        results.append(
            Interval(
                value=float(means[at]),
                low=float(lows[at]),
                high=float(highs[at]),
                n=int(units.n[at]),
                units=int(g[at]),
                clustered=units.clustered,
                level=level,
                method=name,
                resamples=resamples if name == "bootstrap" else 0,
                rough=bool(note),
                note=note,
            )
        )
    return results


def t_quantile(p: float, df: float) -> float:
    """The t with P(T <= t) = p, of Student's t with `df` degrees of freedom; NaN for df <= 0.

    Raises ValueError for a p that is not between 0 and 1.
    """
    if not 0 < p < 1:
        raise ValueError(f"a quantile's probability must be between 0 and 1, not {p}")
    from scipy.special import stdtrit

    return float(stdtrit(df, p))


def t_above(t: float, df: float) -> float:
    """P(T >= t), all digits kept in the far tail; NaN for a NaN `t` and for df <= 0."""
    from scipy.special import stdtr

    return float(stdtr(df, -t))


def wilson(proportion: float, n: int, level: float) -> tuple[float, float]:
    """Wilson's score interval of a proportion (1927; Brown, Cai & DasGupta 2001, equation 4)."""
    # Not SciPy's, of binomtest(): 0.6 ms instead of 2 us for each cell of a table of scores, and
    # a second to import scipy.stats.
    z = NormalDist().inv_cdf((1 + level) / 2)
    centre = (proportion + z * z / (2 * n)) / (1 + z * z / n)
    reach = z / (1 + z * z / n) * math.sqrt(proportion * (1 - proportion) / n + (z / (2 * n)) ** 2)
    # At 0 and 1 the bound is the proportion itself, which rounding must not miss.
    low = 0.0 if proportion == 0 else max(centre - reach, 0.0)
    return low, 1.0 if proportion == 1 else min(centre + reach, 1.0)


def _method(wanted: str, units: Units, at: int, unlike: int, *, proportions: bool) -> str:
    sums, counts = units.column(at)
    if len(sums) == 0 or (len(sums) == 1 and wanted != "wilson" and units.clustered):
        return "none"
    binary = proportions and not units.clustered and bool(((sums == 0) | (sums == counts)).all())
    if wanted == "wilson" and not binary:
        raise ValueError("Wilson's interval is for unclustered values of 0 and 1, bounds (0, 1)")
    if wanted == "auto":
        few = len(sums) < FEW_UNITS
        wanted = (
            "wilson" if binary and (few or unlike < FEW_UNLIKE) else "t" if few else "bootstrap"
        )
    return "none" if len(sums) == 1 and wanted != "wilson" else wanted


def _unlike(sums: Values, counts: Values) -> int:
    """How many units have another mean than the commonest one."""
    if len(sums) == 0:
        return 0
    means = np.sort(np.round(sums / counts, 12))
    begin = np.flatnonzero(means[1:] != means[:-1]) + 1
    edges = np.concatenate(([0], begin, [len(means)]))
    return int(len(means) - (edges[1:] - edges[:-1]).max())


def _note(method: str, g: int, unlike: int, clustered: bool) -> str:
    """Why an interval is rough; empty where it is not."""
    unit = "cluster" if clustered else "observation"
    if g == 0:
        return "no observation"
    if method == "none":
        return f"a single {unit} shows no spread: no interval"
    if method == "wilson":
        return ""
    if unlike == 0:
        return f"all {g} {unit}s are equal: the interval cannot show how sure that is"
    if g < FEW_UNITS:
        return f"only {g} {unit}s"
    if unlike < FEW_UNLIKE:
        return f"all but {unlike} of {g} {unit}s are equal"
    return ""
