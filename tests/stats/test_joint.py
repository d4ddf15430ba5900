"""Differences tested together, and ranges of ranks, against enumeration and simulation."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import product

import numpy as np
import pytest

from harness.stats.clusters import Values, to_clusters
from harness.stats.joint import joint_tests, mean_tests, rank_ranges
from harness.stats.paired import paired_t
from harness.stats.power import power_of
from harness.stats.proportions import holm
from harness.stats.resampling import RESAMPLING

UNEQUAL = np.repeat(np.arange(10), [180, *[5] * 9])


def by_enumeration(sums: Values, *, one_sided: bool = False) -> list[float]:
    """Westfall and Young's p of the columns of (units, columns), from every assignment of signs."""
    signs = np.array(list(product((-1, 1), repeat=len(sums))))
    scale = np.sqrt((sums**2).sum(axis=0))
    flipped, observed = signs @ sums / scale, sums.sum(axis=0) / scale
    if not one_sided:
        flipped, observed = np.abs(flipped), np.abs(observed)
    p, before = [math.nan] * sums.shape[1], 0.0
    left = list(np.argsort(-observed))
    while left:
        largest = flipped[:, left].max(axis=1)
        before = max(before, float((largest >= observed[left[0]] - 1e-9).mean()))
        p[left.pop(0)] = before
    return p


def test_the_step_down_is_that_of_all_assignments() -> None:
    generator = np.random.default_rng(0)
    for n in (10, 12):  # of haystacks
        values = generator.normal(0.4, 1, (n, 4)) + generator.normal(0, 1, (n, 1))
        clusters = np.repeat(np.arange(n), 3)
        whole = np.repeat(values, 3, axis=0)
        for one_sided in (False, True):
            expected = pytest.approx(by_enumeration(values, one_sided=one_sided))
            assert [t.p for t in joint_tests(values, one_sided=one_sided)] == expected
            found = joint_tests(whole, clusters, one_sided=one_sided)
            assert [t.p for t in found] == expected
            assert {t.clusters for t in found} == {n}


def test_fewer_than_ten_clusters_are_tested_by_t_with_holms_correction() -> None:
    generator = np.random.default_rng(0)
    clusters = np.repeat(np.arange(6), [30, 10, 12, 8, 20, 15])
    values = generator.normal(0.4, 1, (95, 4)) + generator.normal(0, 0.3, (6, 4))[clusters]
    values[:, 3] = 0  # a column that ties everywhere costs the others nothing
    p = np.array([t.p for t in paired_t(values[:, :3], np.zeros((95, 3)), clusters)])
    assert [t.p for t in joint_tests(values, clusters)] == pytest.approx([*holm(p), 1])
    fell = [t.p for t in joint_tests(values, clusters, one_sided=True)]
    assert fell == pytest.approx([*holm(p / 2), 1])
    # Few single queries have no normal mean.
    (single,) = joint_tests([0.5, 0.5, 0.5, 0.5, 1.0])
    assert (single.p, single.least) == (2 / 2**5, 2 / 2**5)


def test_clusters_that_all_differ_alike_are_tested_as_if_one_observation_did_not() -> None:
    clusters = np.repeat(np.arange(4), [5, 2, 5, 5])
    alike, one = np.full(17, 0.5), np.full(17, 0.5)
    one[5] = 0
    for one_sided in (False, True):
        expected, found = (joint_tests(x, clusters, one_sided=one_sided)[0] for x in (one, alike))
        assert found == expected
    assert mean_tests(to_clusters(alike, clusters), RESAMPLING)[0].p == pytest.approx(2 * found.p)
    assert found.p < 0.05
    (same,) = joint_tests(np.zeros(17), clusters)
    assert (same.p, same.least < 0.05, math.isnan(same.detectable)) == (1, True, True)


