"""Always-valid p values: against another implementation, by enumeration, and by simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from harness.stats.betting import SHARES, balanced, betting_interval, betting_p
from harness.stats.sequential import (
    difference_sequence,
    mean_sequence,
    mixture_interval,
    mixture_p,
    running_clustered,
    running_mean,
)


@pytest.mark.parametrize(
    ("a", "b", "alpha", "tuned_for", "expected"),
    [
        # (n, sum, sum of squares) of each group; estimate, low, high, p of GrowthBook's gbstats
        # 0.8.0, SequentialTwoSidedTTest, which reports b - a.
        (
            (380, 171.0, 120.5),
            (400, 210.5, 160.25),
            0.05,
            1000,
            (
                -0.07624999999999998,
                -0.15151597594209215,
                -0.0009840240579078313,
                0.0450250484416834,
            ),
        ),
        (
            (150, 25.0, 25.0),
            (150, 9.0, 9.0),
            0.05,
            200,
            (0.10666666666666666, -0.0035428724609996853, 0.216876205794333, 0.065524781829642),
        ),
    ],
)
def test_the_mixture_is_that_of_gbstats(
    a: tuple[int, float, float],
    b: tuple[int, float, float],
    alpha: float,
    tuned_for: float,
    expected: tuple[float, float, float, float],
) -> None:
    means = [total / n for n, total, _ in (a, b)]
    variances = [(squares - total**2 / n) / (n - 1) / n for n, total, squares in (a, b)]
    error, units = math.sqrt(sum(variances)), a[0] + b[0]
    found = (
        means[0] - means[1],
        *mixture_interval(means[0] - means[1], error, units, level=1 - alpha, tuned_for=tuned_for),
        mixture_p(means[0] - means[1], error, units, tuned_for=tuned_for),
    )
    assert found == pytest.approx(expected, rel=1e-9)


def test_p_and_interval_of_a_moment_say_the_same() -> None:
    for level in (0.8, 0.95, 0.99):
        low, high = mixture_interval(0.3, 0.1, 500, level=level)
        for null in (float(low), float(high)):
            assert mixture_p(0.3 - null, 0.1, 500) == pytest.approx(1 - level)


def test_paths_are_what_each_moment_by_itself_gives() -> None:
    generator = np.random.default_rng(1)
    values, users = generator.lognormal(5, 1, 400), generator.integers(0, 60, 400)
    in_a = generator.random(400) < 0.3
    alone, together = running_mean(values, in_a), running_clustered(values, users, in_a)
    for at in (30, 200, 399):
        seen, whose = values[: at + 1][in_a[: at + 1]], users[: at + 1][in_a[: at + 1]]
        assert (alone.mean[at], alone.standard_error[at]) == pytest.approx(
            (seen.mean(), seen.std(ddof=1) / math.sqrt(len(seen)))
        )
        own = [seen[whose == user].mean() for user in np.unique(whose)]
        assert together.units[at] == len(own)
        assert (together.mean[at], together.standard_error[at]) == pytest.approx(
            (np.mean(own), np.std(own, ddof=1) / math.sqrt(len(own)))
        )


def test_nothing_is_said_of_few_units_or_of_no_spread() -> None:
    path = mean_sequence(np.arange(150.0), minimum=100)
    assert np.isnan(path.low[:99]).all()
    assert np.isfinite(path.low[99:]).all()
    assert (path.p[:99] == 1).all()
    assert path.p[-1] < 1e-4
    constant = mean_sequence(np.full(300, 0.1), null=0)
    assert constant.p[-1] == 1
    assert np.isnan(constant.low[-1])
    in_a = np.arange(400) % 2 == 0
    for flat in (0.0, 0.1, 1.0, 1e6):
        one_flat = difference_sequence(np.where(in_a, flat, np.arange(400) % 3), in_a)
        assert one_flat.p[-1] == 1
        again = difference_sequence(
            np.where(in_a, flat, np.arange(400) % 3), in_a, np.arange(400) // 2 * 2 + ~in_a
        )
        assert again.p[-1] == 1


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
    p = betting_p(np.array(values)[every], null)
    for alpha in (0.01, 0.05, 0.2, 0.5):
        assert weight[p[:, -1] <= alpha].sum() <= alpha
    assert weight[p[:, -1] <= 0.5].sum() > 0.01  # and it does find something
    assert (np.diff(p, axis=1) <= 0).all()


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


@pytest.mark.slow
def test_one_skewed_stream_is_for_betting() -> None:
    generator = np.random.default_rng(5)
    values = (generator.random((1000, 1500)) < 0.02).astype(float)
    mixture = (mean_sequence(values, null=0.02).p[:, -1] <= 0.05).mean()
    betting = (betting_p(values, 0.02)[:, -1] <= 0.05).mean()
    assert mixture > 0.07  # 5% and three Monte Carlo errors: why the mixture is not for it
    assert betting <= 0.05
    found = (betting_p((generator.random((500, 1500)) < 0.05), 0.02)[:, -1] <= 0.05).mean()
    assert found > 0.95


def test_the_mixture_of_one_symmetric_stream_holds_five_percent() -> None:
    generator = np.random.default_rng(6)
    differences = generator.choice(
        [-1, -1 / 3, 0, 1 / 3, 1], (1000, 1500), p=[0.03, 0.07, 0.8, 0.07, 0.03]
    )
    assert (mean_sequence(differences).p[:, -1] <= 0.05).mean() <= 0.05
    assert (mean_sequence(differences + 0.03).p[:, -1] <= 0.05).mean() > 0.8


def test_wrong_values_are_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        mean_sequence([1.0, math.nan])
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
        difference_sequence([1.0, 2.0], [True])
    with pytest.raises(ValueError, match="tuned_for"):
        mixture_p(1, 1, 100, tuned_for=0)
    with pytest.raises(ValueError, match="level"):
        mixture_interval(1, 1, 100, level=95)
