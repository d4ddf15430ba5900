"""From the texts of hits to documents: every way, and the known traps."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UsageError
from harness.scoring.matching.matcher import Match, Matcher, Matching
from harness.scoring.matching.words import Way

SUPPORT = "I went to a support group yesterday and it was so powerful."
COUNSEL = "You would be a great counselor, people trust you at once!"
TALK = [
    f"[2023-05-08 13:56] Ann: {SUPPORT}",
    "[2023-05-08 13:56] Ben: Yes!",
    f"[2023-05-08 13:56] Ann: {COUNSEL}",
    "[2023-06-11 09:00] Ann: Yes!",
    "[2023-06-11 09:00] Ben: The pottery class runs until August, then the studio closes.",
]
SPEAKERS = ("Ann", "Ben")


def find(documents: list[str], text: str, **settings: float) -> Match:
    return Matcher(documents, Matching(**settings), speakers=SPEAKERS).find([text])[0]


def found(documents: list[str], text: str) -> tuple[list[int], Way]:
    match = find(documents, text)
    return match.positions.tolist(), match.way


@pytest.mark.parametrize(
    ("text", "documents", "way"),
    [
        (SUPPORT, [0], Way.EXACT),
        ("a support group yesterday and it was", [0], Way.EXACT),
        ("pport group yesterday and it was so pow", [0], Way.EXACT),
        (f"Date: 8 May, 2023\nuser: {SUPPORT}", [0], Way.EXACT),
        (f"**Ann** (May 8, 2023): {SUPPORT}", [0], Way.EXACT),
        (f"1:56 pm on 8 May, 2023 - Ann: {SUPPORT}", [0], Way.EXACT),
        (f"Somebody wrote this. {SUPPORT} And that was all of it.", [0], Way.EXACT),
        ("i WENT to a support-group,\tyesterday", [0], Way.NORMALISED),
        (f"assistant: {SUPPORT}\nAnn: Yes!\nuser: {COUNSEL}", [0, 1, 2], Way.EXACT),
        (f"{SUPPORT} Yes! {COUNSEL}", [0, 1, 2], Way.EXACT),
        ("and it was so powerful. Ben: Yes! Ann: You would be a gre", [0, 1, 2], Way.EXACT),
        (json.dumps(f"Ann: {SUPPORT}\nBen: Yes!\nAnn: {COUNSEL}"), [0, 1, 2], Way.ESCAPED),
        (r"{\"said\": \"I went to a support group yesterday\"}", [0], Way.NORMALISED),
        ("Ann said that she went to a support group and it was powerful", [0], Way.F1),
        ("The studio closes in August, when the pottery class ends", [4], Way.F1),
        ("Nobody here spoke of trains", [], Way.NONE),
        ("", [], Way.NONE),
        ("?!", [], Way.NONE),
    ],
)
def test_a_text_finds_the_documents_that_it_was_made_of(
    text: str, documents: list[int], way: Way
) -> None:
    assert found(TALK, text) == (documents, way)


def test_documents_of_the_same_text_are_both_found() -> None:
    twice = ["The dentist moved me to Friday.", "A walk.", "The dentist moved me to Friday."]
    assert found(twice, "user: The dentist moved me to Friday.") == ([0, 2], Way.EXACT)
    assert found(twice, "My dentist moved me to a Friday")[0] == [0, 2]


def test_what_stands_in_front_tells_documents_of_the_same_text_apart() -> None:
    assert found(TALK, "Ben: Yes!") == ([1], Way.EXACT)
    assert found(TALK, "[2023-06-11] user: Yes!") == ([3], Way.EXACT)
    assert found(TALK, "Yes!") == ([1, 3], Way.EXACT)


def test_words_before_a_colon_are_content_unless_they_are_known_to_be_none() -> None:
    notes = ["My favourite: pizza", "My favourite: pasta", "pizza", "Note: user: hello", "hello"]
    assert found(notes, "My favourite: pizza")[0] == [0]
    assert found(notes, "pizza")[0] == [2]
    assert found(notes, "Note: user: hello")[0] == [3]
    assert found(notes, "user: hello")[0] == [4]


def test_a_short_document_inside_another_text_is_not_found() -> None:
    documents = ["Yes!", "it was so", "to a support group", SUPPORT, "ok"]
    assert found(documents, f"Ann: {SUPPORT}")[0] == [3]
    assert found(documents, "Yes, the train was late, ok, and the bus too")[0] == []
    assert found(documents, "OK") == ([4], Way.NORMALISED)


def test_a_document_that_is_the_text_comes_before_one_that_holds_it() -> None:
    documents = [f"Well. {SUPPORT} Really.", SUPPORT]
    assert found(documents, SUPPORT)[0] == [1]


def test_a_short_document_of_several_lines_is_found_by_all_of_it() -> None:
    assert found(["Ann: Yes!\nBen: ok", ":\n)"], "Yes! OK") == ([0], Way.NORMALISED)
    assert found(["Ann: Yes!\nBen: ok", ":\n)"], ":\n)") == ([1], Way.EXACT)


def test_a_short_line_of_a_session_is_found_where_no_document_is_it() -> None:
    session = "2023-05-08\nuser: Where is the key?\nassistant: Under the mat"
    assert found([session, "Ann: The mat is red and old"], "assistant: Under the mat") == (
        [0],
        Way.EXACT,
    )


def test_texts_of_marks_alone_are_found_by_their_letters() -> None:
    assert found(["Ann: ;)", "Ben: :-(", ""], "Ben: :-(") == ([1], Way.EXACT)


def test_unicode_forms_make_no_difference() -> None:
    documents = [
        "Zoë’s café opens at eight o'clock in ﬁve days",
        "東京へ行きました。とても楽しかった",
    ]
    assert found(documents, "ZOE\u0308S CAFE\u0301 OPENS AT EIGHT OCLOCK") == ([0], Way.NORMALISED)
    assert found(documents, "eight o’clock in five days") == ([0], Way.NORMALISED)
    assert found(documents, "京へ行きました") == ([1], Way.EXACT)
    assert found(documents, json.dumps("東京へ行きました")) == ([1], Way.ESCAPED)


def test_the_threshold_of_token_f1_is_the_users() -> None:
    text = "Ann once went to some group that was powerful"
    f1 = find(TALK, text).f1
    words, document = set(text.lower().split()), set(SUPPORT.lower().strip(".").split())
    assert f1 == 2 * len(words & document) / (len(words) + len(document))
    assert find(TALK, text, f1=f1).way is Way.F1
    above = find(TALK, text, f1=f1 + 1e-9)
    assert (above.way, above.f1, above.positions.tolist()) == (Way.NONE, f1, [])


def test_rare_words_choose_among_documents_over_the_threshold() -> None:
    documents = ["it was so nice and it was so good", "the pottery was in blue"]
    documents += [f"it was so nice and so good on day {i}" for i in range(5)]
    assert found(documents, "so it was blue pottery and") == ([1], Way.F1)


def test_meaning_is_asked_only_for_what_words_do_not_find() -> None:
    asked: list[list[str]] = []

    def embed(texts: list[str]) -> np.ndarray:
        asked.append(list(texts))
        return np.array([[float("group" in t or "meeting" in t), 1e-3, 0.0] for t in texts])

    matcher = Matcher(TALK, Matching(semantic=0.9), embed, SPEAKERS)
    exact, near, empty = matcher.find([SUPPORT, "Weekly meeting", " "])
    assert (exact.way, near.way, empty.way) == (Way.EXACT, Way.SEMANTIC, Way.NONE)
    assert near.positions.tolist() == [0]
    assert asked == [["Weekly meeting"], TALK]


def test_settings_that_cannot_be_are_refused() -> None:
    for wrong in ({"f1": 0.0}, {"f1": 1.1}, {"semantic": 2.0}):
        with pytest.raises(UsageError, match="a match is"):
            Matching(**wrong)
    with pytest.raises(UsageError, match="needs an embedding model"):
        Matcher(TALK, Matching(semantic=0.5))


def test_an_empty_haystack_and_no_texts() -> None:
    assert found([], "anything at all that is long enough") == ([], Way.NONE)
    assert Matcher(TALK).find([]) == []


def test_a_document_of_100_kb_is_found_by_a_piece_from_its_middle() -> None:
    long = " ".join(f"word{i} and word{i + 1}" for i in range(6000))
    assert found([SUPPORT, long], long[50_000:50_200]) == ([1], Way.EXACT)
    assert found([SUPPORT, "Yes!"], long + SUPPORT)[0] == [0]


def test_a_phrase_over_and_over_takes_neither_time_nor_memory() -> None:
    over = "the same words again " * 5000
    assert found([SUPPORT, over], over)[0] == [1]


words = st.lists(
    st.sampled_from(["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta"]), min_size=1
)


@given(st.lists(words, min_size=1, max_size=8), words)
def test_a_run_is_found_wherever_it_stands_and_f1_is_the_formulas(
    documents: list[list[str]], text: list[str]
) -> None:
    match = Matcher([" ".join(d) for d in documents]).find([" ".join(text)])[0]
    best = max(2 * len(set(d) & set(text)) / (len(set(d)) + len(set(text))) for d in documents)
    assert match.f1 == pytest.approx(best, abs=1e-12)
    holding = {
        i
        for i, d in enumerate(documents)
        if any(d[at : at + len(text)] == text for at in range(len(d)))
    }
    equal = {i for i, d in enumerate(documents) if d == text}
    if equal:
        assert set(match.positions.tolist()) == equal
    elif holding and len(text) >= 4:
        assert set(match.positions.tolist()) == holding


@given(st.lists(st.text(), max_size=6), st.lists(st.text(), max_size=4))
def test_no_text_is_too_odd(documents: list[str], texts: list[str]) -> None:
    matches = Matcher(documents, speakers=["", "A|b("]).find(texts + documents)
    for match, text in zip(matches, texts + documents, strict=True):
        assert (match.way is Way.NONE) == (len(match.positions) == 0)
        assert len(set(match.positions.tolist())) == len(match.positions)
        if text in documents and text.strip():
            assert documents.index(text) in match.positions
