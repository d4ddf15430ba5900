"""Intervals of means: against SciPy and statsmodels, by simulated coverage, at the edges.

Student's t, which they take from SciPy, is checked against what is not SciPy's.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from harness.statistics.intervals import (
    Interval,
    mean_intervals,
    t_above,
    t_quantile,
    unit_intervals,
)
from harness.statistics.units import Units, units_of

SIZES = np.array([199, 105, 193, 260, 242, 158, 190, 239, 196, 204])


def conversations(generator: np.random.Generator, datasets: int, icc: float) -> Units:
    """Data sets (columns) of ten clusters of LoCoMo's sizes, values of 0 and 1 with mean 0.5."""
    scale = 0.5 * (1 / icc - 1)
    sums = generator.binomial(SIZES[:, None], generator.beta(scale, scale, (10, datasets)))
    return Units(sums.astype(float), np.tile(SIZES[:, None], datasets).astype(float), True)


def coverage(intervals: list[Interval], true: float) -> float:
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


def test_the_bootstrap_is_scipys_within_monte_carlo_error() -> None:
    values = np.random.default_rng(1).beta(0.5, 1.5, (120, 3))
    peer = stats.bootstrap(
        (values,), np.mean, axis=0, method="percentile", n_resamples=20_000, rng=2
    )
    for at, mine in enumerate(mean_intervals(values, resamples=20_000, seed=3)):
        assert mine.method == "bootstrap"
        assert mine.value == pytest.approx(values[:, at].mean())
        # The end of a 95% interval has a Monte Carlo error of about 0.02 standard errors here.
        tolerance = 0.08 * peer.standard_error[at]
        assert mine.low == pytest.approx(peer.confidence_interval.low[at], abs=tolerance)
        assert mine.high == pytest.approx(peer.confidence_interval.high[at], abs=tolerance)


def test_the_cluster_bootstrap_draws_whole_clusters_and_weighs_them_by_size() -> None:
    generator = np.random.default_rng(4)
    sizes = generator.integers(1, 30, 60)
    labels = np.repeat(np.arange(60), sizes)
    values = generator.random(len(labels)) + np.repeat(generator.random(60), sizes)
    sums, counts = np.bincount(labels, values), np.bincount(labels).astype(float)
    peer = stats.bootstrap(
        (sums, counts),
        lambda s, c, axis: s.sum(axis=axis) / c.sum(axis=axis),
        paired=True,
        method="percentile",
        n_resamples=20_000,
        rng=5,
    )
    [mine] = mean_intervals(values, labels, resamples=20_000)
    assert (mine.method, mine.units, mine.n, mine.rough) == ("bootstrap", 60, len(labels), False)
    assert mine.value == pytest.approx(values.mean())
    tolerance = 0.08 * float(peer.standard_error)
    assert mine.low == pytest.approx(peer.confidence_interval.low, abs=tolerance)
    assert mine.high == pytest.approx(peer.confidence_interval.high, abs=tolerance)


def test_the_cluster_standard_error_is_statsmodels() -> None:
    import statsmodels.api as sm

    generator = np.random.default_rng(6)
    labels = generator.integers(0, 9, 200)
    values = generator.random(200) + 0.3 * labels
    fitted = sm.OLS(values, np.ones(200)).fit(cov_type="cluster", cov_kwds={"groups": labels})
    assert units_of(values, labels).standard_errors[0] == pytest.approx(fitted.bse[0], rel=1e-12)
    alone = units_of(values).standard_errors[0]
    assert alone == pytest.approx(stats.sem(values), rel=1e-12)


def test_with_few_observations_it_is_the_t_interval_and_says_that_it_is_rough() -> None:
    values = np.random.default_rng(7).random(25)
    [mine] = mean_intervals(values)
    low, high = stats.t.interval(0.95, 24, values.mean(), stats.sem(values))
    assert (mine.low, mine.high) == pytest.approx((low, high), rel=1e-9)
    assert (mine.method, mine.rough, mine.note) == ("t", True, "only 25 observations")
    assert mine.how == "t over 25 observations"


