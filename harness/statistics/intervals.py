"""Confidence intervals of means, by a method that holds what it says for the data at hand.

* Single observations that are all 0 or 1: Clopper and Pearson's exact interval (1934).
* Other values between 0 and 1: Korn and Graubard's (1998, Survey Methodology 24): Clopper and
  Pearson's at the number of 0s and 1s that would make a mean as uncertain,
  n* = mean (1 - mean) / se^2, times (z / t)^2 for a standard error that is itself estimated.
* Values with other bounds, or none: t.

With clusters, standard error and degrees of freedom are CR2's (see `Units`), for few, many and
unequal clusters alike. `bootstrap` (percentile, whole clusters resampled) is there for those who
ask for it.

Why: simulated coverage, in `tests/benchmarks/coverage.md`, and what it says of each method's worst
case. A 95% percentile bootstrap or t covers 52 to 95% where the mean is near its bound and the
clusters differ; this interval is about as long and covers more in every line of that file. Where it
may still fail by more than two points it is called rough, by rules that the same file puts to the
test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from harness.statistics.resampling import bootstrap_means
from harness.statistics.units import Units, units_of

FEW_UNITS = 40
FEW_UNLIKE = 10
FEW_UNLIKE_T = 30
FEW_EVENTS = 5
METHODS = ("auto", "bootstrap", "t")
METHOD_NAMES = {
    "korn-graubard": "Korn-Graubard",
    "clopper-pearson": "Clopper-Pearson",
    "t": "t",
    "bootstrap": "percentile bootstrap",
    "wilson": "Wilson's score",  # in files of older versions
}
"""What each method is called where people read it."""


@dataclass(frozen=True)
class Interval:
    """A mean and its confidence interval.

    `n` observations in `units` independent units (clusters when `clustered`), which tell as much as
    `effective` units of equal size. `method` is a key of `METHOD_NAMES`, or `none` (then low and
    high are NaN). `resamples` is 0 where there were none. `rough` warns that the true coverage may
    be off by more than two points, and `note` says why.
    """

    value: float
    low: float
    high: float
    n: int
    units: int
    effective: float
    clustered: bool
    level: float
    method: str
    resamples: int
    rough: bool
    note: str

    @property
    def how(self) -> str:
        """How the interval was made, in words."""
        if self.method == "none":
            return "no interval"
        said = f"{METHOD_NAMES[self.method]} over {counted(self.units, self.clustered)}"
        if self.units - self.effective >= 0.5:
            said += f", which tell as much as {self.effective:.1f} of equal size"
        return said + (f", {self.resamples} resamples" if self.resamples else "")


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
    """The mean over observations of each metric with its interval.

    `bounds` are the least and the greatest value that an observation can have: t intervals are cut
    there, and for (0, 1) the methods for such values are taken. `method` overrules that choice;
    `resamples` and `seed` are the bootstrap's. A metric's interval is the same alone or beside
    others. The mean over clusters is `unit_intervals(units_of(values, clusters).by_unit(), ...)`.
    Raises ValueError.
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
    columns = range(units.sums.shape[1])
    methods = [_method(method, units, at, shares=bounds == (0, 1)) for at in columns]
    lows, highs = np.full(len(columns), np.nan), np.full(len(columns), np.nan)
    booted = [at for at in columns if methods[at] == "bootstrap"]
    if booted:
        chosen = Units(units.sums[:, booted], units.counts[:, booted], units.clustered)
        sampled = bootstrap_means(chosen, resamples, seed)
        lows[booted], highs[booted] = np.quantile(
            sampled, [(1 - level) / 2, (1 + level) / 2], axis=0
        )
    results = []
    for at, name in enumerate(methods):
        mean, error = float(units.means[at]), float(units.standard_errors[at])
        df = float(units.degrees[at])
        effective, events = float(units.effective[at]), math.inf
        if name == "t":
            reach = t_quantile((1 + level) / 2, df) * error
            low_bound, high_bound = bounds or (-math.inf, math.inf)
            lows[at], highs[at] = max(mean - reach, low_bound), min(mean + reach, high_bound)
        elif name == "clopper-pearson":
            lows[at], highs[at] = share_interval(mean, float(units.n[at]), level)
        elif name == "korn-graubard":
            worth = worth_of(mean, error, df, effective, level)
            lows[at], highs[at] = share_interval(mean, worth, level)
            events = worth * min(mean, 1 - mean)
        g = int(units.present[:, at].sum())
        note = _note(name, units, at, events)
        results.append(
            Interval(
                value=mean,
                low=float(lows[at]),
                high=float(highs[at]),
                n=int(units.n[at]),
                units=g,
                effective=effective,
                clustered=units.clustered,
                level=level,
                method=name,
                resamples=resamples if name == "bootstrap" else 0,
                rough=bool(note),
                note=note,
            )
        )
    return results


