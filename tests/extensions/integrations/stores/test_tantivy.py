"""Tantivy in this process: its BM25, its fields, and questions that are no query syntax."""

from __future__ import annotations

from math import log
from pathlib import Path

import pytest
from notes import ask, scores
from spoken import Turn, corpus

from harness.errors import UsageError
from harness.extensions.integrations import tantivy_engine
from harness.extensions.integrations.tantivy_engine import Tantivy
from harness.retrievers.registry import RetrieverSpec

pytestmark = pytest.mark.systems


def test_scores_are_bm25() -> None:
    texts = ["Boats sail. A boat!", "The cello teacher", "One boat and two bees in the garden"]
    engine = Tantivy()
    engine.index(corpus(*map(Turn, texts)))
    lengths, counts = [4, 3, 8], [2, 0, 1]
    idf = log(1 + (3 - 2 + 0.5) / (2 + 0.5))
    expected = [
        idf * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * length / 5))
        for tf, length in zip(counts, lengths, strict=True)
    ]
    assert scores(engine, "boating", 3) == pytest.approx(expected, rel=1e-5)


def test_speakers_and_titles_count_by_their_boosts() -> None:
    notes = corpus(
        Turn("I sail on Sundays.", speaker="Ann"),
        Turn("I sail on Sundays.", speaker="Bob"),
        Turn("I sail on Sundays.", title="Ann and the sea"),
    )
    for params, first in [({}, [0, 2]), ({"speaker_boost": 0}, [2]), ({"title_boost": 0}, [0])]:
        engine = RetrieverSpec("tantivy", params).build()
        engine.index(notes)
        assert list(ask(engine, "Ann").ids) == first


@pytest.mark.parametrize(
    "question",
    [
        'boat AND (bee OR "',
        "+boat -bee",
        "text:boat",
        "boat~2 ^3",
        "[a TO boat]",
        "boat* \\",
        "boat",
    ],
)
def test_a_question_is_words_and_no_query_syntax(question: str) -> None:
    engine = Tantivy()
    engine.index(corpus(Turn("A blue boat."), Turn("A cello.")))
    assert 0 in list(ask(engine, question).ids)


def test_odd_corpora_and_questions_are_answered() -> None:
    engine = Tantivy()
    engine.index(corpus())
    assert list(ask(engine, "boat").ids) == []
    engine.index(corpus(Turn("same"), Turn("other " * 20_000), Turn("same"), Turn("Zoë 東京 \0")))
    assert list(ask(engine, "same").ids) == [0, 2]
    assert list(ask(engine, "same", 1).ids) == [0]
    assert [list(ask(engine, text).ids) for text in ("", "?!", "ZOË", "東京", "other")] == [
        [],
        [],
        [3],
        [3],
        [1],
    ]


@pytest.mark.parametrize("stemmer", ["english", "none"])
def test_scripts_without_spaces_are_found_by_pairs_of_characters(stemmer: str) -> None:
    texts = [
        "我喜欢吃苹果",
        "他昨天去北京旅行",
        "เมื่อวานฉันซื้อรองเท้าใหม่",
        "来週の火曜日に歯医者の予約",
    ]
    engine = Tantivy(stemmer=stemmer)
    engine.index(corpus(*map(Turn, texts), Turn("A boat", speaker="北京")))
    for question, found in {
        "谁去了北京?": [1, 4],
        "ซื้อรองเท้าที่ไหน": [2],
        "歯医者の予約はいつ": [3],
        "苹果 boats" if stemmer == "english" else "苹果 boat": [0, 4],
        "香蕉": [],
    }.items():
        assert sorted(ask(engine, question).ids) == found


def test_texts_in_other_scripts_reach_tantivy_unchanged() -> None:
    for text in ("Zoë’s café — 42 naïve “quotes” ☕️ x_y Straße", "हिन्दी में", "Привет, мир"):
        assert tantivy_engine.with_pairs(text) == text


def test_a_language_it_does_not_know_is_said() -> None:
    with pytest.raises(UsageError, match="klingon"):
        RetrieverSpec("tantivy", {"stemmer": "klingon"}).build()


def test_a_large_corpus_is_indexed_on_disk_once_and_answers_as_in_memory(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    notes = corpus(*(Turn(f"boat {'sail ' * (i % 5)} w{i % 90}") for i in range(400)))
    notes._dataset = "notes"
    engine = Tantivy()
    engine.index(notes)
    in_memory = ask(engine, "sail w14", 30)
    monkeypatch.setattr(tantivy_engine, "BLOCK", 64)
    for fault in (False, False, True):
        if fault:
            # In place of the file, which the engine of the last round has mapped into memory.
            store = next(home.glob("indexes/tantivy-*/*.store"))
            damaged = home / "damaged"
            damaged.write_bytes(store.read_bytes()[:-1])
            damaged.replace(store)
        else:
            made = [*home.glob("indexes/tantivy-*")]
        engine = Tantivy()
        engine.index(notes)
        found = ask(engine, "sail w14", 30)
        assert list(found.ids) == list(in_memory.ids)
        assert list(found.scores) == pytest.approx(list(in_memory.scores))
        assert not made or [*home.glob("indexes/tantivy-*")] == made
