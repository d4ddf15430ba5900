"""Sizes of unpaired tests: against statsmodels, and by what tests really find."""

from __future__ import annotations

import math

import numpy as np
import pytest

from harness.statistics.sequential import difference_sequence
from harness.statistics.unpaired import compare_unpaired
from harness.statistics.unpaired_power import UnpairedPower


@pytest.mark.parametrize(("split", "wanted"), [(0.5, 0.1), (0.2, 0.05), (0.5, -0.3)])
def test_the_number_needed_is_statsmodels(split: float, wanted: float) -> None:
    from statsmodels.stats.power import TTestIndPower

    power = UnpairedPower(0.4, 0.4, split)
    in_a = TTestIndPower().solve_power(
        effect_size=abs(wanted) / 0.4, alpha=0.05, power=0.8, ratio=(1 - split) / split
    )
    needed = power.units_needed(wanted)
    assert needed == pytest.approx(in_a / split, rel=0.01)
    assert power.detectable(needed) <= abs(wanted) < power.detectable(needed - 1)


def test_that_many_units_find_it_four_times_of_five() -> None:
    generator = np.random.default_rng(1)
    power = UnpairedPower(0.5, 0.2, 0.3)
    needed = power.units_needed(0.1)
    in_a = np.arange(needed) < 0.3 * needed
    values = np.where(in_a[:, None], generator.normal(0.1, 0.5, (needed, 2000)), 0)
    values = np.where(in_a[:, None], values, generator.normal(0, 0.2, (needed, 2000)))
    tests = compare_unpaired(values[in_a], values[~in_a], resamples=0)
    assert np.mean([test.p <= 0.05 for test in tests]) == pytest.approx(0.8, abs=0.04)


def test_at_any_time_it_takes_more_and_then_finds_it_at_least_as_often() -> None:
    generator = np.random.default_rng(2)
    power = UnpairedPower(0.5, 0.5)
    once, needed = power.units_needed(0.1), power.units_needed(0.1, any_time=True)
    assert 1.5 * once < needed < 2.5 * once
    in_a = generator.random((1000, needed)) < 0.5
    values = generator.normal(0, 0.5, (1000, needed)) + 0.1 * in_a
    found = (difference_sequence(values, in_a).p[:, -1] <= 0.05).mean()
    assert 0.78 < found < 0.92


def test_what_cannot_be_known() -> None:
    assert UnpairedPower(math.nan, 1).units_needed(0.1) is None
    assert UnpairedPower(0, 0).units_needed(0.1) is None
    assert math.isnan(UnpairedPower(math.nan, 1).detectable(100))
    assert math.isinf(UnpairedPower(1, 1).detectable(150, any_time=True))
    with pytest.raises(ValueError, match="not be 0"):
        UnpairedPower(1, 1).units_needed(0)
