"""Power: against statsmodels, and by what tests really find."""

from __future__ import annotations

import math

import numpy as np
import pytest

from harness.statistics.paired_tests import paired_t
from harness.statistics.power import paired_power, power_of


@pytest.mark.parametrize("n", [6, 10, 80, 1982])
def test_the_detectable_difference_is_statsmodels(n: int) -> None:
    from statsmodels.stats.power import TTestPower

    differences = np.random.default_rng(n).normal(0, 0.3, n)
    [found] = power_of(differences)
    effect = TTestPower().solve_power(nobs=n, alpha=0.05, power=0.8)
    assert found.deviation == pytest.approx(differences.std(ddof=1))
    assert found.design_effect == pytest.approx(1)
    assert found.detectable == pytest.approx(effect * found.deviation, rel=0.01)


def test_the_number_needed_is_statsmodels() -> None:
    from statsmodels.stats.power import TTestPower

    [found] = power_of(np.random.default_rng(1).normal(0, 0.3, 50))
    for wanted in (0.02, -0.05, 0.3):
        effect = abs(wanted) / found.deviation
        expected = TTestPower().solve_power(effect_size=effect, alpha=0.05, power=0.8)
        assert found.observations_needed(wanted) == pytest.approx(expected, abs=1.01)
    assert found.observations_needed(found.detectable * (1 + 1e-9)) == 50
    with pytest.raises(ValueError, match="not be 0"):
        found.units_needed(0)


def test_a_true_difference_of_that_size_is_found_four_times_of_five_in_clusters_too() -> None:
    generator = np.random.default_rng(2)
    labels = np.repeat(np.arange(10), [5, 9, 12, 20, 7, 15, 11, 8, 14, 10])
    spread = (0.2, 0.5)
    long = generator.normal(0, spread[0], (10, 4000))[labels]
    long = long + generator.normal(0, spread[1], (111, 4000))
    detectable = np.mean([p.detectable for p in power_of(long, labels)])
    shifted = long + detectable
    found = np.mean([t.p <= 0.05 for t in paired_t(shifted, np.zeros_like(shifted), labels)])
    assert found == pytest.approx(0.8, abs=0.04)  # Monte Carlo error 0.6 points


def test_clusters_raise_what_is_needed() -> None:
    generator = np.random.default_rng(3)
    labels = np.repeat(np.arange(20), 30)
    differences = generator.normal(0, 0.3, 20)[labels] + generator.normal(0, 0.3, 600)
    [alone], [together] = power_of(differences), power_of(differences, labels)
    assert together.design_effect == pytest.approx(
        (together.standard_error / alone.standard_error) ** 2
    )
    assert together.design_effect > 5
    assert together.detectable > 2 * alone.detectable
    needed = together.units_needed(together.detectable / 2)
    assert needed is not None
    assert 70 <= needed <= 82  # four times as many, less what more degrees of freedom give
    assert together.observations_needed(together.detectable / 2) == 30 * needed


@pytest.mark.parametrize(
    ("differences", "clusters"),
    [([np.nan], None), ([0.3], None), ([0.1] * 9, None), ([0.1, 0.7], ["a", "a"])],
)
def test_where_no_spread_is_known_nothing_is_claimed(
    differences: list[float], clusters: list[str] | None
) -> None:
    [found] = paired_power(differences, np.zeros(len(differences)), clusters)
    assert math.isnan(found.detectable)
    assert found.units_needed(0.1) is None
