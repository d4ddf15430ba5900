"""Intervals of means: against SciPy and statsmodels, by simulated coverage, at the edges.

Student's t, which they take from SciPy, is checked against what is not SciPy's.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from harness.stats.clusters import Clusters, Values, to_clusters
from harness.stats.intervals import (
    MeanInterval,
    cluster_intervals,
    events_of,
    mean_intervals,
    t_above,
    t_quantile,
)

SIZES = np.array([199, 105, 193, 260, 242, 158, 190, 239, 196, 204])


def conversations(generator: np.random.Generator, datasets: int, icc: float) -> Clusters:
    """Data sets (columns) of ten clusters of LoCoMo's sizes, values of 0 and 1 with mean 0.5."""
    scale = 0.5 * (1 / icc - 1)
    sums = generator.binomial(SIZES[:, None], generator.beta(scale, scale, (10, datasets)))
    return Clusters(sums.astype(float), np.tile(SIZES[:, None], datasets).astype(float), True)


def coverage(intervals: list[MeanInterval], true: float) -> float:
    return float(np.mean([i.low <= true <= i.high for i in intervals]))


@pytest.mark.parametrize(
    ("p", "df", "expected"),
    [
        (0.001, 4, -7.1731822197823085),
        (0.025, 9, -2.2621571627982055),
        (0.8, 49, 0.84901839853807707),
        (0.975, 3.7, 2.8675207071911894),
        (0.99995, 499, 3.9222730509440507),
        (0.975, 6979, 1.9603039581337135),
        (0.975, 1e6, 1.959966356814107),
    ],
)
def test_quantiles_of_students_t(p: float, df: float, expected: float) -> None:
    """The incomplete beta function's root with 40 digits, by mpmath 1.4."""
    assert t_quantile(p, df) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    ("t", "df", "expected"),
    [
        (0.01, 49, 0.49603094565417664),
        (2.0, 3.7, 0.060908600952617003),
        (-1.5, 29.3, 0.92784308955263658),
        (6.0, 9, 0.00010124966103382033),
        (31.0, 9, 9.2687910622709995e-11),
        (31.0, 499, 1.0281502826231696e-118),
        (1.96, 1e6, 0.024998033792634895),
    ],
)
def test_tails_of_students_t(t: float, df: float, expected: float) -> None:
    """The incomplete beta function with 40 digits, by mpmath 1.4."""
    assert t_above(t, df) == pytest.approx(expected, rel=1e-12)
    assert t_above(-t, df) == pytest.approx(1 - expected, rel=1e-12)


def test_students_t_where_a_table_or_a_closed_form_has_it() -> None:
    table = {1: 12.706, 2: 4.303, 5: 2.571, 10: 2.228, 30: 2.042, 60: 2.000, 120: 1.980}
    for df, expected in table.items():
        assert round(t_quantile(0.975, df), 3) == expected
    for p in (1e-6, 0.01, 0.3, 0.5, 0.9, 0.9999):
        cauchy, two = math.tan(math.pi * (p - 0.5)), (2 * p - 1) / math.sqrt(2 * p * (1 - p))
        assert t_quantile(p, 1) == pytest.approx(cauchy, rel=1e-10, abs=1e-12)
        assert t_quantile(p, 2) == pytest.approx(two, rel=1e-10, abs=1e-12)
    for t in (-40.0, -1.0, 0.0, 0.5, 3.0):
        assert t_above(t, 1) == pytest.approx(0.5 - math.atan(t) / math.pi, rel=1e-12)
        assert t_above(t, 2) == pytest.approx(0.5 - t / 2 / math.sqrt(2 + t * t), rel=1e-11)
    assert (t_above(math.inf, 5), t_above(-math.inf, 5)) == (0, 1)
    for nothing in (t_quantile(0.975, 0), t_quantile(0.975, -1), t_above(1, 0)):
        assert math.isnan(nothing)
    assert math.isnan(t_above(math.nan, 5))
    for p in (0.0, 1.0, 1.5, math.nan):
        with pytest.raises(ValueError, match="between 0 and 1"):
            t_quantile(p, 5)


def by_matrices(values: Values, labels: Values) -> tuple[float, float]:
    """(standard error, degrees of freedom): CR2 of a regression on a constant, as it is defined.

    Bell & McCaffrey 2002: residuals of a cluster times (I - H_gg)^(-1/2); the degrees of freedom
    from the vectors that give each cluster's part of the variance.
    """
    design = np.ones((len(values), 1))
    bread = np.linalg.inv(design.T @ design)
    rest = np.eye(len(values)) - design @ bread @ design.T
    variance, vectors = 0.0, []
    for label in np.unique(labels):
        here = labels == label
        roots, turn = np.linalg.eigh(rest[np.ix_(here, here)])
        weight = turn @ np.diag(roots**-0.5) @ turn.T @ design[here] @ bread
        variance += float((weight.T @ (rest @ values)[here])[0]) ** 2
        vectors.append(rest[here].T @ weight[:, 0])
    products = np.array(vectors) @ np.array(vectors).T
    return variance**0.5, float(np.trace(products) ** 2 / (products**2).sum())


