"""The sign-flip test: against SciPy, by hand, and by its false positives."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from harness.stats.clusters import to_clusters
from harness.stats.resampling import sign_flip_test


def p_values(differences: object, clusters: object = None, resamples: int = 10_000) -> list[float]:
    units = to_clusters(differences, clusters)  # type: ignore[arg-type]
    return [test.p for test in sign_flip_test(units, resamples, seed=0)]


def test_few_pairs_are_enumerated_and_give_scipys_exact_p() -> None:
    differences = np.random.default_rng(1).normal(0.4, 1, (12, 3))
    peer = stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=np.inf, axis=0
    )
    found = sign_flip_test(to_clusters(differences), 10_000, seed=0)
    assert [test.p for test in found] == pytest.approx(peer.pvalue.tolist(), abs=1e-12)
    assert all(test.exact and test.smallest == 2**-11 for test in found)
    assert found[0].smallest == 2 / 2**12


def test_by_hand() -> None:
    # +1 +1 +1: all three, or none, of eight assignments are as far from 0.
    assert p_values([1, 1, 1]) == [0.25]
    # Sums of -1 to 3 in eighths: |2| or more are 1 1 1, -1 -1 -1 and what leaves out one 0.5.
    assert p_values([2, 1, 1]) == [0.25]
    assert p_values([1, -1, 0, 0]) == [1.0]


def test_many_pairs_give_scipys_p_within_monte_carlo_error() -> None:
    differences = np.random.default_rng(2).normal(0.1, 1, (300, 4))
    peer = stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=20_000, axis=0, rng=3
    )
    error = np.sqrt(peer.pvalue * (1 - peer.pvalue) * (1 / 10_000 + 1 / 20_000))
    found = np.array(p_values(differences))
    assert (np.abs(found - peer.pvalue) <= 4 * error + 1e-4).all()


def test_p_is_never_zero_and_a_flip_that_gives_the_same_sum_counts() -> None:
    assert p_values(np.full(500, 0.3)) == [1 / 10_001]
    # Differences of thirds: other orders of the same sum differ in their last digits.
    differences = np.r_[np.full(9, 1 / 3), np.full(5, -1 / 3)]
    wins = stats.binomtest(9, 14).pvalue
    assert p_values(differences) == [pytest.approx(wins, rel=1e-12)]
    drawn = p_values(differences, resamples=8_000)[0]
    assert drawn == pytest.approx(wins, abs=4 * np.sqrt(wins * (1 - wins) / 8_000))


def test_whole_clusters_are_flipped() -> None:
    generator = np.random.default_rng(4)
    labels = np.repeat(np.arange(8), generator.integers(2, 9, 8))
    differences = generator.normal(0.2, 1, len(labels))
    sums = np.bincount(labels, differences)
    assert p_values(differences, labels) == p_values(sums)
    [test] = sign_flip_test(to_clusters(differences, labels), 10_000, seed=0)
    assert (test.exact, test.smallest) == (True, 2 / 2**8)


def test_false_positives_are_as_many_as_promised() -> None:
    differences = np.random.default_rng(5).normal(0, 1, (40, 3000))
    rate = np.mean(np.array(p_values(differences, resamples=2000)) <= 0.05)
    assert rate == pytest.approx(0.05, abs=0.012)  # Monte Carlo error 0.4 points


def test_clusters_taken_for_independent_queries_find_what_is_not_there() -> None:
    generator = np.random.default_rng(6)
    labels = np.repeat(np.arange(10), 20)
    shift = generator.normal(0, 0.5, (10, 1000))[labels]
    differences = shift + generator.normal(0, 1, (200, 1000))
    aware = np.mean(np.array(p_values(differences, labels)) <= 0.05)
    blind = np.mean(np.array(p_values(differences, resamples=1000)) <= 0.05)
    assert aware == pytest.approx(0.05, abs=0.025)  # Monte Carlo error 0.7 points
    assert blind > 0.25


def test_the_seed_decides_and_other_metrics_do_not() -> None:
    differences = np.random.default_rng(7).normal(0.05, 1, (200, 3))
    units = to_clusters(differences)
    assert sign_flip_test(units, 3000, 1) == sign_flip_test(units, 3000, 1)
    assert sign_flip_test(units, 3000, 1) != sign_flip_test(units, 3000, 2)
    for at, together in enumerate(sign_flip_test(units, 3000, 1)):
        assert sign_flip_test(to_clusters(differences[:, at]), 3000, 1) == [together]


def test_nothing_to_test_has_no_p_and_no_difference_has_p_one() -> None:
    assert np.isnan(p_values([np.nan, np.nan])).all()
    assert np.isnan(p_values(np.zeros((0, 2)))).all()
    assert p_values(np.zeros(50)) == [1.0]
    assert p_values([0.4]) == [1.0]
    assert p_values([0.4, 0.2], ["a", "a"]) == [1.0]
