"""Agreement against published worked examples, other implementations, and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from harness.stats.agreement import cohens_kappa, krippendorff_alpha, percent_agreement

_ = math.nan
KRIPPENDORFF = np.array(
    [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, _, _, _],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, _, 3],
        [_, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, _],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, _],
    ]
)
"""The reliability data of section C of Krippendorff (2011), Computing Krippendorff's
Alpha-Reliability: four observers, twelve units."""


def noisy() -> np.ndarray:
    """Three annotators with gaps, from a fixed seed."""
    rng = np.random.default_rng(7)
    base = rng.choice(4, 200, p=[0.6, 0.2, 0.12, 0.08])
    ratings = np.stack(
        [np.where(rng.random(200) < 0.7, base, rng.integers(0, 4, 200)) for _ in range(3)]
    ).astype(float)
    ratings[rng.random(ratings.shape) < 0.15] = np.nan
    return ratings


@pytest.mark.parametrize(
    ("distance", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)]
)
def test_alpha_is_the_published_one(distance: str, published: float) -> None:
    found = krippendorff_alpha(KRIPPENDORFF, distance=distance)
    assert round(found.value, 3) == published
    assert found.units == 11  # unit 12 was judged once


@pytest.mark.parametrize(
    ("distance", "krippendorff"),
    [
        ("nominal", 0.401558191499477),
        ("ordinal", 0.4160254004692564),
        ("interval", 0.3831968275361567),
    ],
)
def test_alpha_equals_the_package_krippendorff(distance: str, krippendorff: float) -> None:
    """Golden values of `krippendorff.alpha`, version 0.9.0."""
    assert krippendorff_alpha(noisy(), distance=distance).value == pytest.approx(
        krippendorff, abs=1e-12
    )


@pytest.mark.parametrize(
    ("weights", "sklearn"),
    [
        ("none", 0.3434343434343434),
        ("linear", 0.33442622950819667),
        ("quadratic", 0.34085603112840457),
    ],
)
def test_kappa_equals_scikit_learns(weights: str, sklearn: float) -> None:
    """Golden values of `sklearn.metrics.cohen_kappa_score`, version 1.9.1."""
    ratings = noisy()
    found = cohens_kappa(ratings[0], ratings[1], weights=weights)
    assert found.value == pytest.approx(sklearn, abs=1e-12)


def test_per_cent_agreement_of_two_is_the_share_of_equal_units() -> None:
    a, b = [0, 1, 2, 3, _], [0, 1, 0, 3, 1]
    assert percent_agreement([a, b]).value == 0.75


@pytest.mark.parametrize("value", [0, 3])
def test_nothing_that_could_disagree_is_not_measurable(value: int) -> None:
    same = np.full(20, float(value))
    for found in (krippendorff_alpha([same, same]), cohens_kappa(same, same)):
        assert not found.measurable
        assert math.isnan(found.low)
        assert "not measurable" in found.note
    assert percent_agreement([same, same]).value == 1


def test_who_never_judged_the_same_has_no_agreement() -> None:
    for found in (
        krippendorff_alpha([[1, _], [_, 2]]),
        cohens_kappa([1, _], [_, 2]),
        percent_agreement(np.zeros((2, 0))),
    ):
        assert (found.units, found.measurable) == (0, False)
        assert found.note == "nothing was judged by two annotators"


def test_full_agreement_is_not_certainty() -> None:
    labels = np.repeat([1.0, 0.0], [10, 5])
    for found in (
        krippendorff_alpha([labels, labels]),
        cohens_kappa(labels, labels),
        percent_agreement([labels, labels]),
        percent_agreement([np.ones(15), np.ones(15)]),
    ):
        assert (found.value, found.high) == (1, 1)
        assert 0.3 < found.low < 0.85


def test_kappas_intervals_hold_the_true_value_with_fifty_items() -> None:
    """95% less 3 Monte Carlo errors of 300 samples: right answers in .9, a judge of .95 and .9."""
    rng = np.random.default_rng(4)
    held, true = 0, 0.735632
    for _ in range(300):
        right = rng.random(50) < 0.9
        judged = np.where(right, rng.random(50) < 0.95, rng.random(50) >= 0.9)
        found = cohens_kappa(right, judged)
        held += math.isnan(found.value) or found.low <= true <= found.high
    assert held / 300 >= 0.912


def test_whole_clusters_are_resampled() -> None:
    rng = np.random.default_rng(3)
    queries = np.repeat(np.arange(50), 8)
    careful = np.repeat(rng.random(50) < 0.5, 8)  # of half of the queries nobody is sure
    a = rng.integers(0, 4, 400)
    b = np.where(careful, a, rng.integers(0, 4, 400))
    alone, clustered = krippendorff_alpha([a, b]), krippendorff_alpha([a, b], queries)
    assert alone.value == clustered.value
    assert (alone.clusters, clustered.clusters) == (400, 50)
    assert clustered.high - clustered.low > 1.3 * (alone.high - alone.low)
    assert (alone.note, clustered.note) == ("", "")
    assert krippendorff_alpha([a, b], queries // 2).note == "only 25 clusters"
    unequal = krippendorff_alpha([a, b], np.maximum(np.arange(400) - 340, 0))
    assert unequal.note == "60 clusters so unequal that they tell as much as 1.4"
    one = krippendorff_alpha([a, b], np.zeros(400))
    assert one.note == "a single cluster shows no spread: no interval"
    assert krippendorff_alpha([[0], [1]]).note == "a single unit shows no spread: no interval"


@pytest.mark.parametrize("queries", [5, 40])
def test_intervals_hold_the_true_value_as_often_as_they_say(queries: int) -> None:
    """Queries of 8 documents, 200 samples: 95% within 3 Monte Carlo errors of 1.5 points."""
    rng = np.random.default_rng(5)

    def draw(queries: int) -> tuple[np.ndarray, np.ndarray]:
        rate, skill = rng.beta(1, 3, (queries, 1)), rng.beta(8, 2, (queries, 1))

        def guess() -> np.ndarray:
            relevant = rng.random((queries, 8)) < rate
            return np.where(relevant, rng.integers(1, 4, (queries, 8)), 0)

        truth = guess()
        both = [np.where(rng.random((queries, 8)) < skill, truth, guess()) for _ in range(2)]
        return np.stack(both).reshape(2, -1), np.repeat(np.arange(queries), 8)

    true = krippendorff_alpha(draw(20_000)[0]).value
    found = [krippendorff_alpha(*draw(queries)) for _ in range(200)]
    held = np.mean([one.low <= true <= one.high for one in found])
    assert abs(held - 0.95) <= 0.045


def test_wrong_shapes_are_refused() -> None:
    for call in (
        lambda: krippendorff_alpha([1, 2]),
        lambda: krippendorff_alpha([[1, math.inf]]),
        lambda: krippendorff_alpha([[1, 2]], [1]),
        lambda: krippendorff_alpha([[1, 2]], distance="ratio"),
        lambda: cohens_kappa([[1]], [1]),
        lambda: cohens_kappa([1, 2], [1, 2], weights="cubic"),
    ):
        with pytest.raises(ValueError):
            call()