def test_by_t_nothing_can_be_shown_where_not_even_a_difference_of_1_could() -> None:
    """The least p is above 0.05 just where the detectable difference is above 1."""
    generator = np.random.default_rng(12)
    seen = set()
    for haystacks in (2, 3, 5):
        clusters = np.repeat(np.arange(haystacks), 4)
        for spread in np.geomspace(0.01, 1, 12):
            values = spread * generator.normal(0, 1, (haystacks, 3))[clusters]
            for test in joint_tests(values, clusters):
                assert (test.least > 0.05) == (test.detectable > 1)
                seen.add((haystacks, test.least > 0.05))
    assert len(seen) == 6


def test_of_unequal_clusters_how_little_could_have_been_shown_may_not_be_known() -> None:
    """Nothing but noise in one haystack of 180 and nine of 5: a fall in all would be shown."""
    generator = np.random.default_rng(13)
    values = generator.normal(0, 1, (225, 1))
    (found,) = joint_tests(values, UNEQUAL, one_sided=True)
    assert (found.least, math.isnan(found.detectable)) == (1 / 2**10, True)
    (fell,) = joint_tests(values + 2, UNEQUAL, one_sided=True)
    assert fell.p <= 0.05


def family(generator: np.random.Generator, clusters: Values) -> Values:
    """Three metrics over all questions and in four slices, most of them ties, shared by users."""
    n = len(clusters)
    home = generator.normal(0, 0.2, (int(clusters.max()) + 1, 1))[clusters]
    differs = generator.random((n, 1)) < 0.4
    metrics = differs * np.sign(generator.normal(home, 1, (n, 1)) + generator.normal(0, 1, (n, 3)))
    slices = generator.integers(0, 4, n)
    parts = [np.ones(n, bool), *(slices == at for at in range(4))]
    return np.concatenate([np.where(part[:, None], metrics, np.nan) for part in parts], axis=1)


@pytest.mark.slow
@pytest.mark.parametrize("haystacks", [3, 6, 12])
@pytest.mark.parametrize("one_sided", [False, True])
def test_five_slices_of_three_metrics_seldom_show_a_false_star(
    haystacks: int, *, one_sided: bool
) -> None:
    """Holm by metric, apart over all questions and by slice, showed one in 13 to 17%."""
    generator = np.random.default_rng(haystacks)
    clusters = np.arange(240) % haystacks
    wrong = 0
    for _ in range(300):
        tests = joint_tests(
            family(generator, clusters), clusters, one_sided=one_sided, resamples=400
        )
        wrong += any(t.p <= 0.05 for t in tests)
    assert wrong / 300 <= 0.05 + 2 * math.sqrt(0.05 * 0.95 / 300)


@pytest.mark.slow
@pytest.mark.parametrize("haystacks", [3, 6, 12])
@pytest.mark.parametrize("one_sided", [False, True])
def test_the_detectable_difference_is_found_four_times_of_five_beside_others(
    haystacks: int, *, one_sided: bool
) -> None:
    """As large as its mean square says: of few haystacks the spread itself is a guess."""
    generator = np.random.default_rng(haystacks)
    clusters = np.arange(60 * haystacks) % haystacks

    def test(shift: float) -> tuple[float, float]:
        values = family(generator, clusters)
        values[:, 0] += shift
        found = joint_tests(values, clusters, one_sided=one_sided, resamples=400)[0]
        return found.detectable, found.p

    detectable = math.sqrt(np.mean([test(0.0)[0] ** 2 for _ in range(250)]))
    power = np.mean([test(detectable)[1] <= 0.05 for _ in range(250)])
    assert power == pytest.approx(0.8, abs=0.08)  # Monte Carlo error 2.5 points, and of the spread


