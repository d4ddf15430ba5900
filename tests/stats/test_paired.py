"""Paired comparisons, and the tests that are made on request."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from harness.stats.paired import (
    PairedComparison,
    compare_paired,
    equivalence,
    outcomes,
    paired_t,
    wilcoxon,
)

FIRST = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SECOND = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]
"""Hours of sleep gained by two drugs, the data of Student (1908); R has them as `sleep`."""

value = st.sampled_from([0.0, 0.25, 1 / 3, 0.5, 1.0, math.nan])


@st.composite
def pairs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two systems' values of two metrics, and the clusters of the observations."""
    n = draw(st.integers(1, 60))
    a, b = (
        np.array(draw(st.lists(value, min_size=2 * n, max_size=2 * n))).reshape(n, 2)
        for _ in range(2)
    )
    clusters = np.array(draw(st.lists(st.integers(0, 11), min_size=n, max_size=n)))
    return a, b, clusters


def numbers(found: PairedComparison) -> list[float]:
    d = found.difference
    return [
        *(found.mean_a, found.mean_b, d.value, d.low, d.high, d.n, d.clusters),
        *(found.test.p, found.effect_size, found.power.detectable),
        *(found.wins, found.losses, found.ties, found.unpaired),
    ]


def close(first: list[float], second: list[float]) -> bool:
    return bool(np.allclose(first, second, rtol=1e-9, atol=1e-12, equal_nan=True))


def test_everything_of_a_comparison_by_hand() -> None:
    a = [1.0, 0.5, 1.0, 1.0, np.nan, 0.0, np.nan]
    b = [0.0, 0.5, 0.5, 0.0, 1.0, 0.5, np.nan]
    [found] = compare_paired(a, b, bounds=(-1, 1))
    differences = np.array([-1.0, 0.0, -0.5, -1.0, 0.5])  # the new less the old
    assert (found.wins, found.losses, found.ties, found.unpaired) == (1, 3, 1, 1)
    assert (found.mean_a, found.mean_b) == pytest.approx((0.7, 0.3))
    assert found.difference.value == pytest.approx(-0.4)
    assert found.difference.n == 5
    assert found.effect_size == pytest.approx(-0.4 / differences.std(ddof=1))
    low, high = stats.t.interval(0.95, 4, -0.4, stats.sem(differences))
    assert (found.difference.low, found.difference.high) == pytest.approx((max(low, -1), high))
    # Of 1, .5, 1, -.5 with any signs, sums of 2 or more: 3, 2, 2 and their mirror images of 16.
    assert found.test.p == 6 / 16
    assert outcomes(a, b)[:, 0].tolist()[:4] == [-1, 0, -1, -1]
    assert np.isnan(outcomes(a, b)[4:, 0]).tolist() == [True, False, True]


