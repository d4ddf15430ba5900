"""The true rate of right answers, from an imperfect judge and human labels of a sample.

* `corrected_rate` corrects the judge's rate for its sensitivity and specificity.
* `prediction_powered` adjusts the judge's rate by its errors on a random sample with human labels,
  without assumptions about the errors; `prediction_powered_difference` does so for two systems with
  the same questions. A difference is never corrected by sensitivity and specificity, since that
  would not notice a judge that favours one system.

Report `prediction_powered` if there are labels of a random sample: it assumes less, has the smaller
error, and on average an interval no wider than that of the labels alone. In a single sample it may
be wider: in up to 12% at rates near 0 or 1 with 20 labels, and in up to a third over ten clusters
in which the judge errs differently. So choose before looking at the widths. Intervals contain their
estimate; over fewer than 40 clusters they are marked approximate.
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
"""Number of human labels below which an interval is approximate."""
_WORTHLESS = 0.1
"""Sensitivity + specificity - 1 below which a judge carries almost no information."""


@dataclass(frozen=True)
class Errors:
    """Counts of a judge's verdicts on answers with human labels.

    Right answers that it accepted and rejected (`hits`, `misses`), wrong ones that it rejected and
    accepted (`rejections`, `alarms`).
    """

    hits: int
    misses: int
    rejections: int
    alarms: int

    @property
    def right(self) -> int:
        """Number of right answers, by human labels."""
        return self.hits + self.misses

    @property
    def wrong(self) -> int:
        """Number of wrong answers, by human labels."""
        return self.rejections + self.alarms

    @property
    def sensitivity(self) -> float:
        """Share of right answers that the judge accepts; NaN without right answers."""
        return self.hits / self.right if self.right else math.nan

    @property
    def specificity(self) -> float:
        """Share of wrong answers that the judge rejects; NaN without wrong answers."""
        return self.rejections / self.wrong if self.wrong else math.nan


@dataclass(frozen=True)
class JudgedRate:
    """A rate from 0 to 1, or a difference of two, with its interval; None if it cannot be
    estimated.

    `note` is the reason for that, or for an approximate interval. `n` answers were judged, `people`
    of them by people; `weight` is the weight of the judge (1: like people).
    """

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
    """The judge's rate of right answers corrected for its errors, with a 95% interval.

    `judged` (n,) is 0, 1 or the mean of several judgements, NaN if missing. The estimate is
    (q + sp - 1) / (se + sp - 1), clipped to [0, 1] (Rogan & Gladen 1978); the interval is that of
    Lang & Reiczigel (2014), which adds two answers to the counts of errors and includes their
    uncertainty. There is no interval if it lies outside [0, 1], and no estimate if se + sp - 1 is
    below .1, with the added answers or without. With `clusters`, q has the number of independent
    answers that give its cluster-robust standard error, and z is replaced by t. Raises ValueError
    for other shapes.
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
_UNFIT = "the judge's rate does not fit its errors on labelled answers: no interval"


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
    """A value clipped to `least` to 1, with an interval that contains it."""
    value = _clipped(value, least)
    low, high = min(_clipped(ends[0], least), value), max(_clipped(ends[1], least), value)
    return JudgedRate(value, low, high, n, people, note, weight)


def _refused(n: int, errors: Errors, slope: float) -> JudgedRate | None:
    """The reason why a judge cannot be corrected, else None.

    `slope` is that of the interval, which the added answers make smaller than the estimate's.
    """
    note = ""
    if not n or not errors.right or not errors.wrong:
        note = "people judged no right, or no wrong answer"
    elif min(slope, errors.sensitivity + errors.specificity - 1) < _WORTHLESS:
        note = "the judge hardly separates right from wrong answers"
    people = errors.right + errors.wrong
    return JudgedRate(None, None, None, n, people, note) if note else None


def prediction_powered(
    judged: npt.ArrayLike, people: npt.ArrayLike, clusters: npt.ArrayLike | None = None
) -> JudgedRate:
    """The rate by human labels of all answers, estimated from a sample, with a 95% interval.

    `judged` (n,) are the judge's values, from 0 to 1, `people` the human labels of a random sample,
    NaN elsewhere. The estimate is the judge's mean over the other answers, weighted by w, plus the
    sample's mean of people - w * judge, with the w of the least variance (PPI++: Angelopoulos,
    Duchi & Zrnic 2023). The variance is that of the sum of influences, by cluster if there are
    `clusters`, with four added labels, one of each kind of agreement and disagreement, as Agresti &
    Coull (1998) do for a share. The interval is that of 0s and 1s with the same uncertainty (Korn &
    Graubard), with the effective number of labelled units (Kish 1965). Raises ValueError for other
    shapes.
    """
    return _with_people(judged, people, clusters, _OF_RATES, 0.0)


def prediction_powered_difference(
    judged: npt.ArrayLike, people: npt.ArrayLike, clusters: npt.ArrayLike | None = None
) -> JudgedRate:
    """The mean difference of two systems by human labels, estimated like `prediction_powered`.

    `judged` (n,) are differences on the same questions by the judge, from -1 to 1, `people` those
    by human labels, NaN unless both answers have one. Two questions are added for the error, one
    that each system wins (Agresti & Min 2005), and the interval is by t. Raises ValueError for
    other shapes.
    """
    return _with_people(judged, people, clusters, _OF_DIFFERENCES, -1.0)


def _with_people(
    judged: npt.ArrayLike,
    people: npt.ArrayLike,
    clusters: npt.ArrayLike | None,
    more: tuple[tuple[float, float], ...],
    least: float,
) -> JudgedRate:
    """Estimate with added judgements for the interval: `more` has (judge, people) of each."""
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
"""Each combination of judge and people."""
_OF_DIFFERENCES = ((1.0, 1.0), (-1.0, -1.0))
"""A win of each system."""


def _powered(f: Values, y: Values, codes: npt.NDArray[np.int64]) -> tuple[float, float, float]:
    """The estimate, its standard error, and the weight of the judge."""
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
    """The weight of the judge with the least variance, from 0 to 1."""
    spread = float(np.var(f, ddof=1))
    if not rest or spread == 0:
        return 0.0
    shared = float(np.cov(y, f, ddof=1)[0, 1])
    return min(1.0, max(0.0, shared / ((1 + len(f) / rest) * spread)))


def _clipped(value: float, least: float = 0.0) -> float:
    return min(1.0, max(least, value))
