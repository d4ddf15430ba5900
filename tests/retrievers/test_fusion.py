"""Fusion of rankings and of retrievers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from notes import ask, corpus

from harness.errors import UsageError
from harness.extensions.dense.rerank import Rerank
from harness.retrievers.bm25 import BM25
from harness.retrievers.contract import Retriever
from harness.retrievers.hybrid import CandidateRanking, Hybrid, RecencyWeighted, fuse
from harness.retrievers.registry import RetrieverSpec

# Two rankings of documents 0 to 4; 4 is in neither, 3 and 0 in one.
FIRST = ([2, 0, 1], [9.0, 5.0, 1.0])
SECOND = ([1, 2, 3], [0.4, 0.3, 0.1])

NOTES = ["green boat", "a boat in the harbour", "green tea", "tea and a boat and tea", "nothing"]


def ranking(positions: Sequence[int], scores: Sequence[float] | None = None) -> CandidateRanking:
    return CandidateRanking(
        np.array(positions), None if scores is None else np.array(scores, float)
    )


def fused(method: str, weights: Sequence[float] = (1, 1), **options: float) -> dict[int, float]:
    found = fuse([ranking(*FIRST), ranking(*SECOND)], method, weights, **options)
    assert found.scores is not None
    assert (np.diff(found.scores) <= 0).all()
    return dict(zip(found.positions.tolist(), found.scores.tolist(), strict=True))


def test_reciprocal_rank_fusion_is_its_formula() -> None:
    assert fused("rrf") == pytest.approx(
        {2: 1 / 61 + 1 / 62, 1: 1 / 63 + 1 / 61, 0: 1 / 62, 3: 1 / 63}
    )
    assert fused("rrf", (2, 0.5), k0=1) == pytest.approx(
        {2: 2 / 2 + 0.5 / 3, 0: 2 / 3, 1: 2 / 4 + 0.5 / 2, 3: 0.5 / 4}
    )


def test_weighted_fusion_puts_scores_on_one_scale_and_absent_documents_last() -> None:
    assert fused("minmax") == pytest.approx({2: 1 + 2 / 3, 1: 0 + 1, 0: 0.5, 3: 0})
    assert fused("minmax", (1, 3)) == pytest.approx({1: 3, 2: 1 + 2, 0: 0.5, 3: 0})
    one, two = np.std([9, 5, 1]), np.std([0.4, 0.3, 0.1])
    assert fused("zscore") == pytest.approx(
        {2: 8 / one + 0.2 / two, 1: 0.3 / two, 0: 4 / one, 3: 0}
    )


def test_a_ranking_of_equal_scores_and_one_of_a_single_document_still_count() -> None:
    for method in ("minmax", "zscore"):
        found = fuse([ranking([7], [0.2]), ranking([5, 6], [3, 3])], method, [2, 1])
        assert found.positions.tolist() == [7, 5, 6]
        assert found.scores is not None
        assert found.scores.tolist() == [2, 1, 1]


def test_rankings_without_scores_are_fused_by_rank_alone() -> None:
    without = [ranking([1, 0]), ranking([1])]
    assert fuse(without, "rrf", [1, 1]).positions.tolist() == [1, 0]
    with pytest.raises(ValueError, match="use method=rrf"):
        fuse(without, "minmax", [1, 1])


def test_a_hybrid_of_one_ranks_as_that_one() -> None:
    alone, hybrid = BM25(), Hybrid(["bm25"])
    for retriever in (alone, hybrid):
        retriever.index(corpus(NOTES))
    assert list(ask(hybrid, "a green boat").ids) == list(ask(alone, "a green boat").ids)


def test_retrievers_that_answer_by_handle_position_or_pair_are_fused(tmp_path: Path) -> None:
    (tmp_path / "kinds.py").write_text(
        "from harness import Result\n"
        "class Base:\n"
        "    def index(self, corpus): self.handles = corpus.handles\n"
        "class Handles(Base):\n"
        "    def search(self, queries, k): return [self.handles[:2] for _ in queries]\n"
        "class Pairs(Base):\n"
        "    def search(self, queries, k):\n"
        "        return [{self.handles[2]: 0.1, self.handles[1]: 0.7} for _ in queries]\n"
        "def function(text, k, corpus): return [1, 1, 3][:k]\n"
        "class Silent(Base):\n"
        "    def search(self, queries, k): return [Result([], abstain=True) for _ in queries]\n"
    )
    kinds = [f"{tmp_path}/kinds.py:{name}" for name in ("Handles", "Pairs", "function", "Silent")]
    hybrid = Hybrid(kinds, weights=[1, 1, 1, 1])
    hybrid.index(corpus(NOTES))
    found = ask(hybrid, "anything", k=3)
    # Ranks: 1 is second, first and first; 0 first; 2 and 3 second.
    assert list(found.ids) == [1, 0, 2]
    assert not found.abstain
    silent = Hybrid(kinds[3:])
    silent.index(corpus(NOTES))
    assert ask(silent, "anything").abstain


HITS = """
from harness.retrievers.bm25 import BM25
from harness.retrievers.contract import Hit

