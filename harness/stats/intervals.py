"""Confidence intervals of means, by a method chosen from the values.

* Single observations that are all 0 or 1: Clopper and Pearson's exact interval (1934).
* Other values between 0 and 1: Korn and Graubard's (1998, Survey Methodology 24): Clopper and
  Pearson's for the number of 0s and 1s with the same uncertainty, n* = mean (1 - mean) / se^2,
  times (z / t)^2 since the standard error is estimated.
* Values with other bounds, or none: t.

Standard error and degrees of freedom over clusters are CR2's (see `Clusters`).

`tests/benchmarks/coverage.md` has the simulated coverage of each method. An interval is marked
approximate if it may cover more than two points too little: for few clusters, few that differ from
the rest, and few that carry most of the spread. No rule detects a value that did not occur.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from harness.stats.clusters import Clusters, Values, to_clusters

FEW_CLUSTERS = 40
FEW_UNLIKE = 10
FEW_UNLIKE_T = 30
FEW_EVENTS = 5
FEW_EVENTS_T = 25
METHOD_NAMES = {
    "korn-graubard": "Korn-Graubard",
    "clopper-pearson": "Clopper-Pearson",
    "t": "t",
    "bootstrap": "percentile bootstrap",  # this and the next are in files of older versions
    "wilson": "Wilson's score",
}
"""Display names of the methods."""


@dataclass(frozen=True)
class MeanInterval:
    """A mean and its confidence interval.

    `n` observations in `clusters` (single observations unless `clustered`), with `effective` as the
    effective number. `method` is a key of `METHOD_NAMES`, or `none` (then low and high are NaN).
    `approximate` warns that the coverage may be more than two points too low; `note` is the reason.
    """

    value: float
    low: float
    high: float
    n: int
    clusters: int
    effective: float
    clustered: bool
    level: float
    method: str
    approximate: bool
    note: str

    @property
    def how(self) -> str:
        """Description of the method and the units."""
        if self.method == "none":
            return "no interval"
        said = f"{METHOD_NAMES[self.method]} over {counted(self.clusters, self.clustered)}"
        if self.clusters - self.effective >= 0.5:
            said += f", which tell as much as {self.effective:.1f} of equal size"
        return said


def mean_intervals(
    values: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    level: float = 0.95,
    bounds: tuple[float, float] | None = None,
) -> list[MeanInterval]:
    """The mean over observations of each metric with its interval.

    `bounds` are the smallest and largest possible value of an observation: t intervals are cut
    there, and (0, 1) selects the methods for such values. Metrics do not affect one another. For
    the mean over clusters: `cluster_intervals(to_clusters(values, clusters).by_cluster())`. Raises
    ValueError.
    """
    return cluster_intervals(to_clusters(values, clusters), level=level, bounds=bounds)


def cluster_intervals(
    clusters: Clusters,
    *,
    level: float = 0.95,
    bounds: tuple[float, float] | None = None,
) -> list[MeanInterval]:
    """`mean_intervals` of observations that are already grouped into clusters."""
    low, high, methods = interval_ends(clusters, level=level, bounds=bounds)
    means = clusters.means
    present, unlike, events = clusters.present.sum(axis=0), _unlike(clusters), events_of(clusters)
    results = []
    for at, name in enumerate(methods.tolist()):
        g, effective = int(present[at]), float(clusters.effective[at])
        note = _note(name, clusters.clustered, g, int(unlike[at]), effective, float(events[at]))
        results.append(
            MeanInterval(
                value=float(means[at]),
                low=float(low[at]),
                high=float(high[at]),
                n=int(clusters.n[at]),
                clusters=g,
                effective=effective,
                clustered=clusters.clustered,
                level=level,
                method=name,
                approximate=bool(note),
                note=note,
            )
        )
    return results


def interval_ends(
    clusters: Clusters, *, level: float = 0.95, bounds: tuple[float, float] | None = None
) -> tuple[Values, Values, npt.NDArray[np.str_]]:
    """The lower and upper end and the method of each interval, each of shape (metrics,)."""
    if not 0 < level < 1:
        raise ValueError(f"level {level} must be between 0 and 1")
    methods = _methods(clusters, shares=bounds == (0, 1))
    means, errors, df = clusters.means, clusters.standard_errors, clusters.degrees
    low, high = np.full((2, len(methods)), np.nan)
    if (at := methods == "t").any():
        reach = _t_quantiles((1 + level) / 2, df[at]) * errors[at]
        least, most = bounds or (-np.inf, np.inf)
        low[at] = np.maximum(means[at] - reach, least)
        high[at] = np.minimum(means[at] + reach, most)
    if (at := methods == "clopper-pearson").any():
        low[at], high[at] = share_interval(means[at], clusters.n[at], level)
    if (at := methods == "korn-graubard").any():
        worth = worth_of(means[at], errors[at], df[at], clusters.effective[at], level)
        low[at], high[at] = share_interval(means[at], worth, level)
    return low, high, methods


def counted(clusters: int, clustered: bool) -> str:
    """`10 clusters`, `1 observation`."""
    return f"{clusters} {'cluster' if clustered else 'observation'}{'' if clusters == 1 else 's'}"


def worth_of(
    means: Values, errors: Values, df: npt.ArrayLike, effective: npt.ArrayLike, level: float
) -> Values:
    """Number of 0s and 1s with the same uncertainty as each mean between 0 and 1 (Korn & Graubard).

    n* = mean (1 - mean) / error^2, times (z / t)^2 with the t of `df` degrees of freedom, or the
    number of `effective` clusters if there is no spread. Arguments have the shape (means,), or are
    one number for all.
    """
    df = np.broadcast_to(np.asarray(df, np.float64), means.shape)
    n: Values = np.array(np.broadcast_to(effective, means.shape), np.float64)
    spread = (errors > 0) & (means > 0) & (means < 1)
    n[spread] = (means * (1 - means))[spread] / errors[spread] ** 2
    q = (1 + level) / 2
    known = df > 0
    n[known] *= (NormalDist().inv_cdf(q) / _t_quantiles(q, df[known])) ** 2
    return n


def share_interval(shares: Values, n: npt.ArrayLike, level: float) -> tuple[Values, Values]:
    """Clopper and Pearson's intervals of shares of `n` 0s and 1s; n need not be whole.

    The bounds are the shares for which as many, or as few, have a probability of (1 - level) / 2.
    The coverage is at least `level` for every n and every share.
    """
    from scipy.special import betaincinv

    shares = np.minimum(shares, 1.0)  # a mean of ones may be larger by rounding
    tail, x = (1 - level) / 2, shares * np.asarray(n)
    rest = n - x
    low, high = np.zeros_like(shares), np.ones_like(shares)
    some, lacking = x > 0, rest > 0
    low[some] = betaincinv(x[some], rest[some] + 1, tail)
    high[lacking] = betaincinv(x[lacking] + 1, rest[lacking], 1 - tail)
    return np.minimum(low, shares), np.maximum(high, shares)


def t_quantile(p: float, df: float) -> float:
    """The t with P(T <= t) = p, of Student's t with `df` degrees of freedom; NaN for df <= 0.

    Raises ValueError for a p that is not between 0 and 1.
    """
    if not 0 < p < 1:
        raise ValueError(f"a quantile's probability must be between 0 and 1, not {p}")
    return float(_t_quantiles(p, np.float64(df)))


def t_above(t: float, df: float) -> float:
    """P(T >= t), accurate in the far tail; NaN for a NaN `t` and for df <= 0."""
    from scipy.special import stdtr

    return float(stdtr(df, -t))


def _t_quantiles(p: float, df: npt.ArrayLike) -> Values:
    from scipy.special import stdtrit

    different, at = np.unique(df, return_inverse=True)  # a quantile takes 10 us
    return np.asarray(stdtrit(different, p), np.float64)[at].reshape(np.shape(df))


def _methods(clusters: Clusters, *, shares: bool) -> npt.NDArray[np.str_]:
    """The method of each metric, shape (metrics,)."""
    sums, counts, absent = clusters.sums, clusters.counts, ~clusters.present
    g = clusters.present.sum(axis=0)
    chosen = np.full(len(g), "t", dtype="<U15")
    if shares:
        inside = ((sums >= 0) & (sums <= counts * (1 + 1e-9)) | absent).all(axis=0)
        chosen[inside] = "korn-graubard"
        if not clusters.clustered:
            binary = ((sums == 0) | (sums == 1) | absent).all(axis=0)
            chosen[inside & binary] = "clopper-pearson"
    alone = (g == 1) & (clusters.clustered | (chosen != "clopper-pearson"))
    chosen[(g == 0) | alone] = "none"
    return chosen


def _unlike(clusters: Clusters) -> npt.NDArray[np.int64]:
    """Number of clusters of each metric that differ from the most frequent mean, (metrics,)."""
    means = np.full(clusters.sums.shape, np.nan)
    np.divide(clusters.sums, clusters.counts, out=means, where=clusters.present)
    means = np.sort(np.round(means, 12).T)  # a row for each metric; absent clusters are last
    place = np.arange(len(clusters.sums))
    new = np.ones(means.shape, bool)
    new[:, 1:] = means[:, 1:] != means[:, :-1]
    run = place - np.maximum.accumulate(np.where(new, place, 0), axis=1) + 1
    present = clusters.present.sum(axis=0)
    return np.where(present > 0, present - run.max(axis=1, initial=0), 0)


def events_of(clusters: Clusters) -> Values:
    """Number of clusters that carry the one-sided spread of each metric, (metrics,).

    (sum of r^2)^3 / (sum of r^3)^2 of the residuals r = S_g - mean * N_g, which is n / G1^2 with
    the skewness G1: about the number of rare 1s among 0s, and infinite for a symmetric spread.
    A t interval needs more than 25 (Cochran 1977, Sampling Techniques, section 2.15).
    """
    residuals = clusters.sums - clusters.counts * np.nan_to_num(clusters.means)
    squared = residuals**2  # other powers are ten times as slow as products
    squares, cubes = squared.sum(axis=0), (squared * residuals).sum(axis=0)
    lopsided = np.abs(cubes) > 1e-12 * squares**1.5
    events = np.full(squares.shape, np.inf)
    np.divide(squares**3, cubes**2, out=events, where=lopsided)
    return events


def _note(
    method: str,
    clustered: bool,
    g: int,
    unlike: int,
    effective: float,
    events: float,
) -> str:
    """The reason why an interval is approximate, else empty."""
    unit = "cluster" if clustered else "observation"
    if g == 0:
        return "no observation"
    if method == "none":
        return f"a single {unit} shows no spread: no interval"
    if method == "clopper-pearson":
        return ""
    if unlike == 0:
        return f"all {g} {unit}s are equal: the interval cannot show how sure that is"
    if few := few_clusters(g, effective, clustered):
        return few
    skew_known = method == "korn-graubard"  # its bounds include the skewness of 0s and 1s
    if unlike < (FEW_UNLIKE if skew_known else FEW_UNLIKE_T):
        return f"all but {unlike} of {g} {unit}s are equal"
    if events < (FEW_EVENTS if skew_known else FEW_EVENTS_T):
        return f"few of {g} {unit}s carry most of the spread"
    return ""


def few_clusters(clusters: int, effective: float, clustered: bool) -> str:
    """`only 10 clusters`, with the effective number of unequal ones; empty from 40 on."""
    if not effective < FEW_CLUSTERS - 1e-9:
        return ""
    if clusters - effective < 0.5:
        return f"only {counted(clusters, clustered)}"
    return f"{counted(clusters, clustered)} so unequal that they tell as much as {effective:.1f}"