@settings(max_examples=40)
@given(pairs())
def test_swapping_the_systems_turns_the_signs_and_nothing_else(
    drawn: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    a, b, clusters = drawn
    for labels in (None, clusters):
        forth = compare_paired(a, b, labels, resamples=400)
        back = compare_paired(b, a, labels, resamples=400)
        for one, two in zip(forth, back, strict=True):
            f, t = one.difference, two.difference
            assert close([f.value, f.low, f.high], [-t.value, -t.high, -t.low])
            assert close([one.effect_size], [-two.effect_size])
            assert close([one.test.p, one.power.detectable], [two.test.p, two.power.detectable])
            assert (one.wins, one.losses, one.ties) == (two.losses, two.wins, two.ties)


@settings(max_examples=40)
@given(pairs(), st.randoms(use_true_random=False))
def test_neither_order_nor_names_of_clusters_matter(
    drawn: tuple[np.ndarray, np.ndarray, np.ndarray], random: object
) -> None:
    a, b, clusters = drawn
    order = np.random.default_rng(random.randrange(2**32)).permutation(len(a))  # type: ignore[attr-defined]
    names = np.array([f"c{(5 * i) % 12}" for i in range(12)])
    forth = compare_paired(a, b, clusters)
    again = compare_paired(a[order], b[order], names[clusters][order])
    for one, two in zip(forth, again, strict=True):
        # Up to 12 clusters: a cluster t and an exact test, in which nothing is drawn.
        assert close(numbers(one), numbers(two))


def test_a_difference_is_seen_better_in_pairs_and_less_well_where_clusters_share_it() -> None:
    generator = np.random.default_rng(1)
    labels = np.repeat(np.arange(12), 25)
    hard = generator.random(300)
    a = hard + 0.05 + generator.normal(0, 0.1, 300) + generator.normal(0, 0.1, 12)[labels]
    [alone] = compare_paired(a, hard)
    [together] = compare_paired(a, hard, labels)
    assert alone.difference.value == pytest.approx(together.difference.value)
    assert together.difference.high - together.difference.low > 2 * (
        alone.difference.high - alone.difference.low
    )
    assert together.power.design_effect > 4
    assert together.test.p > alone.test.p
    assert alone.effect_size == together.effect_size


def test_equal_systems_tie_everywhere() -> None:
    values = np.random.default_rng(2).random((50, 1))
    [found] = compare_paired(values, values)
    assert (found.wins, found.losses, found.ties, found.test.p) == (0, 0, 50, 1.0)
    assert (found.difference.low, found.difference.high) == (0, 0)
    assert found.difference.approximate
    assert math.isnan(found.effect_size)
    assert math.isnan(found.power.detectable)
    [rounded] = compare_paired([0.1 + 0.2], [0.3])
    assert rounded.ties == 1


def test_pairs_must_be_pairs() -> None:
    with pytest.raises(ValueError, match="same shape"):
        compare_paired([1.0, 2.0], [1.0])


def test_the_paired_t_test_is_scipys() -> None:
    generator = np.random.default_rng(3)
    a, b = generator.random((2, 30, 2))
    a[4, 1] = np.nan
    for at, mine in enumerate(paired_t(a, b)):
        peer = stats.ttest_rel(a[:, at], b[:, at], nan_policy="omit")
        assert (mine.statistic, mine.df, mine.p) == pytest.approx(
            (peer.statistic, peer.df, peer.pvalue), rel=1e-9
        )
    assert math.isnan(paired_t([1.0, 1.0], [0.9, 0.9])[0].p)


def test_the_paired_t_test_of_students_own_data_is_rs() -> None:
    """What R prints for t.test(extra ~ group, data = sleep, paired = TRUE)."""
    [mine] = paired_t(FIRST, SECOND)
    assert (round(mine.statistic, 4), mine.df, round(mine.p, 6)) == (-4.0621, 9, 0.002833)
    [compared] = compare_paired(SECOND, FIRST)
    low, high = compared.difference.low, compared.difference.high
    assert (round(low, 7), round(high, 7)) == (-2.4598858, -0.7001142)


def test_the_cluster_t_test_keeps_its_level_where_the_plain_one_does_not() -> None:
    generator = np.random.default_rng(4)
    labels = np.repeat(np.arange(10), 20)
    shift = generator.normal(0, 0.5, (10, 1000))[labels]
    differences = shift + generator.normal(0, 1, (200, 1000))
    zero = np.zeros_like(differences)
    aware = np.mean([test.p <= 0.05 for test in paired_t(differences, zero, labels)])
    blind = np.mean([test.p <= 0.05 for test in paired_t(differences, zero)])
    assert aware == pytest.approx(0.05, abs=0.025)  # Monte Carlo error 0.7 points
    assert blind > 0.25


def test_wilcoxons_test_has_the_same_ties_whatever_their_rounding() -> None:
    a = np.array([0.1 + 0.2, 0.5, 0.7, 0.9])
    b = np.array([0.3, 0.4, 0.9, 0.6])
    assert wilcoxon(a, b)[0].p == stats.wilcoxon(a[1:], b[1:]).pvalue
    differences = np.array([0.3 - 0.2, 0.5 - 0.4, -(0.9 - 0.8), 0.7])  # three tie but for rounding
    expected = stats.wilcoxon([0.1, 0.1, -0.1, 0.7]).statistic
    assert wilcoxon(differences, np.zeros(4))[0].statistic == expected


def test_wilcoxons_test_excludes_what_is_not_paired() -> None:
    generator = np.random.default_rng(5)
    a, b = generator.random((2, 25))
    a[3] = np.nan
    kept = np.arange(25) != 3
    [mine] = wilcoxon(a, b)
    peer = stats.wilcoxon(a[kept], b[kept])
    assert (mine.statistic, mine.p) == (peer.statistic, peer.pvalue)
    assert wilcoxon([1.0, 1.0], [1.0, 1.0])[0].p == 1.0
    assert math.isnan(wilcoxon([np.nan], [1.0])[0].p)


def test_equivalence_of_values_that_all_differ_is_close_to_statsmodels_tost() -> None:
    from statsmodels.stats.weightstats import ttost_paired

    generator = np.random.default_rng(6)
    a = 0.3 + 0.4 * generator.random(400)
    b = a + generator.normal(0.01, 0.05, 400)
    for margin in (0.011, 0.0125, 0.05):
        [mine] = equivalence(a, b, margin)
        p, _, _ = ttost_paired(a, b, -margin, margin)
        assert mine.p == pytest.approx(p, abs=0.02)
        assert mine.equivalent == (-margin < mine.low and mine.high < margin) == (mine.p < 0.05)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("grades", "n", "share"),
    [([1.0], 200, 0.1), ([1.0, 0.5, 1 / 3, 0.25, 0.2, 0.1], 80, 0.3), ([1, 1, 1, -1], 500, 0.05)],
)
def test_what_differs_by_the_margin_is_rarely_called_equivalent_though_few_pairs_differ(
    grades: list[float], n: int, share: float
) -> None:
    values = np.array([*grades, 0.0])
    chances = np.array([*[share / len(grades)] * len(grades), 1 - share])
    drawn = np.random.default_rng(8).choice(values, (n, 700), p=chances)
    found = equivalence(drawn, np.zeros(drawn.shape), float(values @ chances))
    assert np.mean([one.equivalent for one in found]) < 0.07  # Monte Carlo error 0.8 points


