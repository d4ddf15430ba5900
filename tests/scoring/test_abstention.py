"""Queries without an answer, each number against its definition."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from small import one_corpus

from harness.io.records import to_tree
from harness.records.scores import RiskPoint
from harness.runfiles.readers import read_rankings
from harness.schema import Ability
from harness.scoring.abstention import (
    FOLDS,
    abstention,
    auroc,
    best_threshold,
    cross_validated,
    deal,
    precision_recall_f1,
    risk_coverage,
)
from harness.scoring.score import score
from harness.scoring.score_columns import QueryStatus

few_values = st.sampled_from([0.0, 0.25, 0.5, 1.0, 3.0, -1.0, 1e300, -1e300])


@st.composite
def confidences(draw: st.DrawFn, least: int = 1, most: int = 12) -> Any:
    n = draw(st.integers(least, most))
    return draw(arrays(float, n, elements=few_values)), draw(arrays(bool, n))


@given(confidences(), confidences())
def test_auroc_is_the_share_of_pairs_in_order_ties_half(a: Any, b: Any) -> None:
    answerable, without = a[0], b[0]
    pairs = [(x > y) + (x == y) / 2 for x in answerable for y in without]
    assert auroc(answerable, without) == pytest.approx(sum(pairs) / len(pairs), abs=1e-12)


@given(confidences(most=6))
def test_risk_coverage_is_the_mean_over_all_orders_of_the_surest_i(case: Any) -> None:
    confidence, wrong = case
    curves = []
    for order in permutations(range(len(wrong))):
        if all(confidence[i] >= confidence[j] for i, j in pairwise(order)):
            taken = wrong[list(order)]
            curves.append([taken[:i].mean() for i in range(1, len(taken) + 1)])
    np.testing.assert_allclose(
        risk_coverage(confidence, wrong.astype(float)), np.mean(curves, axis=0), atol=1e-12
    )


def f1_at(threshold: float, confidence: Any, without: Any) -> float:
    return precision_recall_f1(confidence < threshold, without).f1 or 0.0


@given(confidences())
def test_best_threshold_has_the_best_f1_of_all_cuts_and_is_the_lowest_such(case: Any) -> None:
    confidence, without = case
    # Cutting below the i-th value, for every i, and above all: every set that a cut can abstain.
    cuts = [-np.inf, *np.unique(confidence), np.inf]
    scores = [f1_at(cut, confidence, without) for cut in cuts]
    found = best_threshold(confidence, without)
    assert f1_at(found, confidence, without) == pytest.approx(max(scores), abs=1e-12)
    lowest = next(cut for cut, f1 in zip(cuts, scores, strict=True) if f1 >= max(scores) - 1e-12)
    assert (confidence < found).sum() == (confidence < lowest).sum()


def test_a_threshold_falls_between_values_that_have_no_number_between_them() -> None:
    low, high = 1.0, float(np.nextafter(1.0, 2.0))
    confidence, without = np.array([low, high, high]), np.array([True, False, False])
    for values in (confidence, np.array([-np.inf, 0.0, 1.0]), np.array([1e308, 1.1e308, 1.7e308])):
        threshold = best_threshold(values, without)
        assert (values < threshold).tolist() == [True, False, False]


@given(st.integers(1, 60), st.integers(1, 30), st.integers(0, 9))
def test_whole_haystacks_stay_in_one_fold_and_kinds_are_dealt_evenly(
    n: int, haystacks: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    haystack = rng.integers(0, haystacks, n).astype(np.int32)
    without = rng.random(n) < 0.3
    folds = deal(without, haystack, seed)
    several = len(np.unique(haystack))
    assert folds.min() >= 0
    assert folds.max() < (several if 1 < several < 10 else FOLDS)
    if several > 1:
        assert all(len(np.unique(folds[haystack == h])) == 1 for h in np.unique(haystack))
        assert several >= 10 or len(np.unique(folds)) == several
    else:
        for kind in (without, ~without):
            counts = np.bincount(folds[kind], minlength=FOLDS)
            assert counts.max() - counts.min() <= 1
    assert (folds == deal(without, haystack, seed)).all()


def test_nine_haystacks_with_levels_of_their_own_promise_no_more_than_fresh_ones_keep() -> None:
    """Haystacks differ in their level of scores, and in how much of them cannot be answered."""
    rng = np.random.default_rng(3)
    promised, naive, fresh = [], [], []
    for _ in range(60):
        haystack = np.repeat(np.arange(60, dtype=np.int32), 40)
        level = rng.normal(0, 1, 60)
        without = rng.random(2400) < (1 / (1 + np.exp(2 * level + 1)))[haystack]
        confidence = rng.normal(0, 1, 60)[haystack] - 0.3 * without + rng.normal(0, 0.3, 2400)
        known = haystack < 9
        scored = (confidence[known], without[known])
        for found, folds in (
            (promised, deal(without[known], haystack[known], 0)),
            (naive, rng.integers(0, FOLDS, known.sum())),
        ):
            found.append(precision_recall_f1(cross_validated(*scored, folds), scored[1]).f1)
        fresh.append(f1_at(best_threshold(*scored), confidence[~known], without[~known]))
    assert np.mean(promised) <= np.mean(fresh) + 0.02
    assert np.mean(naive) > np.mean(fresh) + 0.02


def test_questions_with_haystacks_of_their_own_are_dealt_by_kind() -> None:
    without = np.arange(500) < 30
    folds = deal(without, np.arange(500, dtype=np.int32), 0)
    assert np.bincount(folds[without]).tolist() == [6] * 5
    assert np.bincount(folds).tolist() == [100] * 5


def test_at_the_threshold_itself_the_system_answers() -> None:
    # Chosen on 0 (no answer) and .5 (answerable): .25.
    confidence, without = np.array([0.0, 0.5, 0.25, 0.24]), np.array([True, False, True, True])
    abstained = cross_validated(confidence, without, np.array([0, 0, 1, 1]))
    assert abstained[2:].tolist() == [False, True]


@given(confidences(least=5, most=40), st.integers(0, 99))
def test_what_a_fold_holds_never_moves_its_own_threshold(case: Any, seed: int) -> None:
    confidence, without = case
    folds = np.random.default_rng(seed).integers(0, FOLDS, len(confidence))
    before = cross_validated(confidence, without, folds)
    for fold in range(FOLDS):
        mine = folds == fold
        assert (cross_validated(confidence, without ^ mine, folds)[mine] == before[mine]).all()
        threshold = best_threshold(confidence[~mine], without[~mine])
        assert (before[mine] == (confidence[mine] < threshold)).all()


def summary(
    without: list[int], silent: list[int], confidence: list[float], wrong: list[int] | None = None
) -> Any:
    n = len(without)
    return abstention(
        np.array(without, bool),
        np.array(silent, bool),
        np.array(confidence, float),
        np.array(wrong or without, float),
        np.arange(n, dtype=np.int32),
    )


def test_one_kind_of_query_alone_has_no_abstention_numbers() -> None:
    assert summary([0, 0], [0, 0], [1, 2]) is None
    assert summary([1, 1], [0, 0], [1, 2]) is None
    assert summary([], [], []) is None


def test_silence_counts_as_abstaining_and_is_the_least_sure_of_all() -> None:
    nan = float("nan")
    found = summary([1, 1, 0, 0], [1, 0, 0, 1], [nan, 0.3, 0.9, nan], [1, 1, 0, 1])
    assert found.false_positive_rate == 0.5
    assert to_tree(found.as_returned) == {"precision": 0.5, "recall": 0.5, "f1": 0.5}
    # Pairs (answerable, not): .9 beats both; the silent one ties with silence, loses to .3.
    assert found.confidence.auroc == (1 + 1 + 0.5 + 0) / 4
    # .9 is right, .3 is wrong, then two silent ones, both wrong.
    assert found.confidence.aurc == pytest.approx((0 + 1 / 2 + 2 / 3 + 3 / 4) / 4)
    assert found.confidence.risk_coverage[-1] == RiskPoint(coverage=1.0, risk=0.75)


@pytest.mark.parametrize(
    ("silent", "confidence"),
    [
        ([0, 0, 0], [0.5, 0.5, 0.5]),
        ([1, 1, 1], [np.nan] * 3),
        ([0, 0, 0], [np.nan] * 3),
        ([0, 0, 0], [0.5, np.nan, 0.7]),
    ],
)
def test_no_curve_is_drawn_through_a_confidence_that_says_nothing(
    silent: list[int], confidence: list[float]
) -> None:
    found = summary([1, 0, 0], silent, confidence)
    assert found.confidence is None
    assert found.false_positive_rate == 1 - silent[0]
    precision = found.as_returned.precision
    assert precision == (pytest.approx(1 / 3) if all(silent) else None)


def test_dealing_out_a_hundred_thousand_haystacks_takes_no_time() -> None:
    n = 100_000
    without = np.arange(n) % 3 == 0
    folds = deal(without, np.arange(n, dtype=np.int32), 0)
    assert np.bincount(folds).tolist() == [n // FOLDS] * FOLDS


# -- from rankings --------------------------------------------------------------------------------

JUDGED: dict[str, dict[str, int]] = {"a1": {"x": 1}, "a2": {"y": 1}, "u1": {}, "u2": {}}
RUN = {"a1": {"x": 9.0}, "a2": {"x": 8.0}, "u1": {"x": 7.0}, "u2": {"x": 1.0}}


@pytest.fixture
def scored(tmp_path: Path) -> Callable[..., Any]:
    kind = {"ability": Ability.ABSTENTION}
    dataset = one_corpus(tmp_path / "data", ["x", "y", "z"], JUDGED, query={"u1": kind, "u2": kind})

    def call(run: dict[str, dict[str, float]] = RUN, **known: Any) -> Any:
        answered = QueryStatus.everything(4)
        for name, values in known.items():
            getattr(answered, name)[:] = values
        return score(dataset, read_rankings(run), answered=answered).report.abstention

    return call


def test_the_top_score_stands_in_where_no_confidence_is_given(scored: Callable[..., Any]) -> None:
    found = scored()
    assert found.confidence_source == "the top score"
    assert (found.n_answerable, found.n_unanswerable) == (2, 2)
    assert found.false_positive_rate == 1
    assert found.confidence.auroc == 1
    assert found.confidence.aurc == pytest.approx((0 + 1 / 2 + 2 / 3 + 3 / 4) / 4)


def test_the_system_s_own_confidence_goes_before_its_scores(scored: Callable[..., Any]) -> None:
    found = scored(confidence=[0.1, 0.2, 0.3, 0.4])
    assert found.confidence_source == "the system's own"
    assert found.confidence.auroc == 0


def test_confidences_and_top_scores_are_never_mixed(scored: Callable[..., Any]) -> None:
    found = scored(confidence=[0.9, np.nan, 0.1, 0.2])
    assert found.confidence is None
    assert found.confidence_source == "the system's own, given for 3 of 4 answers only"
    # Where the one without a confidence is silent, nothing is missing.
    found = scored(confidence=[0.9, np.nan, 0.1, 0.2], abstained=[False, True, False, False])
    assert found.confidence_source == "the system's own"
    assert found.confidence.auroc == 0.5


def test_an_explicit_abstention_counts_although_documents_came_with_it(
    scored: Callable[..., Any],
) -> None:
    found = scored(abstained=[False, False, True, False])
    assert found.false_positive_rate == 0.5
    assert to_tree(found.as_returned) == {"precision": 1, "recall": 0.5, "f1": pytest.approx(2 / 3)}


def test_unasked_queries_are_in_no_abstention_number(scored: Callable[..., Any]) -> None:
    found = scored(asked=[False, True, True, True])
    assert (found.n_answerable, found.n_unanswerable) == (1, 2)


def test_an_error_is_never_credited_as_an_abstention(scored: Callable[..., Any]) -> None:
    found = scored(failed=[True, False, True, False], abstained=[False, False, True, True])
    assert (found.n_answerable, found.n_unanswerable) == (2, 2)
    assert found.false_positive_rate == 0.5
    assert to_tree(found.as_returned) == {"precision": 1, "recall": 0.5, "f1": pytest.approx(2 / 3)}
    # The metrics of confidence are over the two queries that were answered.
    found = scored(failed=[True, False, True, False], confidence=[0.1, 0.9, 0.9, 0.2])
    assert found.confidence.n == 2
    assert found.confidence.auroc == 1
    assert "n:2|" in found.signatures["auroc"]
    assert "n:4|" in found.signatures["as_returned"]
