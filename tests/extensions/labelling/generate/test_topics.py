"""Topics from documents: frequent there, rare elsewhere, as written, and who else holds them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.extensions.labelling.generate.templates import Topic, Topics
from harness.extensions.labelling.generate.write_project import normalised


def topics(texts: list[str], titles: list[str] | None = None, number: int = 2) -> list[list[Topic]]:
    rows = range(len(texts))
    return Topics(titles or [""] * len(texts), texts, rows).find(rows, number)


def test_the_phrase_that_is_frequent_here_and_rare_elsewhere_comes_first() -> None:
    texts = [
        "Kiln firing schedule. The kiln firing takes nine hours. The people eat bread.",
        "The people drink water and eat bread.",
        "The people eat bread with salt.",
    ]
    assert topics(texts)[0][0].text.lower() == "kiln firing"
    # `people` and `bread` stand everywhere: a text of nothing else gives them last, with holders.
    shared = topics(["people eat bread", *texts])[0]
    assert all(len(topic.holders) > 1 for topic in shared)


def test_a_short_title_is_the_first_topic_and_a_long_one_is_none() -> None:
    text = "Feed the rye starter."
    titles = ["Sourdough bread", "How I came to bake bread every second day", "Q3: plan"]
    first = [of[0].text for of in topics([f"{title} {text}" for title in titles], titles)]
    assert first[0] == "Sourdough bread"
    assert first[1] not in titles
    assert first[2] != "Q3: plan"


def test_phrases_cross_no_mark_and_no_paragraph_and_numbers_stay_whole() -> None:
    found = topics(["The cat weighs 4.6 kilograms.\n\nFeline leukaemia, October."], number=9)[0]
    text = [topic.text for topic in found]
    assert not any("kilograms feline" in one.lower() or "," in one for one in text)
    assert any("4.6" in one for one in text)
    assert "cat weighs 4" not in text


words = st.sampled_from(["kiln", "Kiln", "bread", "iron", "pot", "the", ".", "on"])


@given(st.lists(st.lists(words, min_size=1, max_size=12), min_size=1, max_size=6))
def test_holders_are_exactly_the_texts_with_the_words_in_a_row(texts: list[list[str]]) -> None:
    written = [" ".join(text) for text in texts]
    for row, of in enumerate(topics(written)):
        for topic in of:
            phrase = f" {normalised(topic.text)} "
            parts = [[f" {normalised(p)} " for p in text.split(".")] for text in written]
            holding = [i for i, pieces in enumerate(parts) if any(phrase in p for p in pieces)]
            assert row in holding
            assert list(topic.holders) == holding
