"""The true rate behind a judge that errs: exact cases, what must hold, and coverage."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.stats.intervals import mean_intervals
from harness.stats.judged import (
    Errors,
    corrected_rate,
    prediction_powered,
    prediction_powered_difference,
)


def test_a_judge_of_known_errors_is_corrected_for_them() -> None:
    judged = np.repeat([1.0, 0.0], [525, 475])
    errors = Errors(hits=950, misses=50, rejections=900, alarms=100)
    found = corrected_rate(judged, errors)
    assert found.value == pytest.approx((0.525 + 0.9 - 1) / (0.95 + 0.9 - 1))
    assert found.value == pytest.approx(0.5)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0.5 < found.high
    assert (found.n, found.people, found.note) == (1000, 2000, "")


@pytest.mark.parametrize("right", range(6))
def test_no_small_table_of_errors_gives_an_inverted_interval_or_one_without_length(
    right: int,
) -> None:
    for said, wrong in itertools.product((0, 30, 50, 95, 100), range(6)):
        judged = np.repeat([1.0, 0.0], [said, 100 - said])
        for hits, rejections in itertools.product(range(right + 1), range(wrong + 1)):
            errors = Errors(hits, right - hits, rejections, wrong - rejections)
            found = corrected_rate(judged, errors)
            if found.value is None or found.low is None or found.high is None:
                assert "no right" in found.note or "hardly" in found.note or "no int" in found.note
            else:
                assert found.low <= found.value <= found.high, errors
                assert found.high - found.low > 0.01, errors


def test_a_rate_that_no_true_rate_gives_with_such_errors_has_no_interval() -> None:
    never = corrected_rate(np.zeros(100), Errors(950, 50, 900, 100))
    assert (never.value, never.low, never.high) == (0.0, None, None)
    assert never.note.startswith("the judge's rate does not fit its errors")
    few = corrected_rate(np.zeros(100), Errors(50, 0, 2, 0))
    assert (few.value, few.low, few.note) == (0.0, None, "people judged 2 of one kind: no interval")


def test_what_cannot_be_told_is_said() -> None:
    judged = np.array([1.0, 0.0, 1.0, np.nan])
    for errors, said in (
        (Errors(10, 2, 0, 0), "no right, or no wrong answer"),
        (Errors(5, 5, 5, 5), "hardly separates"),
        (Errors(0, 10, 0, 10), "hardly separates"),
        (Errors(1, 0, 1, 3), "hardly separates"),
        (Errors(1, 0, 6, 24), "hardly separates"),
        (Errors(2, 0, 3, 9), "hardly separates"),
    ):
        found = corrected_rate(judged, errors)
        assert (found.value, found.low, found.high) == (None, None, None)
        assert said in found.note
    assert "of one kind" in corrected_rate(judged, Errors(9, 0, 30, 1)).note
    none = np.full(4, np.nan)
    assert prediction_powered(judged, none).value is None
    few = prediction_powered(judged, np.array([1.0, 0.0, np.nan, np.nan]))
    assert few.note == "people judged 2 answers only"
    with pytest.raises(ValueError, match="as long as each other"):
        prediction_powered(judged, none[:3])


def test_with_everybody_asked_the_people_alone_decide() -> None:
    people = np.array([1.0, 0.0, 1.0, 1.0, 0.0] * 20)
    found = prediction_powered(1 - people, people)
    assert (found.value, found.weight, found.people) == (pytest.approx(0.6), 0.0, 100)


def test_a_perfect_judge_is_trusted_and_a_blind_one_is_not() -> None:
    draw = np.random.default_rng(3)
    truth = (draw.random(600) < 0.4).astype(float)
    people = np.where(np.arange(600) < 120, truth, np.nan)
    perfect = prediction_powered(truth, people)
    blind = prediction_powered(draw.integers(0, 2, 600).astype(float), people)
    assert perfect.weight == pytest.approx(1 / (1 + 120 / 480))
    assert perfect.value == pytest.approx(truth.mean())
    assert blind.weight < 0.2
    assert blind.value == pytest.approx(truth[:120].mean(), abs=0.02)
    assert perfect.high is not None
    assert blind.high is not None
    assert perfect.high - (perfect.low or 0) < blind.high - (blind.low or 0)


def test_a_judge_that_favours_a_system_is_seen_through_by_people_alone() -> None:
    draw = np.random.default_rng(4)
    a, b = draw.random(4000) < 0.5, draw.random(4000) < 0.5
    said = (
        np.where(b, True, draw.random(4000) < 0.3).astype(float) - a
    )  # b is called right too often
    people = np.where(np.arange(4000) < 800, b.astype(float) - a, np.nan)
    found = prediction_powered_difference(said, people)
    assert said.mean() > 0.1
    assert found.low is not None
    assert found.high is not None
    assert found.low < (b.mean() - a.mean()) < found.high
    assert found.high < 0.1


def test_differences_turn_with_the_systems_and_reach_from_minus_one() -> None:
    draw = np.random.default_rng(5)
    judged = draw.integers(-1, 2, 90).astype(float)
    people = np.where(np.arange(90) < 40, judged, np.nan)
    clusters = np.arange(90) // 5
    one = prediction_powered_difference(judged, people, clusters)
    other = prediction_powered_difference(-judged, -people, clusters)
    assert one.low is not None
    assert other.high is not None
    assert (one.value, one.low) == pytest.approx((-other.value, -other.high))
    over = prediction_powered_difference(  # 4 / 3 before it is cut, and half as wide from there
        [0, 0, 0, 0, 1, -1, *[1] * 5, 0, *[1] * 9], [*[1] * 5, -1, *[np.nan] * 15]
    )
    assert over.low is not None
    assert (over.value, over.high, over.low < 0.5) == (1.0, 1.0, True)
    lost = prediction_powered_difference(-np.ones(30), -np.ones(30))
    assert (lost.value, lost.low) == (-1.0, -1.0)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
@settings(max_examples=50)
def test_every_interval_holds_its_estimate_and_few_clusters_are_flagged(seed: int, n: int) -> None:
    draw = np.random.default_rng(seed)
    clusters = np.repeat(np.arange(n), draw.integers(3, 99, n))
    rates = draw.beta(3, 1, n)[clusters]
    right = draw.random(len(rates)) < rates
    judged = np.where(right, draw.random(len(rates)) < 0.94, draw.random(len(rates)) < 0.09) * 1.0
    people = np.where(draw.random(len(rates)) < 0.5, right, np.nan)
    errors = Errors(45, 3, 20, 2)
    for found in (
        corrected_rate(judged, errors, clusters),
        prediction_powered(judged, people, clusters),
        prediction_powered_difference(judged, people, clusters),
    ):
        if found.value is not None and found.low is not None and found.high is not None:
            assert found.low <= found.value <= found.high
        assert "cluster" in found.note or found.people < 10


def test_the_interval_with_people_holds_the_truth_in_ten_clusters_that_differ() -> None:
    """Ten clusters of 50 with rates of mean .97 and correlation .3: .84 before."""
    draw = np.random.default_rng(6)
    clusters, held = np.repeat(np.arange(10), 50), 0
    for _ in range(200):
        right = draw.random(500) < draw.beta(0.97 * 7 / 3, 0.03 * 7 / 3, 10)[clusters]
        judged = np.where(right, draw.random(500) < 0.95, draw.random(500) >= 0.9) * 1.0
        people = np.where(draw.permutation(500) < 200, right, np.nan)
        found = prediction_powered(judged, people, clusters)
        held += found.low is not None and found.high is not None and found.low <= 0.97 <= found.high
    assert held / 200 >= 0.91


@pytest.mark.parametrize("people", [20, 50])
def test_a_difference_with_a_judge_is_no_wider_than_that_of_people_alone(people: int) -> None:
    draw = np.random.default_rng(8)
    widths = np.zeros(2)
    for _ in range(100):
        first = draw.random(500)
        second = np.where(draw.random(500) < 0.9, first, draw.random(500))
        a, b = first < 0.9, second < 0.95
        said = [
            np.where(one, draw.random(500) < 0.8, draw.random(500) >= 0.8) * 1.0 for one in (a, b)
        ]
        seen = draw.permutation(500) < people
        known = np.where(seen, b * 1.0 - a, np.nan)
        found = prediction_powered_difference(said[1] - said[0], known)
        alone = mean_intervals(np.append(known[seen], [1, -1]), bounds=(-1, 1))[0]
        assert found.low is not None
        assert found.high is not None
        widths += found.high - found.low, alone.high - alone.low
    assert widths[0] < widths[1]


@pytest.mark.parametrize("haystacks", [500, 10])
def test_an_interval_with_a_judge_is_no_wider_on_the_average_than_that_of_people_alone(
    haystacks: int,
) -> None:
    draw = np.random.default_rng(9)
    clusters, widths = np.repeat(np.arange(haystacks), 500 // haystacks), np.zeros(2)
    for _ in range(100):
        right = draw.random(500) < 0.7
        errs = draw.random((2, haystacks))[:, clusters] * 0.4
        said = np.where(right, draw.random(500) > errs[0], draw.random(500) < errs[1]) * 1.0
        people = np.where(draw.permutation(500) < 50, right, np.nan)
        for at, judged in enumerate((said, np.zeros(500))):  # of one value a judge has no weight
            found = prediction_powered(judged, people, clusters)
            assert found.low is not None
            assert found.high is not None
            widths[at] += found.high - found.low
    assert widths[0] < widths[1]


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=25)
def test_the_order_of_answers_makes_no_difference(seed: int) -> None:
    draw = np.random.default_rng(seed)
    judged = draw.integers(0, 2, 80).astype(float)
    people = np.where(draw.random(80) < 0.4, draw.integers(0, 2, 80), np.nan)
    clusters = draw.integers(0, 9, 80)
    order = draw.permutation(80)
    for found, other in (
        (
            prediction_powered(judged, people, clusters),
            prediction_powered(judged[order], people[order], clusters[order]),
        ),
        (
            corrected_rate(judged, Errors(40, 4, 30, 6), clusters),
            corrected_rate(judged[order], Errors(40, 4, 30, 6), clusters[order]),
        ),
    ):
        assert (found.value, found.low, found.high) == pytest.approx(
            (other.value, other.low, other.high)
        )


@pytest.mark.parametrize("sizes", [None, [40] * 12, [150] + [30] * 11])
def test_intervals_hold_the_truth_as_often_as_they_say(sizes: list[int] | None) -> None:
    draw = np.random.default_rng(11)
    right, sensitivity, specificity, draws = 0.4, 0.9, 0.85, 150
    held = np.zeros(2)
    for _ in range(draws):
        chances = np.full(480, right)
        clusters = None
        if sizes is not None:
            clusters = np.repeat(np.arange(len(sizes)), sizes)
            chances = draw.beta(right * 6, (1 - right) * 6, len(sizes))[clusters]
        truth = draw.random(len(chances)) < chances
        said = np.where(
            truth, draw.random(len(truth)) < sensitivity, draw.random(len(truth)) > specificity
        )
        seen = draw.choice(len(truth), 60, replace=False)
        people = np.full(len(truth), np.nan)
        people[seen] = truth[seen]
        mine, true = said[seen], truth[seen]
        errors = Errors(
            int((mine & true).sum()),
            int((~mine & true).sum()),
            int((~mine & ~true).sum()),
            int((mine & ~true).sum()),
        )
        for at, found in enumerate(
            (
                corrected_rate(said.astype(float), errors, clusters),
                prediction_powered(said.astype(float), people, clusters),
            )
        ):
            assert found.low is not None
            assert found.high is not None
            held[at] += found.low <= right <= found.high
    assert (held / draws >= 0.9).all(), held / draws
