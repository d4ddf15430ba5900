"""Recency x importance x relevance, against the formula."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from notes import ask, corpus, scores

from harness.errors import UsageError
from harness.retrievers.bm25 import BM25
from harness.retrievers.hybrid import RecencyWeighted
from harness.retrievers.registry import RetrieverSpec

DAY = 86_400
NOTES = ["boat boat tea", "boat and a harbour", "a boat, said among many other words", "tea"]
SAID = [0, 30 * DAY, 60 * DAY, 90 * DAY]


@pytest.fixture(scope="module")
def relevance() -> list[float]:
    """bm25's scores for `boat`, on a scale from 0 to 1; the last note is not found."""
    base = BM25()
    base.index(corpus(NOTES))
    found = scores(base, "boat", 3)
    return [(score - min(found)) / (max(found) - min(found)) for score in found]


def weighted(**params: Any) -> RecencyWeighted:
    retriever = RecencyWeighted(**{"half_life": 30.0, **params})
    retriever.index(corpus(NOTES, SAID))
    return retriever


def test_the_product_is_that_of_relevance_recency_and_importance(relevance: list[float]) -> None:
    # The newest note is the tea, of day 90: ages of 90, 60 and 30 days.
    recency = [0.125, 0.25, 0.5]
    expected = [r * t for r, t in zip(relevance, recency, strict=True)]
    assert scores(weighted(), "boat", 3) == pytest.approx(expected)
    powers = weighted(relevance_weight=2.0, recency_weight=0.5, importance=0.5)
    expected = [r**2 * t**0.5 * 0.5 for r, t in zip(relevance, recency, strict=True)]
    assert scores(powers, "boat", 3) == pytest.approx(expected)


def test_the_sum_is_that_of_generative_agents(relevance: list[float], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def weigh(texts): return [len(t) / 100 for t in texts]\n")
    retriever = weighted(
        combine="sum",
        relevance_weight=3.0,
        recency_weight=0.5,
        importance_weight=2.0,
        importance=f"{tmp_path}/mine.py:weigh",
    )
    recency = [0.125, 0.25, 0.5]
    expected = [
        3 * r + 0.5 * t + 2 * len(text) / 100
        for r, t, text in zip(relevance, recency, NOTES[:3], strict=True)
    ]
    assert scores(retriever, "boat", 3) == pytest.approx(expected)


def test_age_is_counted_from_the_questions_own_date(relevance: list[float]) -> None:
    retriever = weighted(relevance_weight=0.0)
    found = ask(retriever, "boat", timestamp=30 * DAY)
    # Note 0 is 30 days old; 1 was said that day, 2 after it: neither is older than now.
    assert dict(zip(map(int, found.ids), found.scores, strict=True)) == pytest.approx(  # type: ignore
        {0: 0.5, 1: 1.0, 2: 1.0}
    )


def test_undated_notes_count_as_the_oldest_and_change_nothing_where_none_is_dated() -> None:
    retriever = RecencyWeighted(half_life=30.0, relevance_weight=0.0)
    retriever.index(corpus(NOTES, [None, 30 * DAY, 60 * DAY, None]))
    assert scores(retriever, "boat", 3) == pytest.approx([0.5, 0.5, 1.0])
    retriever.index(corpus(NOTES))
    assert scores(retriever, "boat", 3) == pytest.approx([1.0, 1.0, 1.0])


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"half_life": 0}, "half_life must be more than 0 days"),
        ({"combine": "sun"}, "did you mean sum"),
        ({"retriever": "bm52"}, "did you mean bm25"),
    ],
)
def test_settings_that_cannot_be_are_said(params: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        RetrieverSpec("recency-weighted", params).build()


def test_importance_outside_of_0_to_1_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("def weigh(texts): return [2.0 for _ in texts]\n")
    with pytest.raises(ValueError, match="one number from 0 to 1 for each of 4 texts"):
        weighted(importance=f"{tmp_path}/mine.py:weigh")


def test_what_the_nested_retriever_declines_to_answer_stays_declined(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "from harness import Result\n"
        "class Unsure:\n"
        "    def index(self, corpus): pass\n"
        "    def search(self, queries, k):\n"
        "        return [Result([0, 1], abstain=True) for _ in queries]\n"
    )
    retriever = weighted(retriever=f"{tmp_path}/mine.py:Unsure")
    found = ask(retriever, "boat", k=2)
    assert (len(found.ids), found.abstain) == (2, True)