@pytest.mark.parametrize(
    ("sizes", "often", "share"),
    [([200] * 10, 0.1, 0.2), ([20] * 60, 0.05, 0.5), ([180, 90, 90, *[5] * 20], 0.3, 0.5)],
)
def test_equivalence_is_not_shown_by_haystacks_that_happen_to_be_the_usual_ones(
    sizes: list[int], often: float, share: float
) -> None:
    """Few haystacks differ, and by much: of ten, a third of the samples have none of them."""
    generator, draws = np.random.default_rng(9), 300
    labels = np.repeat(np.arange(len(sizes)), sizes)
    rate = np.where(generator.random((len(sizes), draws)) < often, share, 0.01)
    drawn = (generator.random((len(labels), draws)) < rate[labels]).astype(float)
    margin = often * share + (1 - often) * 0.01
    found = equivalence(np.zeros(drawn.shape), drawn, margin, labels)
    assert np.mean([one.equivalent for one in found]) < 0.08  # Monte Carlo error 1.3 points


def test_runs_that_tie_on_nearly_every_question_are_equivalent() -> None:
    """LoCoMo's 1,982 questions, of which 1,959 tie: exact for these, and no word on other users."""
    values = np.zeros(1982)
    values[np.arange(23) * 80] = np.where(np.arange(23) < 15, 1, -1)
    [alone] = equivalence(np.zeros(1982), values, 0.02)
    [over_ten] = equivalence(np.zeros(1982), values, 0.02, np.arange(1982) % 10)
    bound = float(stats.beta.ppf(0.95, 24, 1982 - 23))
    assert alone.share == over_ten.share == pytest.approx(bound)
    assert (alone.equivalent, alone.here) == (True, True)
    assert (over_ten.equivalent, over_ten.here) == (False, True)
    assert over_ten.note == "only 10 clusters"


def test_equivalence_is_not_shown_by_little_data_and_needs_a_margin() -> None:
    assert not equivalence([0.5], [0.5], 0.1)[0].equivalent
    [ties] = equivalence(np.full(500, 0.5), np.full(500, 0.5), 0.1)
    assert math.isnan(ties.p)  # without a spread no t test
    assert (ties.equivalent, ties.share) == (True, pytest.approx(1 - 0.05 ** (1 / 500)))
    [some] = equivalence(np.full(500, 0.5), np.full(500, 0.5), 0.005)
    assert (some.equivalent, some.note[:24]) == (False, "all 500 observations are")
    small = np.tile([0.01, -0.01], 40)
    assert equivalence(0.5 + small, np.full(80, 0.5), 0.1)[0].equivalent
    apart = equivalence(0.9 + small, np.full(80, 0.5), 0.1)[0]
    assert (apart.equivalent, apart.p) == (False, pytest.approx(1))
    with pytest.raises(ValueError, match="above 0"):
        equivalence([0.5], [0.5], 0)
    with pytest.raises(ValueError, match="from -1 to 1"):
        equivalence([2.5], [0.5], 0.1)
