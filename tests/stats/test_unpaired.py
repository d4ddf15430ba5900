"""Unpaired comparisons: against SciPy and statsmodels, and by their false positives."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from harness.stats.unpaired import compare_unpaired


def test_welchs_interval_and_p_are_scipys() -> None:
    generator = np.random.default_rng(1)
    a, b = generator.normal(0.3, 1, (40, 2)), generator.normal(0, 2, (70, 2))
    a[3, 1] = np.nan
    for at, mine in enumerate(compare_unpaired(a, b)):
        peer = stats.ttest_ind(a[:, at], b[:, at], equal_var=False, nan_policy="omit")
        interval = peer.confidence_interval(0.95)
        assert mine.method == "welch"
        assert (mine.p, mine.low, mine.high) == pytest.approx(
            (peer.pvalue, interval.low, interval.high), rel=1e-8
        )
        assert (mine.n_a, mine.n_b) == (40 - at, 70)


def test_welchs_test_of_students_own_data_is_rs() -> None:
    """What R prints for t.test(extra ~ group, data = sleep): hours of sleep gained by two drugs."""
    first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
    second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
    [mine] = compare_unpaired(first, second)
    assert (round(mine.p, 5), round(mine.low, 7), round(mine.high, 7)) == (
        0.07939,
        -3.3654832,
        0.2054832,
    )


def test_proportions_are_statsmodels() -> None:
    from statsmodels.stats.proportion import confint_proportions_2indep, proportions_ztest

    a, b = np.r_[np.ones(45), np.zeros(15)], np.r_[np.ones(30), np.zeros(50)]
    [mine] = compare_unpaired(a, b, proportions=True)
    expected = confint_proportions_2indep(45, 60, 30, 80, method="newcomb", compare="diff")
    assert mine.method == "two-proportion"
    assert (mine.low, mine.high) == pytest.approx(expected, abs=1e-9)
    assert mine.p == pytest.approx(proportions_ztest([45, 30], [60, 80])[1], rel=1e-9)
    [same] = compare_unpaired(np.ones(5), np.ones(6), proportions=True)
    assert same.p == 1.0
    assert same.low < 0 < same.high
    with pytest.raises(ValueError, match="0 or 1"):
        compare_unpaired([0.5], [1.0], proportions=True)


def test_swapping_the_groups_turns_the_signs() -> None:
    generator = np.random.default_rng(3)
    a, b = generator.random((9, 1)), generator.random((7, 1))
    clusters_a, clusters_b = [0, 0, 1, 1, 1, 2, 2, 3, 4], [0, 1, 1, 2, 2, 3, 3]
    [forth] = compare_unpaired(a, b, clusters_a, clusters_b)
    [back] = compare_unpaired(b, a, clusters_b, clusters_a)
    assert (forth.difference, forth.low, forth.high) == pytest.approx(
        (-back.difference, -back.high, -back.low)
    )
    assert forth.p == pytest.approx(back.p)
    assert forth.effect_size == pytest.approx(-back.effect_size)
    assert (forth.clusters_a, forth.clusters_b, forth.approximate) == (5, 4, True)


def test_users_dealt_as_a_whole_keep_the_level_only_when_they_are_clusters() -> None:
    generator = np.random.default_rng(4)
    labels = np.repeat(np.arange(15), 10)
    a, b = (
        generator.normal(0, 0.7, (15, 600))[labels] + generator.normal(0, 1, (150, 600))
        for _ in range(2)
    )
    aware = compare_unpaired(a, b, labels, labels)
    # Monte Carlo error of 600 data sets: 0.9 points.
    assert np.mean([c.p <= 0.05 for c in aware]) == pytest.approx(0.05, abs=0.03)
    blind = compare_unpaired(a, b)
    assert np.mean([c.p <= 0.05 for c in blind]) > 0.25


@pytest.mark.parametrize("units", [(20, 80), (4, 30), (30, 4)])
def test_groups_that_differ_in_spread_and_number_keep_the_level(units: tuple[int, int]) -> None:
    """Monte Carlo error 0.6 points; a permutation of Welch's t gave 13% of 4 and 30 haystacks."""
    generator = np.random.default_rng(5)
    labels = [np.repeat(np.arange(n), 5) for n in units]
    a, b = (
        generator.normal(0, spread, (n, 1500))[of] + generator.normal(0, 0.3, (5 * n, 1500))
        for n, spread, of in zip(units, (1, 0.2), labels, strict=True)
    )
    found = compare_unpaired(a, b, *labels)
    assert np.mean([c.p <= 0.05 for c in found]) == pytest.approx(0.05, abs=0.02)


@pytest.mark.parametrize(
    ("a", "b"), [([np.nan], [1.0, 2.0]), ([1.0], [1.0]), ([1.0] * 3, [1.0] * 3), ([1] * 3, [0] * 3)]
)
def test_without_a_spread_there_is_neither_an_interval_nor_a_p(
    a: list[float], b: list[float]
) -> None:
    [found] = compare_unpaired(a, b)
    assert math.isnan(found.low)
    assert math.isnan(found.p)
    assert found.approximate
    assert math.isnan(found.effect_size)


def test_the_groups_must_have_the_same_metrics() -> None:
    with pytest.raises(ValueError, match="metrics"):
        compare_unpaired(np.zeros((3, 2)), np.zeros((3, 1)))