def test_the_cluster_standard_error_and_its_degrees_of_freedom_are_those_of_cr2() -> None:
    generator = np.random.default_rng(6)
    for sizes in ([180, *[5] * 9], [20] * 6, [1, 2, 3, 50]):
        labels = np.repeat(np.arange(len(sizes)), sizes)
        values = generator.random(len(labels)) + 0.3 * labels
        units = to_clusters(values, labels)
        mine = (units.standard_errors[0], units.degrees[0])
        assert mine == pytest.approx(by_matrices(values, labels), rel=1e-9)
    single = to_clusters(values)
    assert single.standard_errors[0] == pytest.approx(stats.sem(values), rel=1e-12)
    assert (single.degrees[0], single.effective[0]) == (pytest.approx(55), pytest.approx(56))


def test_equal_clusters_have_the_standard_error_of_statsmodels() -> None:
    import statsmodels.api as sm

    labels = np.repeat(np.arange(9), 20)
    values = np.random.default_rng(6).random(180) + 0.3 * labels
    fitted = sm.OLS(values, np.ones(180)).fit(cov_type="cluster", cov_kwds={"groups": labels})
    units = to_clusters(values, labels)
    assert units.standard_errors[0] == pytest.approx(fitted.bse[0], rel=1e-12)
    assert units.degrees[0] == pytest.approx(8)


def test_with_few_observations_it_is_the_t_interval_and_says_that_it_is_rough() -> None:
    values = np.random.default_rng(7).random(25)
    [mine] = mean_intervals(values)
    low, high = stats.t.interval(0.95, 24, values.mean(), stats.sem(values))
    assert (mine.low, mine.high) == pytest.approx((low, high), rel=1e-9)
    assert (mine.method, mine.approximate, mine.note) == ("t", True, "only 25 observations")
    assert mine.how == "t over 25 observations"


@pytest.mark.parametrize(("successes", "n"), [(0, 12), (12, 12), (7, 12), (298, 300)])
def test_of_zeros_and_ones_it_is_clopper_and_pearsons_exact_one(successes: int, n: int) -> None:
    from statsmodels.stats.proportion import proportion_confint

    values = np.r_[np.ones(successes), np.zeros(n - successes)]
    [mine] = mean_intervals(values, bounds=(0, 1))
    expected = proportion_confint(successes, n, method="beta")
    assert (mine.method, mine.approximate) == ("clopper-pearson", False)
    assert (mine.low, mine.high) == pytest.approx(expected, abs=1e-12)
    assert mine.low < mine.high


@pytest.mark.parametrize("n", [5, 20, 40, 300])
def test_no_share_of_zeros_and_ones_is_held_less_often_than_said(n: int) -> None:
    """Exact, not simulated: Wilson's interval holds 83.7% at the worst share of n = 20."""
    column = np.r_[:n]
    values = (column[:, None] < np.r_[0 : n + 1]).astype(float)  # data sets of 0 to n ones
    found = mean_intervals(values, bounds=(0, 1))
    shares = np.linspace(0.001, 0.999, 999)
    ways = stats.binom.pmf(np.r_[0 : n + 1][:, None], n, shares)
    held = [[one.low <= share <= one.high for share in shares] for one in found]
    assert ((np.array(held) * ways).sum(axis=0) >= 0.95 - 1e-9).all()


def test_other_values_between_0_and_1_have_korn_and_graubards_as_they_define_it() -> None:
    values = np.random.default_rng(7).choice([0, 0.25, 0.5, 1], 60, p=[0.4, 0.2, 0.2, 0.2])
    [mine] = mean_intervals(values, bounds=(0, 1))
    mean, error = values.mean(), stats.sem(values)
    n = mean * (1 - mean) / error**2 * (stats.norm.ppf(0.975) / stats.t.ppf(0.975, 59)) ** 2
    low = stats.beta.ppf(0.025, n * mean, n - n * mean + 1)
    high = stats.beta.ppf(0.975, n * mean + 1, n - n * mean)
    assert (mine.method, mine.approximate) == ("korn-graubard", False)
    assert (mine.low, mine.high) == pytest.approx((low, high), rel=1e-9)
    assert mine.how == "Korn-Graubard over 60 observations"


