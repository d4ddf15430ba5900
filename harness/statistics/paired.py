"""Two systems on the same observations: difference, interval, randomisation test, effect size."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.statistics.intervals import Interval, unit_intervals
from harness.statistics.power import PairedPower, power_of
from harness.statistics.resampling import Randomisation, sign_flip_test
from harness.statistics.units import Values, as_columns, units_of

# Two values that were computed in another order are equal, not a win.
_EQUAL = 1e-12


@dataclass(frozen=True)
class PairedComparison:
    """`a` minus `b` in one metric, over the observations that both have.

    `difference` is their mean difference with its interval, `test` the randomisation test of it.
    `effect_size` is Cohen's d_z: mean difference over the standard deviation of differences, NaN
    where that is 0; with clusters the same number, over observations: it describes how large a
    difference is beside their spread, and no inference rests on it. `won`, `lost` and `tied` count
    observations; `unpaired` those that one of the two lacks, which are left out.
    """

    mean_a: float
    mean_b: float
    difference: Interval
    test: Randomisation
    effect_size: float
    power: PairedPower
    won: int
    lost: int
    tied: int
    unpaired: int


def compare_paired(
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    clusters: npt.ArrayLike | None = None,
    *,
    level: float = 0.95,
    power: float = 0.8,
    resamples: int = 10_000,
    seed: int = 0,
    bounds: tuple[float, float] | None = None,
) -> list[PairedComparison]:
    """Compare two matrices (observations, metrics) row by row, one record a metric.

    `bounds` are the least and greatest value that a difference can have. Swapping `a` and `b`
    changes signs and nothing else. Raises ValueError for other shapes.
    """
    first, second, differences = _paired(a, b)
    units = units_of(differences, clusters)
    intervals = unit_intervals(units, level=level, resamples=resamples, seed=seed, bounds=bounds)
    tests = sign_flip_test(units, resamples, seed)
    powers = power_of(differences, clusters, level=level, power=power)
    both = ~np.isnan(differences)
    one = np.isnan(first) != np.isnan(second)
    outcome = _outcomes(differences)
    return [
        PairedComparison(
            mean_a=_mean(first[both[:, at], at]),
            mean_b=_mean(second[both[:, at], at]),
            difference=intervals[at],
            test=tests[at],
            effect_size=_effect_size(differences[both[:, at], at]),
            power=powers[at],
            won=int((outcome[:, at] > 0).sum()),
            lost=int((outcome[:, at] < 0).sum()),
            tied=int((outcome[:, at] == 0).sum()),
            unpaired=int(one[:, at].sum()),
        )
        for at in range(differences.shape[1])
    ]


def outcomes(a: npt.ArrayLike, b: npt.ArrayLike) -> Values:
    """1 where `a` wins, 0 where they tie, -1 where it loses, NaN where one has no value."""
    return _outcomes(_paired(a, b)[2])


def _outcomes(differences: Values) -> Values:
    return np.where(np.abs(differences) <= _EQUAL, 0.0, np.sign(differences))


def _paired(a: npt.ArrayLike, b: npt.ArrayLike) -> tuple[Values, Values, Values]:
    first, second = as_columns(a), as_columns(b)
    if first.shape != second.shape:
        raise ValueError(f"pairs need the same shape, not {first.shape} and {second.shape}")
    differences = first - second
    return first, second, np.where(np.abs(differences) <= _EQUAL, 0.0, differences)


def _mean(values: Values) -> float:
    return float(values.mean()) if len(values) else math.nan


def _effect_size(differences: Values) -> float:
    if len(differences) < 2 or np.ptp(differences) <= _EQUAL:
        return math.nan
    return float(differences.mean() / differences.std(ddof=1))
