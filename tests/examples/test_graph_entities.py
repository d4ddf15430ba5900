"""Which entities a text mentions, by the rules."""

from __future__ import annotations

import pytest
from graph_entities import entities


def stem(word: str) -> str:
    return word.removesuffix("s")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Boats sail past the Grand Canyon", {"boat", "sail", "past", "grand", "canyon"}),
        ("What did Ann's sister buy?", {"ann", "sister", "buy"}),
        ("zoë moved to São Paulo", {"zoë", "moved", "são", "paulo", "são paulo"}),
        ("I ran 42km in B12", {"ran", "42km", "b12"}),
        ("", set()),
        ("?! the of", set()),
    ],
)
def test_words_names_and_numbers(text: str, found: set[str]) -> None:
    assert found <= set(entities(text, stem))
    assert {e for e in entities(text, stem) if " " not in e} == {e for e in found if " " not in e}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Then The Grand Canyon was near", {"grand", "canyon", "grand canyon"}),
        ("She met Ann Lee. Bob was away", {"ann", "lee", "ann lee"}),
        ("It was Ann, Bob and Cleo", {"ann", "bob", "cleo"}),
        ("Boats are dear", set()),
    ],
)
def test_without_words_only_names_are_entities(text: str, names: set[str]) -> None:
    assert set(entities(text, stem, words=False)) == names


@pytest.mark.parametrize(
    "text",
    ["on 7 May 2023", "on May 7th, 2023", "on the 7th of May 2023", "2023-05-07", "7 may 2023"],
)
def test_a_day_is_one_entity_however_it_is_written_and_its_month_too(text: str) -> None:
    assert {"2023-05-07", "2023-05"} <= set(entities(text, stem))


def test_a_month_is_no_day_and_an_impossible_one_no_month() -> None:
    assert "2023-05" in entities("in May 2023", stem)
    assert not any("-" in entity for entity in entities("2023-19-01 or may", stem))


def test_the_graph_s_entities_are_the_terms_of_bm25() -> None:
    assert {"東京", "京駅"} <= set(entities("昨日、東京駅で Ann Lee に会った", str))
    assert {"ann", "lee", "ann lee"} <= set(entities("昨日、東京駅で Ann Lee に会った", str))
