"""What is claimed of p values, by simulated tests; larger tables are in tests/benchmarks."""

from __future__ import annotations

import math

import numpy as np
import pytest
import traffic

from harness.extensions.online.abtest.interleaving_report import _detectable
from harness.stats.betting import betting_p
from harness.stats.proportions import binomial_p

TESTS = pytest.mark.parametrize("tests", [100, pytest.param(400, marks=pytest.mark.slow)])


def error(tests: int) -> float:
    """Monte Carlo error of a share that is truly 5%."""
    return math.sqrt(0.05 * 0.95 / tests)


@TESTS
@pytest.mark.parametrize("metric", ["0 or 1, mean 0.5", "recall in thirds", "seconds"])
def test_looked_at_once_it_errs_in_five_of_a_hundred_and_peeking_in_far_more(
    metric: str, tests: int
) -> None:
    generator = np.random.default_rng(1)
    values, in_a = traffic.two_arms(generator, metric, tests, 2_000, 0.5, changed=False)
    below = traffic.fixed_p_below(values, in_a)
    assert below[:, -1].mean() == pytest.approx(0.05, abs=3.5 * error(tests))
    assert below[:, 100:].any(axis=1).mean() > 0.25


@TESTS
@pytest.mark.parametrize("split", [0.5, 0.1])
@pytest.mark.parametrize("metric", ["0 or 1, mean 0.01", "recall in thirds", "reciprocal ranks"])
def test_always_valid_p_looked_at_after_every_unit_errs_in_at_most_five(
    metric: str, split: float, tests: int
) -> None:
    generator = np.random.default_rng(2)
    values, in_a = traffic.two_arms(generator, metric, tests, 2_000, split, changed=False)
    assert traffic.shown(traffic.always_p(values, in_a, split))[0] <= 0.05


@pytest.mark.parametrize("shape", traffic.SHAPES)
def test_rare_timeouts_of_one_arm_are_no_difference_of_equal_means(shape: str) -> None:
    generator = np.random.default_rng(7)
    values, in_a = traffic.timeouts(generator, shape, 100, 2_000)
    assert values[in_a].mean() == pytest.approx(values[~in_a].mean(), rel=0.02)
    top = traffic.SHAPES[shape][1]
    assert traffic.shown(traffic.always_p(values, in_a, top=top))[0] <= 0.05
    assert traffic.shown(traffic.mixture_p(values, in_a))[0] > 0.2  # what takes means for normal


def test_always_valid_p_finds_what_is_there_and_stops_early() -> None:
    generator = np.random.default_rng(3)
    values, in_a = traffic.two_arms(generator, "recall in thirds", 200, 2_000, 0.5, changed=True)
    found, when = traffic.shown(traffic.always_p(values, in_a))
    assert found > 0.95  # of a difference of 0.09
    assert when < 1_000


@pytest.mark.parametrize("tests", [50, pytest.param(200, marks=pytest.mark.slow)])
@pytest.mark.parametrize("pattern", traffic.ARRIVALS)
def test_users_who_come_back_are_counted_once(pattern: str, tests: int) -> None:
    generator = np.random.default_rng(4)
    rows = [traffic.user_test(generator, pattern, "recall", 3_000) for _ in range(tests)]
    naive, _, once, p = np.array(rows).T
    assert naive.mean() > 0.2  # records taken as independent
    assert once.mean() == pytest.approx(0.05, abs=3.5 * error(tests))
    assert (p <= 0.05).mean() <= 0.05


def test_interleaving_needs_a_tenth_of_the_impressions() -> None:
    seen = traffic.impressions(np.random.default_rng(5), 6_000, 0.3)
    split = traffic.units_for_power(
        seen.first_a.mean() - seen.first_b.mean(),
        math.sqrt(2 * (seen.first_a.var() + seen.first_b.var())),
    )
    assert seen.outcome.mean() > 0  # a is the better one
    assert split > 10 * traffic.units_for_power(seen.outcome.mean(), seen.outcome.std())


def test_a_detectable_preference_is_shown_at_any_time_four_times_of_five() -> None:
    generator = np.random.default_rng(7)
    chances = generator.choice([-0.5, 0, 0.5], (200, 600), p=[0.2, 0.6, 0.2])
    wanted = float(np.mean([_detectable(own, 0.95) for own in chances]))
    up = 0.2 + wanted
    shifted = generator.choice([-0.5, 0, 0.5], (200, 600), p=[0.4 - up, 0.6, up])
    assert shifted.mean() == pytest.approx(wanted, abs=0.01)
    power = (betting_p(shifted, 0, (-0.5, 0.5))[:, -1] <= 0.05).mean()
    assert power == pytest.approx(0.8, abs=0.1)


@TESTS
@pytest.mark.parametrize("returning", [False, True])
def test_readers_with_opposite_tastes_are_no_preference(returning: bool, tests: int) -> None:
    generator = np.random.default_rng(6)
    once, always = [], []
    for _ in range(tests):
        readers = 300 if returning else 1_500
        reader = generator.integers(0, readers, 1_500) if returning else np.arange(1_500)
        taste = generator.choice([-0.3, 0.3], readers)[reader]
        outcome = np.sign(generator.random(1_500) - 0.5 + taste)
        outcome *= generator.random(1_500) < 0.4  # else a tie
        net = np.bincount(reader, outcome, readers)
        won, lost = int((net > 0).sum()), int((net < 0).sum())
        once.append(binomial_p(won, won + lost) <= 0.05)
        own = net / np.maximum(np.bincount(reader, minlength=readers), 1)
        always.append(betting_p(own, 0, (-1, 1)).min() <= 0.05)
    # The sign test is exact, and below 5% as counts are whole.
    assert np.mean(once) <= 0.05 + 3.5 * error(tests)
    assert np.mean(always) <= 0.05
