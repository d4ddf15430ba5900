"""The true rate of right answers, from a judge that errs and people who judged a sample.

Two ways. Where the judge's errors are known, by how often it calls right answers right and wrong
ones wrong, its rate is corrected for them (`corrected_rate`). Where people judged a random sample
of the very answers, the judge's rate over all is moved by what it missed in the sample
(`prediction_powered`), which assumes nothing of its errors; `prediction_powered_difference` does so
for two systems that were asked the same questions. A difference is not corrected for errors: a
judge that favours one of the systems would go unseen.

Of the two, report that with people, whatever the numbers are: it assumes less, has the smaller
error, and on the average an interval no wider than that of the people's labels alone. In a single
draw it may be wider: in up to 12% of them at rates near 0 or 1 and 20 labels, and in up to a third
over ten clusters in which the judge errs differently: decide before looking at the widths.
Every interval holds its estimate; over fewer than 40 clusters it is called approximate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from harness.stats.clusters import Clusters, Values, cluster_codes, to_clusters
from harness.stats.intervals import (
    few_clusters,
    share_interval,
    t_quantile,
    worth_of,
)

LEVEL = 0.95
LEAST = 10
"""Units with people's judgements, below which an interval is only approximate."""
_WORTHLESS = 0.1
"""Sensitivity and specificity less 1, below which a judge tells next to nothing."""


@dataclass(frozen=True)
class Errors:
    """How a judge errs, as counted where people judged too: right answers that it called right and
    wrong (`hits`, `misses`), wrong ones that it called wrong and right (`rejections`, `alarms`)."""

    hits: int
    misses: int
    rejections: int
    alarms: int

    @property
    def right(self) -> int:
        """Right answers that people judged."""
        return self.hits + self.misses

    @property
    def wrong(self) -> int:
        """Wrong answers that people judged."""
        return self.rejections + self.alarms

    @property
    def sensitivity(self) -> float:
        """Share of right answers that it calls right; NaN where there were none."""
        return self.hits / self.right if self.right else math.nan

    @property
    def specificity(self) -> float:
        """Share of wrong answers that it calls wrong; NaN where there were none."""
        return self.rejections / self.wrong if self.wrong else math.nan