class Hits(BM25):
    "bm25, whose answers are texts made of documents, as a memory's."
    def index(self, corpus):
        super().index(corpus)
        self.handles = corpus.handles
    def search(self, queries, k):
        return [self.hits(found) for found in super().search(queries, k)]
    def hits(self, found):
        pairs = zip(found.ids, found.scores)
        return [Hit("a fact", [self.handles[i]], score) for i, score in pairs]

class Unscored(Hits):
    def hits(self, found):
        return [Hit("a fact", [self.handles[i]]) for i in found.ids]

class Gathered(Hits):
    def hits(self, found):
        return [Hit("all in one", [self.handles[i] for i in found.ids], 1.0)]

class Unfounded(Hits):
    def hits(self, found):
        return [Hit("a fact", [self.handles[0]]), Hit("a fact that came of nothing")]

class Foreign(Hits):
    def hits(self, found):
        return [Hit("a fact", ["d99"])]

def longest(question, texts): return [len(text) for text in texts]
"""


@pytest.fixture
def texts(tmp_path: Path) -> str:
    path = tmp_path / "texts.py"
    path.write_text(HITS)
    return str(path)


@pytest.mark.parametrize("kind", ["Hits", "Unscored", "Gathered"])
@pytest.mark.parametrize(
    "around",
    [
        lambda one, texts: Hybrid([one, "tfidf"], weights=[1, 2]),
        lambda one, texts: Rerank(one, f"{texts}:longest"),
        lambda one, texts: RecencyWeighted(one, half_life=1),
    ],
    ids=["hybrid", "rerank", "recency-weighted"],
)
def test_texts_made_of_documents_count_as_those_inside_another_retriever(
    texts: str, kind: str, around: Callable[[str, str], Retriever]
) -> None:
    said = [86_400 * i for i in range(len(NOTES))]
    found = []
    for one in ("bm25", f"{texts}:{kind}"):
        whole = around(one, texts)
        whole.index(corpus(NOTES, said))
        found.append(list(ask(whole, "a green boat and tea").ids))
    if kind == "Hits" or not isinstance(whole, RecencyWeighted):  # which weighs scores
        assert found[0] == found[1]
    assert set(found[0]) == set(found[1]) == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("Unfounded", "a hit names no document that it was made from: 'a fact that came of"),
        ("Foreign", "'d99' is not a handle of this haystack"),
    ],
)
def test_a_text_that_no_document_is_known_for_cannot_be_fused(
    texts: str, kind: str, said: str
) -> None:
    hybrid = Hybrid(["bm25", f"{texts}:{kind}"])
    hybrid.index(corpus(NOTES))
    with pytest.raises((TypeError, ValueError), match=said) as caught:
        ask(hybrid, "tea")
    assert f"texts.py:{kind}: " in str(caught.value)


def test_retrievers_come_as_names_or_with_their_own_parameters() -> None:
    for given in ("bm25, tfidf", ["bm25", {"name": "tfidf", "params": {"sublinear": True}}]):
        hybrid = RetrieverSpec("hybrid", {"retrievers": given}).build()
        hybrid.index(corpus(NOTES))
        assert set(map(int, ask(hybrid, "tea").ids)) == {2, 3}  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"retrievers": ["bm25", "bm52"]}, "unknown retriever 'bm52'; did you mean bm25"),
        ({"retrievers": [{"nam": "bm25"}]}, "a retriever is a name or {name, params}"),
        ({"retrievers": [{"name": "bm25", "params": {"k2": 1}}]}, "has no parameter 'k2'"),
        ({"retrievers": []}, "retrievers is empty"),
        ({"retrievers": "bm25,tfidf", "weights": [1]}, "2 retrievers, but 1 weights"),
        ({"retrievers": "bm25,tfidf", "method": "rff"}, "did you mean rrf"),
        ({"retrievers": "bm25,oracle"}, "it is given the gold labels"),
    ],
)
def test_what_cannot_be_fused_is_said_in_one_line(params: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        RetrieverSpec("hybrid", params).build()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_function_that_answers_with_the_datasets_ids_cannot_be_fused(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("def own(text, k): return ['n1']\n")
    with pytest.raises(UsageError, match="it answers with the dataset's ids"):
        Hybrid([f"{tmp_path}/own.py:own", "bm25"])
