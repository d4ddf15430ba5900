"""Agreement of annotators: per cent, Cohen's kappa, Krippendorff's alpha, each with an interval.

Which one to look at, for grades from 0 to 3: alpha with ordinal distances, which takes any number
of annotators and gaps; of two annotators quadratic-weighted kappa says nearly the same. Unweighted
kappa and nominal alpha count a 2 against a 3 as wrong as a 0 against a 3. Per cent agreement is not
corrected for chance: where most documents are not relevant it is high whatever annotators do.

Intervals are percentile bootstraps in which whole clusters are resampled, as judgements of one
query are not independent; without clusters every unit is its own. Kappa has its large-sample
interval there. Simulated, with queries of 8 documents that differ in how much is relevant and how
clear it is (1,000 samples each, Monte Carlo error 1 point): a 95% interval of ordinal alpha or
quadratic kappa holds the true value in 77% over 5 queries, 89% over 10, 92% over 20, 94% over 40
and over 80. So below 40 clusters the note says how few there are.

Where nothing could have disagreed (everybody gave everything the same grade) chance-corrected
agreement is 0 / 0: not measurable, NaN here, neither 1 nor 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from harness.stats.clusters import Values, cluster_codes
from harness.stats.intervals import FEW_CLUSTERS

DISTANCES = ("nominal", "ordinal", "interval")
WEIGHTS = ("none", "linear", "quadratic")

_LOST = 0.05  # share of resamples that may be not measurable
_BLOCK = 1 << 18  # counts that are drawn at once
_ALIKE = "no two disagree: the interval cannot show how sure that is"

Statistic = Callable[[Values], Values]
"""From tables of shape (tables, values, values) to one number each, NaN where not measurable."""


@dataclass(frozen=True)
class Agreement:
    """A measure of agreement. `value`, `low` and `high` are NaN where not measurable.

    `units`: things that two annotators or more judged, `ratings`: how many judgements of them,
    `clusters`: independent groups of them (the units where none were given). `method` is
    `bootstrap`, `large-sample` or `none`; `note` says why an interval is approximate or missing, or
    a value not measurable.
    """

    value: float
    low: float
    high: float
    level: float
    units: int
    ratings: int
    clusters: int
    method: str
    note: str

    @property
    def measurable(self) -> bool:
        """Whether there is a value."""
        return not math.isnan(self.value)


def percent_agreement(
    ratings: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Agreement:
    """Chance that two annotators of the same thing, picked at random, gave it the same value.

    `ratings` has shape (annotators, units), NaN where one did not judge; `clusters` a label a unit.
    Of two annotators it is the share of units on which they agree. Raises ValueError.
    """
    given = _Ratings.of(ratings, clusters)

    def share(tables: Values) -> Values:
        total = tables.sum(axis=(1, 2))
        return _ratio(np.trace(tables, axis1=1, axis2=2), total)

    return _measured(given.coincidences, given, share, level, resamples, seed)


def krippendorff_alpha(
    ratings: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    distance: str = "ordinal",
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Agreement:
    """Krippendorff's alpha of any number of annotators, gaps allowed; shapes as above.

    alpha = 1 - D_o / D_e = 1 - (n - 1) sum o_ck d_ck^2 / sum n_c n_k d_ck^2 over the coincidences
    o_ck of pairs of values in units that were judged twice or more (Krippendorff 2011, Computing
    Krippendorff's Alpha-Reliability). d is 0 or 1 (`nominal`), the difference (`interval`), or the
    number of values that lie between, half of both ends counted (`ordinal`). Raises ValueError.
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

    return _measured(given.coincidences, given, alpha, level, resamples, seed)


def cohens_kappa(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    weights: str = "none",
    level: float = 0.95,
    resamples: int = 10_000,
    seed: int = 0,
) -> Agreement:
    """Cohen's kappa of two annotators, of shape (units,), NaN where one did not judge.

    kappa = 1 - sum w p / sum w e over the shares p of pairs of values and those e that are expected
    from both annotators' margins (Cohen 1960, 1968). w is 1 off the diagonal (`none`), the distance
    of the values (`linear`) or its square (`quadratic`). Without clusters the interval is that of
    Fleiss, Cohen & Everitt (1969). Raises ValueError.
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

    measured = _measured(given.contingencies, given, kappa, level, resamples, seed)
    if clusters is not None or not measured.measurable:
        return measured
    error = _large_sample_error(given.contingencies.sum(axis=0), weight)
    reach = NormalDist().inv_cdf((1 + level) / 2) * error
    note = "" if measured.units >= FEW_CLUSTERS else f"only {measured.units} units"
    if not error > 0:
        note = _ALIKE
    return Agreement(
        measured.value,
        measured.value - reach,
        min(measured.value + reach, 1.0),
        level,
        measured.units,
        measured.ratings,
        measured.clusters,
        "large-sample",
        note,
    )


@dataclass(frozen=True)
class _Ratings:
    """What was judged by two annotators or more.

    `codes`, shape (annotators, units): indices into `values`, the distinct ones ascending, -1 where
    there is none. `cluster`, shape (units,): each unit's cluster, of `clusters`.
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
            raise ValueError("ratings must be finite, or NaN where there is none")
        labels = np.arange(matrix.shape[1]) if clusters is None else np.asarray(clusters)
        if labels.shape != matrix.shape[1:]:
            raise ValueError(f"{matrix.shape[1]} units, but clusters of shape {labels.shape}")
        twice = (~np.isnan(matrix)).sum(axis=0) >= 2
        matrix, labels = matrix[:, twice], labels[twice]
        cluster, n = cluster_codes(labels, len(labels))
        values = np.unique(matrix[~np.isnan(matrix)])
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
        """Of two annotators: how often one gave a value and the other that, by cluster."""
        units, v = self.codes.shape[1], len(self.values)
        pairs = np.zeros((units, v, v))
        pairs[np.arange(units), self.codes[0], self.codes[1]] = 1
        return self._by_cluster(pairs)

    def _by_cluster(self, tables: Values) -> Values:
        out = np.zeros((self.clusters, *tables.shape[1:]))
        np.add.at(out, self.cluster, tables)
        return out


def _measured(
    tables: Values, given: _Ratings, statistic: Statistic, level: float, resamples: int, seed: int
) -> Agreement:
    """The statistic of all tables together, with its interval from resampled clusters."""
    if not 0 < level < 1 or resamples < 1:
        raise ValueError(f"bad level {level} or resamples {resamples}")
    units, n = given.codes.shape[1], len(tables)
    value = float(statistic(tables.sum(axis=0)[None])[0]) if n else math.nan
    low, high, method, note = math.nan, math.nan, "none", ""
    if not units:
        note = "nothing was judged by two annotators"
    elif math.isnan(value):
        note = "everything has the same value, so chance would agree as well: not measurable"
    elif n < 2:
        note = "a single cluster shows no spread: no interval"
    else:
        sampled = _resampled(tables, statistic, resamples, seed)
        lost = float(np.isnan(sampled).mean())
        if lost > _LOST:
            note = f"{lost:.0%} of the resamples are not measurable: too few disagreements"
        else:
            low, high = np.nanquantile(sampled, [(1 - level) / 2, (1 + level) / 2]).tolist()
            method, note = "bootstrap", "" if n >= FEW_CLUSTERS else f"only {n} clusters"
            if low == high == value:
                note = _ALIKE
    ratings = int((given.codes >= 0).sum())
    return Agreement(value, low, high, level, units, ratings, n, method, note)


def _resampled(tables: Values, statistic: Statistic, resamples: int, seed: int) -> Values:
    generator = np.random.default_rng(seed)
    n, flat = len(tables), tables.reshape(len(tables), -1)
    out = np.empty(resamples)
    rows = max(1, _BLOCK // n)
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        drawn = generator.integers(0, n, (size, n)) + n * np.arange(size)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n)
        out[start : start + size] = statistic((counts @ flat).reshape(size, *tables.shape[1:]))
    return out


def _squared_distances(distance: str, values: Values, margins: Values) -> Values:
    """Squared distances of values, shape (tables or 1, values, values)."""
    if distance == "ordinal":
        upto = np.cumsum(margins, axis=1) - margins / 2  # up to the middle of each value
        squared: Values = (upto[:, :, None] - upto[:, None, :]) ** 2
        return squared
    apart = values[:, None] - values[None, :]
    return (apart**2 if distance == "interval" else (apart != 0).astype(float))[None]


def _large_sample_error(table: Values, weight: Values) -> float:
    """Standard error of (weighted) kappa (Fleiss, Cohen & Everitt 1969, equation 13)."""
    n = table.sum()
    agree = 1 - weight / weight.max()
    p = table / n
    rows, columns = p.sum(axis=1), p.sum(axis=0)
    by_chance = float((agree * np.outer(rows, columns)).sum())
    kappa = (float((agree * p).sum()) - by_chance) / (1 - by_chance)
    margins = (agree @ columns)[:, None] + (rows @ agree)[None, :]
    spread = float((p * (agree - margins * (1 - kappa)) ** 2).sum())
    variance = (spread - (kappa - by_chance * (1 - kappa)) ** 2) / (n * (1 - by_chance) ** 2)
    return math.sqrt(max(float(variance), 0.0))


def _vector(values: npt.ArrayLike) -> Values:
    vector = np.asarray(values, np.float64)
    if vector.ndim != 1:
        raise ValueError(f"an annotator's values must be (units,), not of shape {vector.shape}")
    return vector


def _ratio(part: Values, whole: Values) -> Values:
    """part / whole, NaN where whole is 0."""
    out = np.full(np.shape(whole), np.nan)
    np.divide(part, whole, out=out, where=whole > 0)
    return out
