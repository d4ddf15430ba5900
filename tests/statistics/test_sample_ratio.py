"""Counts against a known chance: against SciPy, and by what the check finds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from harness.statistics.binomial import binomial_p
from harness.statistics.sample_ratio import ALARM, sample_ratio


@pytest.mark.parametrize(
    ("successes", "n", "chance"),
    [
        (0, 1, 0.5),
        (3, 10, 0.5),
        (7, 20, 0.1),
        (510, 1000, 0.5),
        (150, 1000, 0.1),
        (50_400, 99_999, 0.5),
    ],
)
def test_the_binomial_test_is_scipys(successes: int, n: int, chance: float) -> None:
    expected = stats.binomtest(successes, n, chance).pvalue
    assert binomial_p(successes, n, chance) == pytest.approx(expected, rel=1e-6)


def test_large_counts_get_the_chi_square_test() -> None:
    expected = stats.chisquare([100_700, 99_300]).pvalue
    assert binomial_p(100_700, 200_000) == pytest.approx(expected)
    assert binomial_p(0, 0) == 1
    with pytest.raises(ValueError, match="4 successes of 3"):
        binomial_p(4, 3)


def test_false_alarms_are_rare_even_when_looked_at_all_the_time() -> None:
    generator = np.random.default_rng(1)
    for split in (0.5, 0.1):
        found = [sample_ratio(generator.random(3_000) < split, split) for _ in range(1_500)]
        # 0.1% claimed; 0.8% of 1,500 is seven times the Monte Carlo error above it.
        assert np.mean([ratio.p < ALARM for ratio in found]) < 0.008
        assert np.mean([ratio.always_p < ALARM for ratio in found]) < 0.008
        assert np.mean([ratio.always_p < 0.05 for ratio in found]) < 0.05


def test_a_router_that_loses_a_tenth_of_an_arm_is_found() -> None:
    generator = np.random.default_rng(2)
    found = [sample_ratio(generator.random(10_000) < 0.5 / 0.95) for _ in range(200)]
    assert np.mean([ratio.alarm for ratio in found]) > 0.95
    assert sample_ratio([]).p == sample_ratio([]).always_p == 1
    assert not sample_ratio([True] * 5).alarm
