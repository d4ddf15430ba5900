"""LoCoMo's F1, rule by rule, and against a counting written apart with NLTK's own stemmer."""

from __future__ import annotations

import re
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.stem import PorterStemmer

from harness.extensions.answers.scoring.locomo import f1, normalised

STEMMER = PorterStemmer()


@pytest.mark.parametrize(
    ("category", "answer", "reference", "value"),
    [
        (4, "the painting and a vase", "Painting, vase", 1.0),  # a, an, the, and; commas; case
        (4, "painted vases", "painting a vase", 1.0),  # stems
        (4, "$1,000", "1000 dollars", 2 / 3),  # a comma parts no number
        (4, "It's", "its", 1.0),  # punctuation is removed, not replaced
        (4, "self-care", "self care", 0.0),
        (2, "7 May 2023", "May 2023", 0.8),
        (4, "", "something", 0.0),
        (4, "the", "a", 0.0),  # nothing is left of either
        (3, "likely no", "Likely no; because she said so", 1.0),
        (4, "likely no", "Likely no; because she said so", 0.5),
        (1, "hiking, pottery", "pottery, hiking, swimming", 2 / 3),
        (1, "pottery and hiking", "pottery, hiking", 2 / 3),
        (1, "", "pottery, hiking", 0.0),
        (5, "That is NOT MENTIONED anywhere", "self-care", 1.0),
        (5, "No information available.", "", 1.0),
        (5, "self-care", "self-care", 0.0),
    ],
)
def test_each_category_has_its_rule(
    category: int, answer: str, reference: str, value: float
) -> None:
    assert f1(answer, reference, category) == pytest.approx(value, abs=1e-15)


def test_there_are_five_categories() -> None:
    with pytest.raises(ValueError, match="no category 6"):
        f1("a", "b", 6)


WORDS = st.text(
    st.sampled_from([*string.ascii_letters, *" ,.;-'\n\t", "é", "ß", "1", "2", "’"]), max_size=60
)
SOME = "running ran the a and happily ponies, skies dying lying 1,000 it's"
SENTENCES = st.lists(st.sampled_from(SOME.split())).map(" ".join)


def _apart(answer: str, reference: str) -> float:
    """F1 by lists that are crossed out, not by counters."""

    def words(text: str) -> list[str]:
        kept = "".join(c for c in text.replace(",", "").lower() if c not in string.punctuation)
        return [STEMMER.stem(w) for w in re.sub(r"\b(a|an|the|and)\b", " ", kept).split()]

    said, wanted = words(answer), words(reference)
    rest, same = list(wanted), 0
    for word in said:
        if word in rest:
            rest.remove(word)
            same += 1
    if same == 0:
        return 0.0
    precision, recall = same / len(said), same / len(wanted)
    return 2 * precision * recall / (precision + recall)


@given(WORDS | SENTENCES, WORDS | SENTENCES)
def test_every_value_is_that_of_another_counting(answer: str, reference: str) -> None:
    assert f1(answer, reference, 4) == _apart(answer, reference)
    before = reference.split(";")[0].strip()
    assert f1(answer, reference, 3) == _apart(answer, before)
    parts = [
        max(_apart(a.strip(), g.strip()) for a in answer.split(",")) for g in reference.split(",")
    ]
    assert f1(answer, reference, 1) == pytest.approx(sum(parts) / len(parts), abs=1e-15)


@given(WORDS)
def test_what_is_compared_has_no_articles_and_no_marks(text: str) -> None:
    for word in normalised(text):
        assert word not in {"a", "an", "the", "and"}
        assert not set(word) & set(string.punctuation)