@pytest.mark.parametrize(("successes", "n"), [(0, 12), (12, 12), (7, 12), (298, 300)])
def test_wilsons_interval_is_statsmodels(successes: int, n: int) -> None:
    from statsmodels.stats.proportion import proportion_confint

    values = np.r_[np.ones(successes), np.zeros(n - successes)]
    [mine] = mean_intervals(values, bounds=(0, 1))
    expected = proportion_confint(successes, n, method="wilson")
    assert mine.method == "wilson"
    assert (mine.low, mine.high) == pytest.approx(expected, abs=1e-12)
    assert mine.low < mine.high


def test_ten_clusters_are_covered_by_the_cluster_t_and_not_by_the_bootstrap() -> None:
    units = conversations(np.random.default_rng(8), 2000, icc=0.05)
    chosen = unit_intervals(units, bounds=(0, 1))
    assert {i.method for i in chosen} == {"t"}
    assert chosen[0].note == "only 10 clusters"
    # Monte Carlo error of 2,000 data sets: 0.5 points at 95%, 0.7 at 89%.
    assert 0.93 <= coverage(chosen, 0.5) <= 0.97
    booted = unit_intervals(units, method="bootstrap", resamples=1000)
    assert coverage(booted, 0.5) < 0.92


def test_from_forty_observations_the_bootstrap_covers() -> None:
    ranks, chances = np.array([1, 0.5, 0.25, 0.1, 0]), np.array([0.4, 0.2, 0.1, 0.1, 0.2])
    values = np.random.default_rng(9).choice(ranks, (40, 2000), p=chances)
    intervals = mean_intervals(values, bounds=(0, 1), resamples=2000)
    assert {i.method for i in intervals} == {"bootstrap"}
    assert 0.92 <= coverage(intervals, ranks @ chances) <= 0.97  # Monte Carlo error 0.5 points


def test_hits_near_one_are_covered_although_resampling_shows_no_spread() -> None:
    values = np.random.default_rng(10).binomial(1, 0.97, (30, 2000))
    assert coverage(mean_intervals(values, bounds=(0, 1)), 0.97) > 0.9
    assert coverage(mean_intervals(values, method="bootstrap", resamples=500), 0.97) < 0.7


def test_the_same_seed_gives_the_same_interval_alone_or_beside_other_metrics() -> None:
    generator = np.random.default_rng(11)
    values = generator.random((300, 4))
    values[generator.random((300, 4)) < 0.3] = np.nan
    together = mean_intervals(values, seed=12)
    assert together == mean_intervals(values, seed=12)
    assert together != mean_intervals(values, seed=13)
    for at in range(4):
        [alone] = mean_intervals(values[:, at], seed=12)
        assert (alone.low, alone.high) == pytest.approx((together[at].low, together[at].high))
        scored = values[~np.isnan(values[:, at]), at]
        [without] = mean_intervals(scored, seed=12)
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
    assert (interval.method, interval.rough, interval.note) == ("none", True, note)
    assert np.isnan([interval.low, interval.high]).all()
    assert np.isnan(interval.value) == (interval.n == 0)


def test_equal_values_give_an_interval_of_no_length_that_says_so() -> None:
    for n in (7, 700):
        [interval] = mean_intervals(np.full(n, 0.1))
        assert (interval.low, interval.high) == pytest.approx((0.1, 0.1))
        assert interval.rough
        assert interval.note.startswith(f"all {n} observations are equal")


def test_t_intervals_end_at_the_bounds() -> None:
    [interval] = mean_intervals([1, 1, 1, 0.2], bounds=(0, 1))
    assert interval.high == 1.0
    assert interval.low > 0


@pytest.mark.parametrize(
    ("values", "clusters"),
    [([[[1.0]]], None), ([1.0, np.inf], None), ([1.0, 2.0], ["a"]), ([1.0], [["a"]])],
)
def test_bad_shapes_and_infinite_values_are_refused(values: object, clusters: object) -> None:
    with pytest.raises(ValueError, match="must be"):
        mean_intervals(values, clusters)  # type: ignore[arg-type]
