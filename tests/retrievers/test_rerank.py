"""Reranking by a function. Cross-encoders are in test_dense.py, since they need torch."""

from __future__ import annotations

from pathlib import Path

import pytest
from notes import ask, corpus

from harness.errors import UsageError
from harness.extensions.dense.rerank import Rerank
from harness.retrievers.bm25 import BM25
from harness.retrievers.registry import RetrieverSpec

NOTES = ["boat", "boat boat", "a long tale of a boat on a lake", "tea", "boat and a harbour"]


@pytest.fixture
def longest(tmp_path: Path) -> str:
    """A reranker: the longer the text, the better; the question must be there."""
    path = tmp_path / "rerankers.py"
    path.write_text(
        "def longest(question, texts):\n"
        "    assert question == 'boat'\n"
        "    return [len(text) for text in texts]\n"
        "def short(question, texts): return [1.0]\n"
    )
    return f"{path}:longest"


def test_candidates_are_ranked_again_and_the_rest_stays_below_them(longest: str) -> None:
    base = BM25()
    base.index(corpus(NOTES))
    first = [int(i) for i in ask(base, "boat").ids]
    assert set(first) == {0, 1, 2, 4}
    for depth in (1, 2, 4, 100):
        reranked = Rerank("bm25", longest, depth=depth)
        reranked.index(corpus(NOTES))
        found = ask(reranked, "boat")
        again = sorted(first[:depth], key=lambda i: -len(NOTES[i]))
        assert list(found.ids) == again + first[depth:]
        assert found.scores is not None
        assert sorted(found.scores, reverse=True) == list(found.scores)
        assert reranked.report()["pairs"] == min(depth, 4)
        assert reranked.report()["retriever"] == {"name": "bm25"}


def test_k_cuts_after_reranking(longest: str) -> None:
    reranked = Rerank({"name": "tfidf", "params": {"sublinear": True}}, longest)
    reranked.index(corpus(NOTES))
    assert list(ask(reranked, "boat", k=1).ids) == [2]


def test_no_candidate_is_no_answer(longest: str) -> None:
    reranked = Rerank("bm25", longest)
    reranked.index(corpus(["tea"]))
    assert list(ask(reranked, "boat").ids) == []


def test_a_reranker_that_gives_too_few_scores_is_an_error(longest: str) -> None:
    reranked = Rerank("bm25", longest.replace(":longest", ":short"))
    reranked.index(corpus(NOTES))
    with pytest.raises(ValueError, match="4 texts, but the reranker returned"):
        ask(reranked, "boat")


def test_a_function_that_is_not_there_is_said_with_the_near_ones(longest: str) -> None:
    with pytest.raises(UsageError, match="did you mean longest"):
        RetrieverSpec("rerank", {"reranker": longest.replace(":longest", ":longst")}).build()