def counted(units: int, clustered: bool) -> str:
    """`10 clusters`, `1 observation`."""
    return f"{units} {'cluster' if clustered else 'observation'}{'' if units == 1 else 's'}"


def worth_of(mean: float, error: float, df: float, effective: float, level: float) -> float:
    """How many 0s and 1s would make a mean between 0 and 1 as uncertain as it is (Korn & Graubard).

    n* = mean (1 - mean) / error^2, times (z / t)^2 with the t of `df` degrees of freedom. Without a
    spread to see it is the number of `effective` units.
    """
    n = effective
    if error > 0 and 0 < mean < 1:
        n = mean * (1 - mean) / error**2
    if not df > 0:
        return n
    q = (1 + level) / 2
    return n * float((NormalDist().inv_cdf(q) / t_quantile(q, df)) ** 2)


def share_interval(share: float, n: float, level: float) -> tuple[float, float]:
    """Clopper and Pearson's interval of a share of `n` 0s and 1s, which may be no whole number.

    The shares under which as many, or as few, still have a chance of (1 - level) / 2: it holds the
    true one in `level` of samples or more, for every n and every share.
    """
    from scipy.special import betaincinv

    share = min(share, 1.0)  # rounding may leave a mean of ones above it
    tail, x = (1 - level) / 2, share * n
    low = float(betaincinv(x, n - x + 1, tail)) if x > 0 else 0.0
    high = float(betaincinv(x + 1, n - x, 1 - tail)) if x < n else 1.0
    return min(low, share), max(high, share)


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


def _method(wanted: str, units: Units, at: int, *, shares: bool) -> str:
    sums, counts = units.column(at)
    if len(sums) == 0 or (len(sums) == 1 and units.clustered):
        return "none"
    chosen = wanted
    if wanted == "auto":
        chosen = "t"
        if shares and bool(((sums >= 0) & (sums <= counts * (1 + 1e-9))).all()):
            zero_or_one = not units.clustered and bool(((sums == 0) | (sums == 1)).all())
            chosen = "clopper-pearson" if zero_or_one else "korn-graubard"
    return "none" if len(sums) == 1 and chosen != "clopper-pearson" else chosen


def _note(method: str, units: Units, at: int, events: float) -> str:
    """Why an interval is rough; empty where it is not."""
    sums, counts = units.column(at)
    g, unit = len(sums), "cluster" if units.clustered else "observation"
    if g == 0:
        return "no observation"
    if method == "none":
        return f"a single {unit} shows no spread: no interval"
    if method == "clopper-pearson":
        return ""
    _, sizes = np.unique(np.round(sums / counts, 12), return_counts=True)
    unlike = g - int(sizes.max())
    if unlike == 0:
        return f"all {g} {unit}s are equal: the interval cannot show how sure that is"
    if few := few_units(g, float(units.effective[at]), units.clustered):
        return few
    if unlike < (FEW_UNLIKE if method == "korn-graubard" else FEW_UNLIKE_T):
        return f"all but {unlike} of {g} {unit}s are equal"
    if events < FEW_EVENTS:
        end = "0" if units.means[at] < 0.5 else "1"
        return f"the mean is so near {end} that it rests on few {unit}s"
    return ""


def few_units(units: int, effective: float, clustered: bool) -> str:
    """`only 10 clusters`, and what unequal ones are worth; empty from 40 on."""
    if not effective < FEW_UNITS - 1e-9:
        return ""
    if units - effective < 0.5:
        return f"only {counted(units, clustered)}"
    return f"{counted(units, clustered)} so unequal that they tell as much as {effective:.1f}"
