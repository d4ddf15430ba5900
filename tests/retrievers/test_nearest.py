"""Exact search through pieces finds what a search of all at once finds, ties included."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from counting import Counting
from notes import corpus

from harness.extensions.dense import embedder, exact_search
from harness.extensions.dense.embedder import VectorOptions, VectorRetriever
from harness.extensions.dense.embeddings import cached_vectors
from harness.retrievers.contract import Question


def all_at_once(queries: Any, documents: Any, k: int) -> list[list[int]]:
    """Every score, sorted; equal ones in the documents' order, NaN nowhere."""
    found = []
    for scores in queries @ documents.T:
        order = np.argsort(-scores, kind="stable")
        found.append(order[~np.isnan(scores[order])][:k].tolist())
    return found


def ones(n: int, d: int, seed: int) -> npt.NDArray[np.float32]:
    """Vectors of zeros and ones, whose products are whole numbers: many ties, no rounding."""
    return np.random.default_rng(seed).integers(0, 2, (n, d)).astype(np.float32)


@pytest.mark.parametrize("piece", [1, 7, 64, 1000])
@pytest.mark.parametrize("k", [1, 10, 500, 2000])
def test_pieces_find_what_all_at_once_finds_and_ties_keep_their_order(piece: int, k: int) -> None:
    documents, queries = ones(1000, 6, 0), ones(9, 6, 1)
    documents[[3, 500]] = np.nan
    pieces = ((start, documents[start : start + piece]) for start in range(0, 1000, piece))
    found = exact_search.nearest(queries, pieces, k)
    assert [result.ids.tolist() for result in found] == all_at_once(queries, documents, k)
    for query, result in zip(queries, found, strict=True):
        assert result.scores.tolist() == (documents[result.ids] @ query).tolist()


@pytest.mark.parametrize(("queries", "documents", "k"), [(0, 5, 3), (4, 0, 3), (4, 5, 0)])
def test_nothing_to_search_is_an_empty_answer_for_each(
    queries: int, documents: int, k: int
) -> None:
    pieces = iter([(0, ones(documents, 3, 0))][: documents > 0])
    found = exact_search.nearest(ones(queries, 3, 1), pieces, k)
    assert [len(result.ids) for result in found] == [0] * queries


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("similarity", ["cosine", "dot"])
def test_a_corpus_that_is_read_from_the_cache_has_the_answers_of_one_that_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, similarity: str, dtype: str
) -> None:
    texts = [f"note {i % 90}" for i in range(100)]  # ten stand twice
    questions = [Question(f"note {i}") for i in (5, 88, 200)]

    options = VectorOptions(similarity=similarity, dtype=dtype)

    def answers() -> list[tuple[Any, Any]]:
        retriever = VectorRetriever(Counting(tmp_path / "log"), options)
        retriever.index(corpus(texts))
        found = retriever.search(questions, 20)
        return [(result.ids.tolist(), result.scores.tolist()) for result in found]

    held = answers()
    # Other texts come between, so that the corpus lies in parts and in another order.
    VectorRetriever(Counting(tmp_path / "other"), options).index(corpus(["a", "b"]))
    monkeypatch.setattr(exact_search, "HELD", 0)
    monkeypatch.setattr(exact_search, "PIECE", 16)
    monkeypatch.setattr(embedder, "_PART", 32)
    assert answers() == held
    texts.reverse()
    for (_, scores), (_, before) in zip(answers(), held, strict=True):
        assert scores == pytest.approx(before)
    assert cached_vectors()[-1].vectors == 93
