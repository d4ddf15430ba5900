"""Agreement of annotators: per cent, Cohen's kappa, Krippendorff's alpha, each with an interval.

For grades from 0 to 3 use alpha with ordinal distances: it supports any number of annotators and
missing values, and nearly equals quadratic-weighted kappa for two annotators. Unweighted kappa and
nominal alpha treat 2 against 3 like 0 against 3. Per cent agreement is not corrected for chance: it
is always high if most documents are not relevant.

Intervals are a jackknife over clusters, since judgements of one query are not independent; without
clusters each unit is one. A plain jackknife is too short near 1, and has no length at full
agreement. So four judgements are added for it, two that agree and two that do not, spread evenly
over the values, as Agresti & Coull (1998) do for a share; t has the effective number of clusters
(Kish 1965) - 1 degrees of freedom. In simulations a 95% interval contains the true value in 94 to
99% with 10 to 500 units, in 92 to 100% over clusters of about ten, and in 85% over ten clusters of
40 with a rare value in few of them. Below 40 effective clusters the note gives their number
(`tests/benchmarks/claims.md`).

If all annotators gave the same grade to everything, chance-corrected agreement is 0 / 0: not
measurable, NaN here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.stats.clusters import Values, cluster_codes
from harness.stats.intervals import few_clusters, t_quantile

DISTANCES = ("nominal", "ordinal", "interval")
WEIGHTS = ("none", "linear", "quadratic")

Statistic = Callable[[Values], Values]
"""From tables of shape (tables, values, values) to one number each, NaN where not measurable."""


@dataclass(frozen=True)
class Agreement:
    """A measure of agreement. `value`, `low` and `high` are NaN where not measurable.

    `units` were judged by two annotators or more; `clusters` are independent groups of them (the
    units if none were given). `note` is the reason for an approximate or missing interval, or
    value.
    """

    value: float
    low: float
    high: float
    units: int
    clusters: int
    note: str

    @property
    def measurable(self) -> bool:
        """Whether the value is a number."""
        return not math.isnan(self.value)


def percent_agreement(
    ratings: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    level: float = 0.95,
) -> Agreement:
    """Probability that two random annotators of the same unit gave it the same value.

    `ratings` has shape (annotators, units), NaN for missing judgements; `clusters` a label per
    unit. For two annotators it is the share of units on which they agree. Raises ValueError.
    """
    given = _Ratings.of(ratings, clusters)

    def share(tables: Values) -> Values:
        total = tables.sum(axis=(1, 2))
        return _ratio(np.trace(tables, axis1=1, axis2=2), total)

    return _measured(given.coincidences, given, share, level, least=0)


def krippendorff_alpha(
    ratings: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    distance: str = "ordinal",
    level: float = 0.95,
) -> Agreement:
    """Krippendorff's alpha of any number of annotators; shapes as in `percent_agreement`.

    alpha = 1 - D_o / D_e = 1 - (n - 1) sum o_ck d_ck^2 / sum n_c n_k d_ck^2 over the coincidences
    o_ck of pairs of values in units that were judged twice or more (Krippendorff 2011, Computing
    Krippendorff's Alpha-Reliability). d is 0 or 1 (`nominal`), the difference (`interval`), or the
    number of values between them, with half of both ends (`ordinal`). Raises ValueError.
    """
    if distance not in DISTANCES:
        raise ValueError(f"the distance must be one of {', '.join(DISTANCES)}, not {distance!r}")
    given = _Ratings.of(ratings, clusters)

    def alpha(tables: Values) -> Values:
        margins = tables.sum(axis=2)
        n = margins.sum(axis=1)
        squared = _squared_distances(distance, given.values, margins)
        observed = (tables * squared).sum(axis=(1, 2))
        expected = (margins[:, :, None] * margins[:, None, :] * squared).sum(axis=(1, 2))
        found: Values = 1 - (n - 1) * _ratio(observed, expected)
        return found

    return _measured(given.coincidences, given, alpha, level, least=-1)


def cohens_kappa(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    weights: str = "none",
    level: float = 0.95,
) -> Agreement:
    """Cohen's kappa of two annotators, of shape (units,), NaN for missing judgements.

    kappa = 1 - sum w p / sum w e over the shares p of pairs of values and those e that are expected
    from both annotators' margins (Cohen 1960, 1968). w is 1 off the diagonal (`none`), the distance
    of the values (`linear`) or its square (`quadratic`). Raises ValueError.
    """
    if weights not in WEIGHTS:
        raise ValueError(f"weights must be one of {', '.join(WEIGHTS)}, not {weights!r}")
    given = _Ratings.of(np.stack([_vector(a), _vector(b)]), clusters)
    apart = np.abs(given.values[:, None] - given.values[None, :])
    weight = {"none": (apart > 0).astype(float), "linear": apart, "quadratic": apart**2}[weights]

    def kappa(tables: Values) -> Values:
        expected = tables.sum(axis=2)[:, :, None] * tables.sum(axis=1)[:, None, :]
        n = tables.sum(axis=(1, 2))
        by_chance = (expected * weight).sum(axis=(1, 2))
        found: Values = 1 - n * _ratio((tables * weight).sum(axis=(1, 2)), by_chance)
        return found

    return _measured(given.contingencies, given, kappa, level, least=-1)


@dataclass(frozen=True)
class _Ratings:
    """Units judged by two annotators or more.

    `codes`, shape (annotators, units): indices into `values`, the distinct ones ascending, -1 for
    missing ones. `cluster`, shape (units,): each unit's cluster, of `clusters`.
    """

    codes: npt.NDArray[np.int64]
    values: Values
    cluster: npt.NDArray[np.int64]
    clusters: int

    @classmethod
    def of(cls, ratings: npt.ArrayLike, clusters: npt.ArrayLike | None) -> _Ratings:
        matrix = np.asarray(ratings, np.float64)
        if matrix.ndim != 2:
            raise ValueError(f"ratings must be (annotators, units), not of shape {matrix.shape}")
        if np.isinf(matrix).any():
            raise ValueError("ratings must be finite, or NaN if missing")
        labels = np.arange(matrix.shape[1]) if clusters is None else np.asarray(clusters)
        if labels.shape != matrix.shape[1:]:
            raise ValueError(f"{matrix.shape[1]} units, but clusters of shape {labels.shape}")
        twice = (~np.isnan(matrix)).sum(axis=0) >= 2
        matrix, labels = matrix[:, twice], labels[twice]
        cluster, n = cluster_codes(labels, len(labels))
        values = np.unique(matrix[~np.isnan(matrix)])
        if len(values) == 1:  # another value was possible
            values = np.append(values, values + 1)
        codes = np.where(np.isnan(matrix), -1, np.searchsorted(values, matrix))
        return cls(codes, values, cluster, n)

    @property
    def coincidences(self) -> Values:
        """Pairs of values within units, shape (clusters, values, values).

        Both orders of each pair are counted, 1 / (m - 1) each in a unit of m judgements.
        """
        given = self.codes[:, :, None] == np.arange(len(self.values))
        counts = given.sum(axis=0)
        same = np.eye(len(self.values), dtype=np.int64)
        pairs = counts[:, :, None] * counts[:, None, :] - counts[:, :, None] * same
        weight = 1 / (counts.sum(axis=1) - 1)
        return self._by_cluster(pairs * weight[:, None, None])

    @property
    def contingencies(self) -> Values:
        """Twice the counts of pairs of values of two annotators, by cluster."""
        units, v = self.codes.shape[1], len(self.values)
        pairs = np.zeros((units, v, v))
        pairs[np.arange(units), self.codes[0], self.codes[1]] = 2
        return self._by_cluster(pairs)

    def _by_cluster(self, tables: Values) -> Values:
        out = np.zeros((self.clusters, *tables.shape[1:]))
        np.add.at(out, self.cluster, tables)
        return out


def _measured(
    tables: Values, given: _Ratings, statistic: Statistic, level: float, *, least: int
) -> Agreement:
    """The statistic of the sum of all tables, from `least` to 1, with its interval."""
    if not 0 < level < 1:
        raise ValueError(f"bad level {level}")
    units, n = given.codes.shape[1], len(tables)
    value = float(statistic(tables.sum(axis=0)[None])[0]) if n else math.nan
    low, high, note = math.nan, math.nan, ""
    if not units:
        note = "nothing was judged by two annotators"
    elif math.isnan(value):
        note = "all values are equal, so agreement by chance is complete: not measurable"
    elif n < 2:
        note = f"a single {'cluster' if units > 1 else 'unit'} shows no spread: no interval"
    else:
        sizes = tables.sum(axis=(1, 2))
        effective = float(sizes.sum() ** 2 / (sizes**2).sum())
        middle, reach = _jackknife(tables, statistic, t_quantile((1 + level) / 2, effective - 1))
        low, high = min(max(middle - reach, least), value), max(min(middle + reach, 1.0), value)
        note = few_clusters(n, effective, clustered=True) if n < units else ""
    return Agreement(value, low, high, units, n, note)


def _jackknife(tables: Values, statistic: Statistic, t: float) -> tuple[float, float]:
    """The middle and half-width of an interval, with four judgements added."""
    v = tables.shape[1]
    agree, differ = 2 * np.eye(v) / v, 2 * (1 - np.eye(v)) / (v * (v - 1))
    tables = np.concatenate([tables, np.stack([agree, agree, differ, differ])])
    total, n = tables.sum(axis=0), len(tables)
    without = statistic(total - tables)
    error = math.sqrt((n - 1) / n * float(((without - without.mean()) ** 2).sum()))
    return float(statistic(total[None])[0]), t * error


def _squared_distances(distance: str, values: Values, margins: Values) -> Values:
    """Squared distances of values, shape (tables or 1, values, values)."""
    if distance == "ordinal":
        upto = np.cumsum(margins, axis=1) - margins / 2  # up to the middle of each value
        squared: Values = (upto[:, :, None] - upto[:, None, :]) ** 2
        return squared
    apart = values[:, None] - values[None, :]
    return (apart**2 if distance == "interval" else (apart != 0).astype(float))[None]


def _vector(values: npt.ArrayLike) -> Values:
    vector = np.asarray(values, np.float64)
    if vector.ndim != 1:
        raise ValueError(f"an annotator's values must be (units,), not of shape {vector.shape}")
    return vector


def _ratio(part: Values, whole: Values) -> Values:
    """part / whole, NaN if whole is 0."""
    out = np.full(np.shape(whole), np.nan)
    np.divide(part, whole, out=out, where=whole > 0)
    return out
