"""tf-idf: equal to scikit-learn's, and what it does with nothing to count."""

from __future__ import annotations

import numpy as np
import pytest
from notes import ask, corpus, scores

from harness.retrievers.bm25.tokenizer import Tokenizer
from harness.retrievers.tfidf import TfIdf

NOTES = [
    "the green boat left the harbour",
    "a boat is a boat is a boat",
    "green tea and a green cup",
    "nothing else",
]

# TfidfVectorizer(sublinear_tf=...) of scikit-learn 1.9.1 fitted to NOTES; dot products.
EXPECTED = {
    (False, "green boat"): [0.414288751166, 0.539947807588, 0.476020182972, 0.0],
    (False, "boat boat tea unseen"): [0.247391230865, 0.644856286085, 0.228649705166, 0.0],
    (True, "green boat"): [0.451076006304, 0.494205479154, 0.431648443738, 0.0],
    (True, "boat boat tea unseen"): [0.255274708473, 0.559365418926, 0.274171891552, 0.0],
}


@pytest.mark.parametrize(("sublinear", "question"), EXPECTED)
def test_scores_are_scikit_learns(sublinear: bool, question: str) -> None:
    retriever = TfIdf(sublinear, stemmer="none", stopwords="none")
    retriever.index(corpus(NOTES))
    expected = EXPECTED[sublinear, question]
    assert scores(retriever, question, 4) == pytest.approx(expected, abs=1e-11)


def test_scores_are_the_same_to_the_last_bit_whatever_was_read_before() -> None:
    """Sums in the order in which some other corpus had its words broke near ties otherwise."""
    words = [f"word{i}" for i in range(60)]
    chance = np.random.default_rng(0)
    notes = [" ".join(chance.choice(words, 30)) for _ in range(40)]
    question = " ".join(chance.choice(words, 12))
    fresh, used = TfIdf(), TfIdf()
    used.index(corpus([" ".join(reversed(words))]))
    for retriever in (fresh, used):
        retriever.index(corpus(notes))
    assert scores(fresh, question, 40) == scores(used, question, 40)


def test_words_are_numbered_as_they_come_and_not_by_their_hashes() -> None:
    assert Tokenizer("none", "none").terms("so many words so many").tolist() == [0, 1, 2, 0, 1]


def test_stems_and_stop_words_are_those_of_bm25() -> None:
    retriever = TfIdf()
    retriever.index(corpus(["She was boating", "the harbours"]))
    assert list(ask(retriever, "boats of the").ids) == [0]
    assert list(ask(retriever, "harbour").ids) == [1]


@pytest.mark.parametrize("notes", [[], ["", "?"], NOTES])
def test_a_question_without_a_known_word_finds_nothing(notes: list[str]) -> None:
    retriever = TfIdf()
    retriever.index(corpus(notes))
    for question in ("", "unseen", "the"):
        assert list(ask(retriever, question).ids) == []


def test_equal_scores_keep_the_order_of_the_corpus_at_every_depth() -> None:
    retriever = TfIdf()
    retriever.index(corpus(["one boat", "a tea"] * 20))
    assert list(ask(retriever, "boat", k=5).ids) == [0, 2, 4, 6, 8]
    assert list(ask(retriever, "boat", k=40).ids) == list(range(0, 40, 2))