def held_unless_rough(intervals: list[MeanInterval], true: float) -> tuple[float, float]:
    """(share of intervals that hold the mean, share that do or say that they are approximate)."""
    held = [i.low <= true <= i.high for i in intervals]
    excused = [h or i.approximate for h, i in zip(held, intervals, strict=True)]
    return float(np.mean(held)), float(np.mean(excused))


@pytest.mark.parametrize("icc", [0.0, 0.1, 0.5])
@pytest.mark.parametrize(
    "sizes", [[180, *[5] * 9], np.ceil(5 / (np.linspace(0.01, 0.99, 50) ** 0.8)).astype(int)]
)
def test_one_haystack_that_holds_nearly_everything_is_held_and_called_rough(
    sizes: list[int], icc: float
) -> None:
    """One of 180 questions and nine of 5; fifty of Pareto's sizes."""
    generator, mean = np.random.default_rng(8), 0.6
    rate = np.full((len(sizes), 1500), mean)
    if icc:
        scale = 1 / icc - 1
        rate = generator.beta(mean * scale, (1 - mean) * scale, rate.shape)
    counts = np.broadcast_to(np.asarray(sizes)[:, None], rate.shape)
    units = Clusters(generator.binomial(counts, rate).astype(float), counts.astype(float), True)
    found = cluster_intervals(units, bounds=(0, 1))
    assert held_unless_rough(found, mean)[0] >= 0.93  # Monte Carlo error 0.6 points
    assert all(
        one.approximate and "so unequal that they tell as much as" in one.note for one in found
    )


def test_ten_conversations_of_locomos_sizes_are_held() -> None:
    units = conversations(np.random.default_rng(8), 2000, icc=0.05)
    chosen = cluster_intervals(units, bounds=(0, 1))
    assert {i.method for i in chosen} == {"korn-graubard"}
    assert chosen[0].note == "only 10 clusters"
    # Monte Carlo error of 2,000 data sets: 0.5 points at 95%, 0.7 at 89%.
    assert 0.93 <= coverage(chosen, 0.5) <= 0.97


def test_events_are_the_rarer_of_zeros_and_ones_and_n_over_the_squared_skewness() -> None:
    values = np.random.default_rng(10).exponential(1, (60, 2))
    values[:, 1] = np.r_[:60] < 3
    events = events_of(to_clusters(values))
    assert events == pytest.approx(60 / stats.skew(values) ** 2)
    assert 3 < events[1] < 4
    assert events_of(to_clusters([-1.0, 0, 0, 1]))[0] == np.inf


@pytest.mark.parametrize(
    ("values", "chances", "n", "bounds"),
    [
        ([1, 0.1, 0], [0.03, 0.27, 0.7], 300, (-1, 1)),  # 92.8% hold
        ([1, 0.1, 0], [0.005, 0.045, 0.95], 2000, (-1, 1)),
    ],
)
def test_a_few_values_much_larger_than_the_rest_make_an_interval_rough(
    values: list[float], chances: list[float], n: int, bounds: tuple[float, float]
) -> None:
    drawn = np.random.default_rng(11).choice(values, (n, 300), p=chances)
    found = mean_intervals(drawn, bounds=bounds)
    assert np.mean([one.approximate for one in found]) > 0.95
    assert f"few of {n} observations carry most of the spread" in {one.note for one in found}


def test_differences_that_fall_to_both_sides_or_to_neither_end_are_not_rough() -> None:
    generator = np.random.default_rng(12)
    for drawn in (generator.normal(0.1, 0.3, (80, 300)), generator.choice([1, 0, -1], (80, 300))):
        assert not any(one.approximate for one in mean_intervals(drawn, bounds=(-9, 9)))


@pytest.mark.parametrize("zeros", [0.2, 0.8, 0.9, 0.95])
@pytest.mark.parametrize("n", [40, 65, 300])
def test_low_means_of_reciprocal_ranks_are_held_or_called_rough(n: int, zeros: float) -> None:
    """A bootstrap holds 74% of those of 40 queries of which 95% found nothing."""
    ranks = np.array([1, 0.5, 1 / 3, 0.25, 0.2, 0.1, 0])
    chances = np.r_[np.array([0.4, 0.2, 0.12, 0.1, 0.08, 0.1]) * (1 - zeros), zeros]
    values = np.random.default_rng(9).choice(ranks, (n, 1500), p=chances)
    found = mean_intervals(values, bounds=(0, 1))
    held, excused = held_unless_rough(found, float(ranks @ chances))
    assert held >= 0.90
    assert excused >= 0.93  # Monte Carlo error 0.6 points
    if n == 300 and zeros < 0.9:
        assert not any(one.approximate for one in found)