@dataclass(frozen=True)
class JudgedRate:
    """A rate from 0 to 1, or a difference of two, with its interval, None where it cannot be told;
    `note` says why, or why it is approximate. `n` answers were judged, `people` of them by people;
    `weight` is how far the judge was trusted (1: as the people)."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    people: int
    note: str = ""
    weight: float = 1.0


def corrected_rate(
    judged: npt.ArrayLike, errors: Errors, clusters: npt.ArrayLike | None = None
) -> JudgedRate:
    """The rate of right answers behind a judge's, and its 95% interval.

    `judged` (n,) is 0, 1 or the mean of several judgements, NaN where there is none. The estimate
    is (q + sp - 1) / (se + sp - 1), clipped to [0, 1] (Rogan & Gladen 1978); the interval is that
    of Lang & Reiczigel (2014), which adds two answers to the counts of errors and carries their
    uncertainty. There is none where it lies outside [0, 1], and no estimate where se + sp - 1 is
    below .1, with the added answers or without. Where answers come in `clusters`, q has so many
    independent answers as give its cluster-robust standard error, and t takes the place of z.
    Raises ValueError for other shapes.
    """
    units = to_clusters(np.asarray(judged, float), clusters)
    n, people = int(units.n[0]), errors.right + errors.wrong
    se, n_se = (errors.hits + 1) / (errors.right + 2), errors.right + 2
    sp, n_sp = (errors.rejections + 1) / (errors.wrong + 2), errors.wrong + 2
    slope = se + sp - 1
    if refused := _refused(n, errors, slope):
        return refused
    q = float(units.means[0])
    value = (q + errors.specificity - 1) / (errors.sensitivity + errors.specificity - 1)
    error, degrees = float(units.standard_errors[0]), float(units.degrees[0])
    z = reach = NormalDist().inv_cdf(0.5 + LEVEL / 2)
    effective = float(n)
    if units.clustered:
        if math.isnan(degrees):
            return JudgedRate(_clipped(value), None, None, n, people, _SINGLE)
        reach = t_quantile(0.5 + LEVEL / 2, degrees)
        known = error > 0
        effective = min(float(n), q * (1 - q) / error**2) if known else float(units.effective[0])
    square = z * z
    q_, n_ = (effective * q + square / 2) / (effective + square), effective + square
    p = (q_ + sp - 1) / slope
    of_se, of_sp = se * (1 - se) / n_se, sp * (1 - sp) / n_sp
    middle = p + 2 * square * (p * of_se - (1 - p) * of_sp)
    half = reach * math.sqrt(q_ * (1 - q_) / n_ + p**2 * of_se + (1 - p) ** 2 * of_sp) / slope
    note = _note(errors, units)
    if middle + half < 0 or middle - half > 1:
        said = _UNFIT if min(errors.right, errors.wrong) >= LEAST else f"{note}: no interval"
        return JudgedRate(_clipped(value), None, None, n, people, said)
    return _told(value, (middle - half, middle + half), n, people, note)


_SINGLE = "a single cluster shows no spread: no interval"
_UNFIT = "no true rate gives the judge's with the errors that people saw: no interval"


def _note(errors: Errors, units: Clusters) -> str:
    least = min(errors.right, errors.wrong)
    if least < LEAST:
        return f"people judged {least} of one kind"
    clusters, effective = int(units.present.sum()), float(units.effective[0])
    return few_clusters(clusters, effective, clustered=True) if units.clustered else ""


def _told(
    value: float,
    ends: tuple[float, float],
    n: int,
    people: int,
    note: str,
    *,
    least: float = 0.0,
    weight: float = 1.0,
) -> JudgedRate:
    """Of a value from `least` to 1, with an interval that holds it."""
    value = _clipped(value, least)
    low, high = min(_clipped(ends[0], least), value), max(_clipped(ends[1], least), value)
    return JudgedRate(value, low, high, n, people, note, weight)


def _refused(n: int, errors: Errors, slope: float) -> JudgedRate | None:
    """Says why too little is known to correct a judge; None where it can be. `slope` is that of the
    interval: what few labels show is less by what is added to them."""
    note = ""
    if not n or not errors.right or not errors.wrong:
        note = "people judged no right, or no wrong answer"
    elif min(slope, errors.sensitivity + errors.specificity - 1) < _WORTHLESS:
        note = "the judge tells right from wrong hardly at all"
    people = errors.right + errors.wrong
    return JudgedRate(None, None, None, n, people, note) if note else None


def prediction_powered(
    judged: npt.ArrayLike, people: npt.ArrayLike, clusters: npt.ArrayLike | None = None
) -> JudgedRate:
    """The rate that people would have found, had they judged all, and its 95% interval.

    `judged` (n,) is the judge's value of every answer, from 0 to 1, `people` theirs, NaN where they
    did not look; what they looked at must be a random sample. The estimate is the judge's mean over
    the rest, weighted by w, plus the sample's mean of people - w * judge, with the w that makes the
    variance least (PPI++: Angelopoulos, Duchi & Zrnic 2023). Its variance is that of the sum of
    influences, by `clusters` where there are any, with four more judgements by people, one of each
    kind of agreement and disagreement, as Agresti & Coull (1998) do for a share; the interval is
    that of the 0s and 1s that would be as uncertain (Korn & Graubard, as of any mean), with the
    effective number of units that people looked at (Kish 1965). Raises ValueError for other shapes.
    """
    return _with_people(judged, people, clusters, _OF_RATES, 0.0)


def prediction_powered_difference(
    judged: npt.ArrayLike, people: npt.ArrayLike, clusters: npt.ArrayLike | None = None
) -> JudgedRate:
    """The mean difference that people would have found between two systems on the same questions.

    As `prediction_powered`, of differences from -1 to 1: `judged` (n,) the judge's, `people` those
    of people, NaN where they did not judge both answers. What is added for the error are two
    questions, one that each system wins (Agresti & Min 2005), and the interval is by t. Raises
    ValueError for other shapes.
    """
    return _with_people(judged, people, clusters, _OF_DIFFERENCES, -1.0)


def _with_people(
    judged: npt.ArrayLike,
    people: npt.ArrayLike,
    clusters: npt.ArrayLike | None,
    more: tuple[tuple[float, float], ...],
    least: float,
) -> JudgedRate:
    """With judgements added for the interval: `more`, the judge's and the people's of each."""
    f, y = np.asarray(judged, float), np.asarray(people, float)
    if f.ndim != 1 or f.shape != y.shape:
        raise ValueError(f"judged {f.shape} and people {y.shape} must be as long as each other")
    there = ~np.isnan(f)
    codes = np.arange(len(f))
    if clusters is not None:
        codes, _ = cluster_codes(clusters, len(f))
    f, y, codes = f[there], y[there], codes[there]
    seen = ~np.isnan(y)
    n = int(seen.sum())
    if n < 2:
        return JudgedRate(None, None, None, len(f), n, "people judged fewer than two answers")
    value, _, weight = _powered(f, y, codes)
    value = _clipped(value, least)
    sizes = np.bincount(codes[seen])
    units, effective = int(np.count_nonzero(sizes)), float(n**2 / (sizes**2).sum())
    if units < 2:
        return JudgedRate(value, None, None, len(f), n, _SINGLE, weight)
    _, error, _ = _powered(
        np.append(f, [one for one, _ in more]),
        np.append(y, [one for _, one in more]),
        np.append(codes, codes.max() + 1 + np.arange(len(more))),
    )
    if least < 0:
        half = t_quantile(0.5 + LEVEL / 2, effective - 1) * error
        ends = value - half, value + half
    else:
        middle = np.array([value])
        worth = worth_of(middle, np.array([error]), effective - 1, effective, LEVEL)
        low, high = share_interval(middle, worth, LEVEL)
        ends = float(low[0]), float(high[0])
    note = few_clusters(units, effective, clustered=True) if units < n else ""
    if units == n < LEAST:
        note = f"people judged {n} answers only"
    return _told(value, ends, len(f), n, note, least=least, weight=weight)


_OF_RATES = ((1.0, 1.0), (0.0, 0.0), (1.0, 0.0), (0.0, 1.0))
"""Judge and people, each way."""
_OF_DIFFERENCES = ((1.0, 1.0), (-1.0, -1.0))
"""Won by one system and by the other."""


def _powered(f: Values, y: Values, codes: npt.NDArray[np.int64]) -> tuple[float, float, float]:
    """The estimate, its standard error, and how far the judge was trusted."""
    seen = ~np.isnan(y)
    n, rest = int(seen.sum()), int((~seen).sum())
    weight = _weight(f[seen], y[seen], rest)
    moved = y[seen] - weight * f[seen]
    value = float(moved.mean())
    influence = np.zeros(len(f))
    influence[seen] = (moved - moved.mean()) / n
    if rest:
        value += weight * float(f[~seen].mean())
        influence[~seen] = weight * (f[~seen] - f[~seen].mean()) / rest
    sums = np.bincount(codes, influence)
    sizes = np.bincount(codes[seen])
    units = float(sizes.sum() ** 2 / (sizes**2).sum())
    error = math.sqrt(float((sums**2).sum()) * units / max(1.0, units - 1))
    return value, error, weight


def _weight(f: Values, y: Values, rest: int) -> float:
    """How far the judge is trusted: the least variance, from 0 to 1."""
    spread = float(np.var(f, ddof=1))
    if not rest or spread == 0:
        return 0.0
    shared = float(np.cov(y, f, ddof=1)[0, 1])
    return min(1.0, max(0.0, shared / ((1 + len(f) / rest) * spread)))


def _clipped(value: float, least: float = 0.0) -> float:
    return min(1.0, max(least, value))
