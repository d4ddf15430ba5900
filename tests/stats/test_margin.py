"""A mean is shown to be above or below a margin, or neither."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.random import Generator
from scipy.stats import beta, binom

from harness.stats.clusters import Values
from harness.stats.margin import margin_tests

MARGIN = 0.1


def test_of_0s_and_1s_the_bounds_are_those_of_clopper_and_pearson() -> None:
    for n, ones in ((20, 0), (50, 3), (300, 40)):
        values = np.r_[np.ones(ones), np.zeros(n - ones)]
        (found,) = margin_tests(values, [MARGIN], resamples=200_000)
        assert found.high == pytest.approx(beta.ppf(0.95, ones + 1, n - ones), abs=2e-3)
        p = binom.cdf(ones, n, MARGIN)
        assert found.p_below == pytest.approx(p, abs=4e-3)


def test_queries_without_any_difference_rule_out_only_a_drop_that_they_would_have_shown() -> None:
    few, many = (margin_tests(np.zeros(n), [0.02])[0] for n in (100, 200))
    assert few.p_below == pytest.approx(0.98**100, abs=0.01)
    assert many.p_below == pytest.approx(0.98**200, abs=0.005)
    assert (few.p_below > 0.05, many.p_below < 0.05) == (True, True)
    assert few.high == pytest.approx(1 - 0.05 ** (1 / 100), abs=1e-3)


def test_a_collapse_is_above_a_margin_and_an_improvement_below_it() -> None:
    fell, rose = np.ones((40, 1)), -np.ones((40, 1))
    haystacks = [at % 8 for at in range(40)]
    for clusters in (None, haystacks):
        (worse,), (better,) = (margin_tests(x, [MARGIN], clusters) for x in (fell, rose))
        assert (worse.p_above < 0.05, worse.p_below) == (True, 1.0)
        assert (better.p_below < 0.05, better.p_above) == (True, 1.0)


@pytest.mark.parametrize("sizes", [[40], [20, 20], [8] * 5, [180, *[5] * 9]])
def test_too_few_effective_clusters_decide_nothing(sizes: list[int]) -> None:
    labels = np.repeat(np.arange(len(sizes)), sizes)
    (found,) = margin_tests(np.ones(len(labels)), [MARGIN], labels)
    assert (found.p_above, found.p_below, found.undecided) == (1.0, 1.0, True)
    assert (found.low, found.high) == (-1.0, 1.0)


def test_other_values_and_missing_margins_are_refused_and_empty_columns_have_no_p() -> None:
    with pytest.raises(ValueError, match="from -1 to 1"):
        margin_tests([2.0], [MARGIN])
    with pytest.raises(ValueError, match="as many margins"):
        margin_tests(np.zeros((3, 2)), [MARGIN])
    (found, other) = margin_tests([[np.nan, 0.0]] * 3, [MARGIN, MARGIN])
    assert np.isnan(found.p_above)
    assert np.isnan(found.p_below)
    assert (found.clusters, other.clusters) == (0, 3)


# -- A true mean of exactly the margin -------------------------------------------------------------


def rare(rng: Generator, n: int) -> Values:
    """Drops of 1, and nothing else."""
    return np.where(rng.random(n) < MARGIN, 1.0, 0.0)


def both(rng: Generator, n: int) -> Values:
    """Drops and rises of 1 and of a half."""
    chance = [MARGIN + 0.05, 0.1, 0.7 - MARGIN, 0.1, 0.05]
    return rng.choice([1.0, 0.5, 0.0, -0.5, -1.0], n, p=chance)


def normal(rng: Generator, n: int) -> Values:
    """A small change in each query."""
    return np.clip(rng.normal(MARGIN, 0.2, n), 2 * MARGIN - 1, 1)


def skewed_up(rng: Generator, n: int) -> Values:
    """Rare drops of 1, and small rises in all other queries."""
    chance = MARGIN + 0.03
    return np.where(rng.random(n) < chance, 1.0, -0.03 / (1 - chance))


def skewed_down(rng: Generator, n: int) -> Values:
    """Rare rises of 1, and small drops in all other queries."""
    return np.where(rng.random(n) < 0.03, -1.0, (MARGIN + 0.03) / 0.97)


def wrong(draw: Callable[[Generator], tuple[Values, Values | None]], draws: int) -> list[int]:
    """Numbers of samples that show a mean above, and below, the margin, at which it is."""
    rng = np.random.default_rng(1)
    found = []
    for _ in range(draws):
        values, clusters = draw(rng)
        (test,) = margin_tests(values, [MARGIN], clusters, resamples=2_000)
        found.append((test.p_above, test.p_below))
    above, below = (sum(p <= 0.05 for p in ps) for ps in zip(*found, strict=True))
    return [above, below]


@pytest.mark.slow
@pytest.mark.parametrize("n", [20, 65, 150])
@pytest.mark.parametrize("draw", [rare, both, normal, skewed_up, skewed_down])
def test_at_the_margin_at_most_5_percent_are_above_it_and_5_percent_below_it(
    draw: Callable[[Generator, int], Values], n: int
) -> None:
    """Of 500 samples; at a rate of 5%, more than 41 with probability 0.001."""
    draws = 500
    for count in wrong(lambda rng: (draw(rng, n), None), draws):
        assert count <= binom.ppf(0.999, draws, 0.05)


EFFECTS: dict[str, Callable[[Generator, int], Values]] = {
    "none": lambda rng, g: np.zeros(g),
    "normal": lambda rng, g: np.clip(rng.normal(0, 0.05, g), -0.2, 0.2),
    "two values": lambda rng, g: rng.choice([-0.1, 0.1], g),
    "skewed": lambda rng, g: np.minimum(rng.exponential(0.03, g), 0.5) - 0.03,
    "skewed down": lambda rng, g: 0.03 - np.minimum(rng.exponential(0.03, g), 0.5),
}


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [[50] * 6, [30] * 10, [26] * 12, [6] * 50, [60, 40, *[25] * 8]])
@pytest.mark.parametrize("effect", EFFECTS)
def test_at_the_margin_haystacks_show_it_in_at_most_5_percent_too(
    effect: str, sizes: list[int]
) -> None:
    """Whole haystacks drop by more or less than the margin."""
    draws, labels = 500, np.repeat(np.arange(len(sizes)), sizes)

    def draw(rng: Generator) -> tuple[Values, Values]:
        shift = MARGIN + EFFECTS[effect](rng, len(sizes))
        chance = 0.2 + np.stack([np.maximum(shift, 0), np.maximum(-shift, 0)])
        luck = rng.random(len(labels))
        up, down = chance[:, labels]
        return np.where(luck < up, 1.0, np.where(luck < up + down, -1.0, 0.0)), labels

    for count in wrong(draw, draws):
        assert count <= binom.ppf(0.999, draws, 0.05)