def test_a_family_of_one_is_the_test_of_one() -> None:
    generator = np.random.default_rng(1)
    values = generator.normal(0.2, 1, (120, 1))
    values[5] = math.nan
    for clusters in (None, np.arange(120) // 30, np.arange(120) // 4, UNEQUAL[105:]):
        (found,) = joint_tests(values, clusters)
        (alone,) = mean_tests(to_clusters(values, clusters), RESAMPLING)
        assert found.p == alone.p
    detectable = power_of(values)[0].detectable
    assert joint_tests(values)[0].detectable == pytest.approx(detectable, rel=0.02)


def test_what_says_the_same_twice_costs_nothing_and_what_differs_costs_less_than_holm() -> None:
    generator = np.random.default_rng(2)
    values = generator.normal(0.25, 1, (80, 1))
    (alone,) = joint_tests(values)
    twice = joint_tests(np.repeat(values, 25, axis=1))
    assert {t.p for t in twice} == {alone.p}
    assert twice[0].detectable == pytest.approx(alone.detectable)
    alike = joint_tests(values + generator.normal(0, 0.3, (80, 25)))
    assert min(t.p for t in alike) < 25 * alone.p / 4
    assert alone.detectable < alike[0].detectable < 1.3 * alone.detectable


def test_no_columns_are_no_tests() -> None:
    assert joint_tests(np.zeros((5, 0))) == []


def test_columns_of_too_few_units_can_show_nothing_and_say_so() -> None:
    """Four of sixty that all fell have p = 2 / 16; six beside many columns are no more."""
    values = np.random.default_rng(3).normal(0, 1, (60, 40))
    values[4:, 0] = math.nan
    values[:, 1] = math.nan
    values[6:, 3] = math.nan
    tests = joint_tests(values)
    assert min(tests[0].least, tests[3].least) > 0.05
    assert [t.least for t in joint_tests(values[:, [0]])] == [2 / 2**4]
    assert joint_tests(values[:, [3]])[0].least == 2 / 2**6
    assert joint_tests(values[:, [0]], one_sided=True)[0].least == 1 / 2**4
    assert math.isinf(tests[3].detectable)
    assert tests[2].detectable < 1
    assert (math.isnan(tests[1].p), tests[1].clusters) == (True, 0)
    (one,) = joint_tests(np.ones(3), np.zeros(3))
    assert (one.p, one.least) == (1, 1)


@pytest.mark.parametrize("clusters", [None, UNEQUAL[:225] % 10, np.arange(225) // 25])
def test_of_families_in_which_nothing_differs_few_show_a_difference(
    clusters: Values | None,
) -> None:
    """At most 5% whatever the sizes of clusters; 600 families are 0.9 points of error."""
    generator = np.random.default_rng(4)
    wrong = 0
    for _ in range(600):
        common = generator.normal(0, 1, (225, 1))
        if clusters is not None:
            common = common + generator.normal(0, 1, (10, 1))[clusters]
        values = common + generator.exponential(1, (225, 6)) - generator.exponential(1, (225, 6))
        values[100:, 3:] = math.nan  # slices
        tests = joint_tests(values, clusters, resamples=500)
        wrong += any(t.p <= 0.05 for t in tests)
    assert wrong / 600 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 600)


# -- Ranks -----------------------------------------------------------------------------------------


def ranges(values: Values, clusters: Values | None = None) -> list[tuple[int, int]]:
    (found,) = rank_ranges(values, clusters)
    return list(zip(found.best.tolist(), found.worst.tolist(), strict=True))


def by_hypotheses(sums: Values, alpha: float = 0.05) -> list[tuple[int, int]]:
    """The same ranges from a list of ordered pairs, each a hypothesis, and every assignment."""
    signs = np.array(list(product((-1, 1), repeat=len(sums))))
    m = sums.shape[1]
    left = {(j, k): sums[:, j] - sums[:, k] for j in range(m) for k in range(m) if j != k}
    left = {pair: d / math.sqrt((d**2).sum()) for pair, d in left.items() if d.any()}
    better: set[tuple[int, int]] = set()
    while left:
        largest = np.max([signs @ d for d in left.values()], axis=0)
        new = {pair for pair, d in left.items() if (largest >= d.sum() - 1e-9).mean() <= alpha}
        if not new:
            break
        better |= new
        left = {pair: d for pair, d in left.items() if pair not in new}
    return [
        (1 + sum(k == s for _, k in better), m - sum(j == s for j, _ in better)) for s in range(m)
    ]


def test_ranges_are_those_of_every_hypothesis_and_every_assignment() -> None:
    generator = np.random.default_rng(5)
    several = set()
    for spread in (0.0, 0.5, 1.5):
        for n in (6, 9):
            level = spread * np.arange(5)
            values = generator.normal(0, 1, (n, 5)) + level + generator.normal(0, 2, (n, 1))
            values[:, 4] = values[:, 3]  # the very same system twice
            expected = by_hypotheses(values)
            assert ranges(values) == expected
            assert ranges(np.repeat(values, 4, axis=0), np.repeat(np.arange(n), 4)) == expected
            several.add(tuple(expected))
    assert len(several) == 3


def test_what_is_common_to_all_queries_does_not_widen_a_range() -> None:
    """Two that lie within each other's intervals, one of them better on nearly every query."""
    generator = np.random.default_rng(6)
    hard = generator.random((300, 1))
    values = np.concatenate([hard, hard + 0.02 * (generator.random((300, 1)) < 0.3)], axis=1)
    assert ranges(values) == [(2, 2), (1, 1)]


def test_equal_systems_share_their_ranks_and_few_units_show_no_order() -> None:
    values = np.random.default_rng(7).random((200, 3))
    values[:, 1:] = values[:, :1]
    assert ranges(values) == [(1, 3)] * 3
    apart = np.tile([0.9, 0.5, 0.1], (200, 1))
    assert ranges(apart) == [(1, 1), (2, 2), (3, 3)]
    assert ranges(apart, np.arange(200) // 40) == [(1, 3)] * 3
    (found,) = rank_ranges(apart, np.arange(200) // 40)
    assert (found.clusters, found.least) == (5, 0.0625)


def test_a_metric_has_the_same_ranges_alone_and_beside_others() -> None:
    generator = np.random.default_rng(8)
    values = generator.random((90, 6, 4)) + 0.1 * np.arange(6)[:, None]
    values[7:, :, 2] = 0.5  # few that differ: these are enumerated, the others drawn
    together = rank_ranges(values)
    for at, found in enumerate(together):
        (alone,) = rank_ranges(values[:, :, at])
        assert found.best.tolist() == alone.best.tolist()
        assert found.worst.tolist() == alone.worst.tolist()


def equal(generator: np.random.Generator, m: int, clusters: Values) -> Values:
    """Systems alike on the whole: reciprocal ranks, and each at home in other haystacks."""
    home = generator.normal(0, 0.15, (int(clusters.max()) + 1, m))[clusters]
    found = generator.random((len(clusters), m)) < 0.3 + home
    return np.where(found, 1 / generator.integers(1, 11, found.shape), 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("clusters", [np.arange(60), UNEQUAL, np.arange(120) // 12])
@pytest.mark.parametrize("m", [2, 13])
def test_of_boards_of_equal_systems_few_have_a_false_order(m: int, clusters: Sequence[int]) -> None:
    """At most 5% of boards; 400 are 1.1 points of error."""
    generator = np.random.default_rng(m)
    labels = np.asarray(clusters)
    wrong = 0
    for _ in range(400):
        found = ranges(equal(generator, m, labels), labels)
        wrong += found != [(1, m)] * m
    assert wrong / 400 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 400)


def test_ranges_hold_the_true_ranks_of_unequal_systems() -> None:
    generator = np.random.default_rng(9)
    true = np.array([0.30, 0.32, 0.32, 0.40, 0.55, 0.70])
    best = (true[:, None] < true).sum(axis=1) + 1
    worst = len(true) - (true[:, None] > true).sum(axis=1)
    held = narrow = 0
    for _ in range(200):
        query = generator.normal(0, 0.15, (150, 1))
        (found,) = rank_ranges(generator.random((150, 6)) < true + query)
        held += bool(((found.best <= best) & (found.worst >= worst)).all())
        narrow += bool((found.worst - found.best).mean() < 3)
    assert held >= 0.95 * 200 - 3 * math.sqrt(200 * 0.05 * 0.95)
    assert narrow > 180  # and they say something


def test_values_that_are_lacking_are_refused() -> None:
    with pytest.raises(ValueError, match="a finite value in each"):
        rank_ranges([[0.1, math.nan], [0.2, 0.3]])
    with pytest.raises(ValueError, match="level"):
        joint_tests([1.0, 2.0], level=1.0)