def test_an_interval_is_the_same_alone_or_beside_other_metrics() -> None:
    generator = np.random.default_rng(11)
    values = generator.random((300, 4))
    values[generator.random((300, 4)) < 0.3] = np.nan
    together = mean_intervals(values, bounds=(0, 1))
    for at in range(4):
        [alone] = mean_intervals(values[:, at], bounds=(0, 1))
        assert (alone.low, alone.high) == pytest.approx((together[at].low, together[at].high))
        [without] = mean_intervals(values[~np.isnan(values[:, at]), at], bounds=(0, 1))
        assert (without.low, without.high) == pytest.approx((alone.low, alone.high))


def test_names_of_clusters_do_not_matter() -> None:
    generator = np.random.default_rng(14)
    labels = generator.integers(0, 50, 400)
    values = generator.random((400, 2))
    names = np.array([f"conversation {97 * i % 50}" for i in range(50)])
    assert mean_intervals(values, labels) == mean_intervals(values, names[labels])


@pytest.mark.parametrize(
    ("values", "clusters", "note"),
    [
        ([np.nan, np.nan], None, "no observation"),
        ([0.5], None, "a single observation shows no spread: no interval"),
        ([0.5, 1.0, 0.0], ["a", "a", "a"], "a single cluster shows no spread: no interval"),
        ([0.5, np.nan, 0.0], ["a", "b", "a"], "a single cluster shows no spread: no interval"),
    ],
)
def test_where_there_is_no_spread_to_see_there_is_no_interval(
    values: list[float], clusters: list[str] | None, note: str
) -> None:
    [interval] = mean_intervals(values, clusters)
    assert (interval.method, interval.approximate, interval.note) == ("none", True, note)
    assert np.isnan([interval.low, interval.high]).all()
    assert np.isnan(interval.value) == (interval.n == 0)


def test_equal_values_say_so_and_have_no_length_only_where_nothing_bounds_them() -> None:
    for n in (7, 700):
        [interval] = mean_intervals(np.full(n, 0.1))
        assert (interval.low, interval.high) == pytest.approx((0.1, 0.1))
        [bounded] = mean_intervals(np.full(n, 0.1), bounds=(0, 1))
        assert bounded.low < 0.1 < bounded.high
        for one in (interval, bounded):
            assert one.approximate
            assert one.note.startswith(f"all {n} observations are equal")


def test_intervals_end_at_the_bounds() -> None:
    [interval] = mean_intervals([1, 1, 1, 0.2], bounds=(-1, 1))
    assert (interval.method, interval.high) == ("t", 1.0)
    [interval] = mean_intervals([1 / 3] * 3 * 7 + [1.0] * 40, bounds=(0, 1))
    assert 0 < interval.low < interval.value < interval.high < 1


def test_the_mean_over_haystacks_counts_each_once() -> None:
    values, labels = [1.0] * 90 + [0.0] * 5 + [0.5] * 5, [0] * 90 + [1] * 5 + [2] * 5
    units = to_clusters(values, labels)
    [over_questions] = cluster_intervals(units, bounds=(0, 1))
    [over_haystacks] = cluster_intervals(units.by_cluster(), bounds=(0, 1))
    assert over_questions.value == pytest.approx(0.925)
    assert over_haystacks.value == pytest.approx(0.5)
    assert (over_haystacks.clusters, over_haystacks.effective) == (3, pytest.approx(3))


@pytest.mark.parametrize(
    ("values", "clusters"),
    [([[[1.0]]], None), ([1.0, np.inf], None), ([1.0, 2.0], ["a"]), ([1.0], [["a"]])],
)
def test_bad_shapes_and_infinite_values_are_refused(values: object, clusters: object) -> None:
    with pytest.raises(ValueError, match="must be"):
        mean_intervals(values, clusters)  # type: ignore[arg-type]


@pytest.mark.parametrize("correlation", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("share", [0.01, 0.05, 0.1, 0.2, 0.3, 0.4])
def test_haystacks_that_are_all_equal_miss_the_mean_in_at_most_2_5_percent(
    share: float, correlation: float
) -> None:
    """However similar the questions of a haystack are: why 0 of 264 has an interval up to 0.32."""
    draws, rng = 2_000, np.random.default_rng(0)
    chances = np.full((12, draws), share)
    if correlation == 1:
        chances = (rng.random((12, draws)) < share).astype(float)
    elif correlation:
        odds = (1 - correlation) / correlation
        chances = rng.beta(share * odds, (1 - share) * odds, (12, draws))
    labels = np.repeat(np.arange(12), 22)
    values = (rng.random((264, draws)) < chances[labels]).astype(float)
    found = mean_intervals(values, labels, bounds=(0, 1))
    assert all(one.high > 0.3 for one in found if one.value == 0)
    missed = [one.value in (0, 1) and not one.low <= share <= one.high for one in found]
    assert sum(missed) <= stats.binom.ppf(0.999, draws, 0.025)
