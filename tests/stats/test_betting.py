"""Always-valid p values: by enumeration of all that can happen, and by simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from harness.stats.betting import SHARES, balanced, betting_interval, betting_p, shown_from


@pytest.mark.parametrize(("values", "null"), [((0, 1), 0.3), ((0, 0.5, 1), 0.45)])
def test_betting_is_exact_by_enumeration_of_all_that_can_happen(
    values: tuple[float, ...], null: float
) -> None:
    n = 14 if len(values) == 2 else 9
    chances = {0.3: (0.7, 0.3), 0.45: (0.35, 0.4, 0.25)}[null]
    assert np.dot(values, chances) == pytest.approx(null)
    every = np.array(list(itertools.product(range(len(values)), repeat=n)))
    weight = np.array(chances)[every].prod(axis=1)
    assert weight.sum() == pytest.approx(1)
    p = np.minimum.accumulate(betting_p(np.array(values)[every], null), axis=1)
    for alpha in (0.01, 0.05, 0.2, 0.5):
        assert weight[p[:, -1] <= alpha].sum() <= alpha
    assert weight[p[:, -1] <= 0.5].sum() > 0.01  # and it does find something


@pytest.mark.parametrize("kinds", [3, 203])
def test_the_interval_holds_the_means_against_which_the_capital_is_small(kinds: int) -> None:
    generator = np.random.default_rng(2)
    values = generator.choice([0, 1 / 3, 1], 203) if kinds == 3 else generator.random(203)
    low, high = betting_interval(values)
    assert low < values.mean() < high
    for end in (low, high):
        capital = [
            np.prod(1 + SHARES[:, None] * (x / m - 1), axis=1).mean()
            for x, m in ((values, end), (1 - values, 1 - end))
        ]
        assert max(capital) == pytest.approx(2 / 0.05, rel=0.001)
    assert betting_interval(values * 6 - 4, (-4, 2)) == pytest.approx((low * 6 - 4, high * 6 - 4))
    assert betting_interval([]) == (0, 1)


def test_balanced_arms_are_one_stream_with_the_difference_as_its_mean() -> None:
    generator = np.random.default_rng(4)
    for split in (0.5, 0.2):
        in_a = generator.random(400_000) < split
        values = np.where(in_a, generator.random(400_000) < 0.4, generator.random(400_000) < 0.3)
        stream, (low, high) = balanced(values, in_a, split)
        assert ((stream >= low) & (stream <= high)).all()
        assert stream.mean() == pytest.approx(0.1, abs=4 * stream.std() / math.sqrt(400_000))
        # As precise as the difference of the two means.
        a, b = values[in_a], values[~in_a]
        welch = math.sqrt(a.var() / len(a) + b.var() / len(b))
        assert stream.std() / math.sqrt(400_000) == pytest.approx(welch, rel=0.02)


def test_p_and_interval_of_a_moment_say_the_same() -> None:
    values = np.random.default_rng(3).beta(0.3, 1, 150)
    for level in (0.8, 0.95, 0.99):
        low, high = betting_interval(values, level=level)
        for null in (low, high):
            assert betting_p(values, null)[-1] == pytest.approx(1 - level, rel=0.01)


def test_one_skewed_stream_errs_in_at_most_five_of_a_hundred() -> None:
    generator = np.random.default_rng(5)
    values = (generator.random((500, 1500)) < 0.02).astype(float)
    assert (betting_p(values, 0.02).min(axis=1) <= 0.05).mean() <= 0.05
    found = (betting_p((generator.random((300, 1500)) < 0.05), 0.02).min(axis=1) <= 0.05).mean()
    assert found > 0.95


@pytest.mark.parametrize(("units", "deviation"), [(300, 0.5), (2_000, 0.1), (10_000, 0.02)])
def test_a_mean_that_is_shown_is_where_it_was_planned(units: int, deviation: float) -> None:
    values = np.where(np.arange(units) % 2, deviation, -deviation)
    least = shown_from(units, deviation)
    assert betting_p(values + 0.98 * least, 0, (-1.1, 1.1))[-1] > 0.04
    assert betting_p(values + 1.1 * least, 0, (-1, 1))[-1] <= 0.05
    assert math.isinf(shown_from(3, 0.1))


def test_wrong_values_are_refused() -> None:
    with pytest.raises(ValueError, match="outside the bounds"):
        betting_p([0.5, 1.5], 0.5)
    with pytest.raises(ValueError, match="outside the bounds"):
        betting_p([math.nan], 0.5)
    with pytest.raises(ValueError, match="not between"):
        betting_p([0.5], 1.0)
    with pytest.raises(ValueError, match="lower first"):
        betting_interval([0.5], (1, 0))
    with pytest.raises(ValueError, match="split"):
        balanced([0.5], [True], 1.0)
    with pytest.raises(ValueError, match="shape"):
        balanced([1.0, 0.5], [True])
    with pytest.raises(ValueError, match="level"):
        betting_interval([0.5], level=95)
