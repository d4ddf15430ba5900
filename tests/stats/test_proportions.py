"""Counts against a known chance: by enumeration, and by what the check of a split finds."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from harness.stats.proportions import MISMATCH_LEVEL, binomial_p, sample_ratio


@pytest.mark.parametrize(
    ("successes", "n", "chance"),
    [
        (0, 1, Fraction(1, 2)),
        (3, 10, Fraction(1, 2)),
        (7, 20, Fraction(1, 10)),
        (16, 20, Fraction(9, 10)),
        (510, 1000, Fraction(1, 2)),
        (150, 1000, Fraction(1, 10)),
    ],
)
def test_the_binomial_test_is_the_sum_over_outcomes_no_more_likely(
    successes: int, n: int, chance: Fraction
) -> None:
    likely = [math.comb(n, k) * chance**k * (1 - chance) ** (n - k) for k in range(n + 1)]
    expected = sum(p for p in likely if p <= likely[successes])
    assert binomial_p(successes, n, float(chance)) == pytest.approx(float(expected), rel=1e-10)


def test_the_binomial_test_where_it_is_published_and_with_many_tries() -> None:
    # R's example of binom.test, from Conover (1971): Mendel's theory of a plant's height.
    assert round(binomial_p(682, 925, 0.75), 4) == 0.3825
    # Both tails summed with 40 digits, by mpmath 1.4.
    assert binomial_p(50_400, 99_999) == pytest.approx(0.011411254740510495, rel=1e-9)


def test_numbers_that_cannot_be_are_refused() -> None:
    assert binomial_p(0, 0) == 1
    for call in (lambda: binomial_p(4, 3), lambda: sample_ratio([True, False], 1.0)):
        with pytest.raises(ValueError):
            call()


@pytest.mark.parametrize("tests", [150, pytest.param(1_500, marks=pytest.mark.slow)])
def test_false_alarms_are_rare_even_when_looked_at_all_the_time(tests: int) -> None:
    generator = np.random.default_rng(1)
    for split in (0.5, 0.1):
        found = [sample_ratio(generator.random(3_000) < split, split) for _ in range(tests)]
        # 0.1% claimed; 0.8% of 1,500 is seven times the Monte Carlo error above it.
        assert np.mean([ratio.p < MISMATCH_LEVEL for ratio in found]) < 0.008
        assert np.mean([ratio.anytime_p < MISMATCH_LEVEL for ratio in found]) < 0.008
        assert np.mean([ratio.anytime_p < 0.05 for ratio in found]) < 0.05


def test_a_router_that_loses_a_tenth_of_an_arm_is_found() -> None:
    generator = np.random.default_rng(2)
    found = [sample_ratio(generator.random(20_000) < 0.5 / 0.95) for _ in range(60)]
    assert np.mean([ratio.mismatch for ratio in found]) > 0.95
    assert sample_ratio([]).p == sample_ratio([]).anytime_p == 1
    assert not sample_ratio([True] * 5).mismatch
