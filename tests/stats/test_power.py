"""Power: against statsmodels, and by what tests really find."""

from __future__ import annotations

import math

import numpy as np
import pytest

from harness.stats.betting import balanced, betting_p
from harness.stats.intervals import mean_intervals
from harness.stats.paired import paired_t
from harness.stats.power import (
    UnpairedPower,
    clusters_for_half_width,
    power_of,
)
from harness.stats.unpaired import compare_unpaired


@pytest.mark.parametrize("n", [6, 10, 80, 1982])
def test_the_detectable_difference_in_pairs_is_statsmodels(n: int) -> None:
    from statsmodels.stats.power import TTestPower

    differences = np.random.default_rng(n).normal(0, 0.3, n)
    [found] = power_of(differences)
    effect = TTestPower().solve_power(nobs=n, alpha=0.05, power=0.8)
    assert found.deviation == pytest.approx(differences.std(ddof=1))
    assert found.design_effect == pytest.approx(1)
    assert found.detectable == pytest.approx(effect * found.deviation, rel=0.01)


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


@pytest.mark.parametrize(
    ("differences", "clusters"),
    [([np.nan], None), ([0.3], None), ([0.1] * 9, None), ([0.1, 0.7], ["a", "a"])],
)
def test_where_no_spread_is_known_nothing_is_claimed(
    differences: list[float], clusters: list[str] | None
) -> None:
    assert math.isnan(power_of(differences, clusters)[0].detectable)


@pytest.mark.parametrize(("split", "wanted"), [(0.5, 0.1), (0.2, 0.05), (0.5, -0.3)])
def test_the_number_of_two_groups_needed_is_statsmodels(split: float, wanted: float) -> None:
    from statsmodels.stats.power import TTestIndPower

    power = UnpairedPower(0.4, 0.4, split)
    in_a = TTestIndPower().solve_power(
        effect_size=abs(wanted) / 0.4, alpha=0.05, power=0.8, ratio=(1 - split) / split
    )
    needed = power.units_needed(wanted)
    assert needed == pytest.approx(in_a / split, rel=0.01)
    assert power.detectable(needed) <= abs(wanted) < power.detectable(needed - 1)


def test_that_many_units_of_two_groups_find_it_four_times_of_five() -> None:
    generator = np.random.default_rng(1)
    power = UnpairedPower(0.5, 0.2, 0.3)
    needed = power.units_needed(0.1)
    in_a = np.arange(needed) < 0.3 * needed
    values = np.where(in_a[:, None], generator.normal(0.1, 0.5, (needed, 2000)), 0)
    values = np.where(in_a[:, None], values, generator.normal(0, 0.2, (needed, 2000)))
    tests = compare_unpaired(values[in_a], values[~in_a])
    assert np.mean([test.p <= 0.05 for test in tests]) == pytest.approx(0.8, abs=0.04)


def test_at_any_time_it_takes_more_and_then_finds_it_at_least_as_often() -> None:
    generator = np.random.default_rng(2)
    power = UnpairedPower(0.5, 0.5, span=1)
    once, needed = power.units_needed(0.1), power.units_needed(0.1, any_time=True)
    assert 1.5 * once < needed < 3 * once
    in_a = generator.random((400, needed)) < 0.5
    values = generator.random((400, needed)) < 0.45 + 0.1 * in_a
    stream, reach = balanced(values, in_a)
    found = (betting_p(stream, 0, reach)[:, -1] <= 0.05).mean()
    assert 0.75 < found < 0.9


def test_what_cannot_be_known_of_two_groups() -> None:
    assert UnpairedPower(math.nan, 1).units_needed(0.1) is None
    assert UnpairedPower(0, 0).units_needed(0.1) is None
    assert math.isnan(UnpairedPower(math.nan, 1).detectable(100))
    assert math.isinf(UnpairedPower(1, 1, span=1).detectable(20, any_time=True))
    assert math.isnan(UnpairedPower(1, 1).detectable(150, any_time=True))
    assert UnpairedPower(1, 1).units_needed(0.1, any_time=True) is None
    with pytest.raises(ValueError, match="not be 0"):
        UnpairedPower(1, 1).units_needed(0)


def test_so_many_units_give_the_wanted_half_width() -> None:
    """Drawn with exactly that spread, the t interval is as narrow as wanted, one unit less is not.

    The normal formula (1.96 s / d)^2 = 61.5 is what a table of sample sizes has for s 0.2, d 0.05.
    """
    wanted = clusters_for_half_width(0.2 / math.sqrt(20), 20, 0.05)
    assert wanted == 64  # 61.5 and some for t
    for n, narrow in ((wanted, True), (wanted - 1, False)):
        values = np.random.default_rng(n).normal(size=n)
        values = 0.5 + 0.2 * (values - values.mean()) / values.std(ddof=1)
        (interval,) = mean_intervals(values)
        assert ((interval.high - interval.low) / 2 <= 0.05) is narrow
    assert clusters_for_half_width(0.0, 20, 0.05) is None
    assert clusters_for_half_width(math.nan, 1, 0.05) is None
    with pytest.raises(ValueError):
        clusters_for_half_width(0.1, 20, 0)


def test_a_difference_that_no_number_of_units_shows_is_an_error_and_no_search_without_end() -> None:
    for ask in (
        lambda: UnpairedPower(1, 1).units_needed(1e-300),
        lambda: UnpairedPower(1, 1, span=2).units_needed(1e-300, any_time=True),
        lambda: clusters_for_half_width(0.1, 40, 1e-300),
    ):
        with pytest.raises(ValueError, match="units would be needed"):
            ask()
