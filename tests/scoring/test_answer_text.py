"""Answer metrics beside the libraries that define them."""

from __future__ import annotations

import math
import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu import sentence_bleu
from sacrebleu.metrics import BLEU

from harness.errors import UsageError
from harness.extensions.answers.scoring.returned_texts import answers_in_top
from harness.extensions.answers.scoring.text_metrics import (
    METRICS,
    Text,
    best_of,
    check_metrics,
    common_subsequence,
    tokens_13a,
)

SENTENCE = "The next day, she moved to Oslo (Norway) for $1,000.50 - 'really'!"
# Words that meet again and again, numbers with marks, entities, and anything at all.
texts = st.one_of(
    st.lists(
        st.sampled_from([*"abc", "the cat", "1,000.5", "3-4", "&amp;", "x.", "Día", "\n"])
    ).map(" ".join),
    st.text(alphabet=string.printable + "äß東"),
    st.text(),
)


def answer_score(metric: str, text: str, answers: list[str]) -> float:
    return best_of(METRICS[metric], Text(text), [Text(answer) for answer in answers])


def agree(ours: float, theirs: float) -> bool:
    """Equal; where there is nothing to measure against we say so, and the libraries say 0."""
    return theirs == 0 if math.isnan(ours) else math.isclose(ours, theirs, abs_tol=1e-9)


@given(texts, texts)
@example(SENTENCE, SENTENCE.lower())
@example("short", SENTENCE)
@example("a-\nb <skipped> 3.-4", "ab 3.-4")
def test_bleu_is_sacrebleus(text: str, answer: str) -> None:
    unigrams = BLEU(lowercase=True, max_ngram_order=1, effective_order=True)
    theirs = sentence_bleu(text, [answer]).score / 100
    assert agree(answer_score("bleu", text, [answer]), theirs)
    theirs = unigrams.sentence_score(text, [answer]).score / 100
    assert agree(answer_score("bleu1", text, [answer]), theirs)


@given(texts)
def test_tokens_are_sacrebleus_13a(text: str) -> None:
    assert tokens_13a(text) == BLEU().tokenizer(text.rstrip()).split()


@given(texts, texts)
@example(SENTENCE, "she moved the day to Norway")
def test_rouge_l_is_rouge_scores(text: str, answer: str) -> None:
    theirs = RougeScorer(["rougeL"]).score(answer, text)["rougeL"].fmeasure
    assert agree(answer_score("rouge_l", text, [answer]), theirs)


@given(
    st.lists(st.sampled_from("abcd"), max_size=80), st.lists(st.sampled_from("abcd"), max_size=80)
)
def test_the_longest_common_subsequence_is_the_tables(a: list[str], b: list[str]) -> None:
    row = [0] * (len(b) + 1)
    for x in a:
        above, row = row, [0]
        for j, y in enumerate(b):
            row.append(above[j] + 1 if x == y else max(above[j + 1], row[j]))
    assert common_subsequence(a, b) == row[-1]


def test_squads_normalisation_takes_case_marks_and_articles_off() -> None:
    assert answer_score("exact_match", "  an Oslo-trip, the!", ["Oslotrip"]) == 1
    assert answer_score("exact_match", "Oslo trip", ["Oslo"]) == 0
    # red, red, car against red, car, car: two in common, of three each.
    assert answer_score("token_f1", "The red red car", ["a red car car"]) == pytest.approx(2 / 3)
    assert answer_score("token_f1", "", ["Oslo"]) == 0


def test_an_answer_is_contained_as_a_whole_run_of_words() -> None:
    def contained(text: str, answer: str) -> float:
        return answer_score("containment", text, [answer])

    assert contained("She moved to the big Oslo.", "a big Oslo") == 1
    assert contained("She moved to big old Oslo.", "big Oslo") == 0
    assert contained("Oslofjord", "Oslo") == 0


def test_the_best_reference_counts_and_unmeasurable_ones_do_not() -> None:
    for metric in METRICS:
        assert answer_score(metric, "moved to Oslo", ["Rome", "moved to Oslo"]) == pytest.approx(1)
        assert answer_score(metric, "to Oslo", ["", "Oslo"]) > 0 or metric == "exact_match"
        assert math.isnan(answer_score(metric, "Oslo", []))
        assert math.isnan(answer_score(metric, "Oslo", [" "]))
    assert math.isnan(answer_score("containment", "the the", ["The"]))
    assert math.isnan(answer_score("rouge_l", "奥斯陆", ["奥斯陆"]))


def test_ranked_texts_are_scored_by_the_best_of_the_first_k() -> None:
    found = answers_in_top(
        [["It rained.", "She lives in Oslo now"], ["Rome", "Paris"], [], ["Oslo"]],
        [["Oslo", "Bergen"], ["Rome"], ["Rome"], []],
        cutoffs=(1, 2, 10),
    )
    assert [found[f"success@{k}"][0] for k in (1, 2, 10)] == [0, 1, 1]
    assert [found[f"token_f1@{k}"][0] for k in (1, 2)] == [0, pytest.approx(2 / 6)]
    for values in found.values():
        assert values[1] == pytest.approx(1)
        assert values[2] == 0
        assert math.isnan(values[3])
    assert len(found) == 3 * len(METRICS)


def test_wrong_names_and_cutoffs_are_refused() -> None:
    with pytest.raises(UsageError, match="did you mean rouge_l"):
        check_metrics(["rougel"])
    with pytest.raises(UsageError, match="at least 1, not 0"):
        answers_in_top([], [], cutoffs=(0,))
