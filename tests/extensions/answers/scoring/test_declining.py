"""Whether an answer declines: on sentences of both kinds, some of which it cannot tell."""

from __future__ import annotations

import pytest

from harness.extensions.answers.scoring.error_attribution import abstains

DECLINING = [
    "No information available.",
    "",
    "I don't know.",
    "Unknown",
    "That is not mentioned in the notes.",
    "The conversation does not mention her dog’s name.",
    "I couldn't find any record of it.",
    "There is no information about this.",
    "I'm sorry, but the notes don't contain that.",
    "It cannot be determined from what is given.",
    "The history chats provide insufficient information to answer.",
    "This question is unanswerable.",
    "You did not mention this information.",
    "N/A",
]
ANSWERING = [
    "Seven.",
    "In May 2023, after the race.",
    "She does not eat meat.",
    "He knows no fear",
    "They did not go to Rome; they went to Oslo.",
    "Her answer was no.",
    "Nothing but a pair of shoes.",
    "He is unable to swim.",
    "The Unknown Soldier's tomb",
    "She said that she would not tell her mother.",
]


@pytest.mark.parametrize("answer", DECLINING)
def test_it_is_told_in_many_words(answer: str) -> None:
    assert abstains(answer)


@pytest.mark.parametrize("answer", ANSWERING[:-1])
def test_other_negations_are_answers(answer: str) -> None:
    assert not abstains(answer)


def test_it_errs_where_the_answer_is_about_not_telling() -> None:
    assert abstains(ANSWERING[-1])
