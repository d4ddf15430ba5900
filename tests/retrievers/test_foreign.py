"""Objects made for other harnesses are known for what they are, and ours are given to others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from notes import SharedWords

import harness
from harness.errors import UsageError
from harness.retrievers.contract import Corpus, Question, Result
from harness.retrievers.registry import RetrieverSpec, wrapper_for
from harness.retrievers.wrap import kind_of

CORPUS = {
    "a": {"title": "Tides", "text": "The moon pulls the sea."},
    "b": {"title": "", "text": "Bread rises with yeast."},
    "q2": {"title": "Bread", "text": "Bread and the sea."},
}
QUERIES = {"q1": "what pulls the sea", "q2": "bread"}


class SearchOfBeir:
    def index(self, corpus: Any) -> None: ...
    def search(self, corpus: Any, queries: Any, top_k: int, *rest: Any) -> None: ...


class SearchOfMteb:
    mteb_model_meta = "described"

    def index(self, corpus: Any, *, task_metadata: Any) -> None: ...
    def search(self, queries: Any, *, top_k: int) -> None: ...


class Proxy(SharedWords):
    """Has whatever it is asked for, as clients of services do."""

    def __getattr__(self, name: str) -> Any:
        return lambda *given: None


def test_objects_of_others_are_told_from_ours_by_what_they_have() -> None:
    kinds = [kind_of(one) for one in (SearchOfBeir(), SearchOfMteb())]
    assert [(kind.retriever, kind.parameter) for kind in kinds if kind] == [
        ("beir", "search"),
        ("mteb", "model"),
    ]
    ours: list[Any] = [SharedWords(), Proxy(), RetrieverSpec("bm25").build(), "bm25", print, None]
    assert [kind_of(one) for one in ours] == [None] * 6
    assert [wrapper_for(one) for one in [*ours, SearchOfBeir, SearchOfMteb]] == [None] * 8


def test_a_function_of_which_nothing_is_needed_builds_a_retriever(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "from harness.retrievers.bm25 import BM25\n"
        "def make(k1=1.2): return BM25(k1=k1)\n"
        "def retrieve(text, k): return []\n"
    )
    built = RetrieverSpec(f"{path}:make", {"k1": 0.9}).build()
    assert type(built).__name__ == "BM25"
    assert type(RetrieverSpec(f"{path}:retrieve").build()).__name__ == "FunctionRetriever"
    with pytest.raises(UsageError, match="has no parameter 'k2'"):
        RetrieverSpec(f"{path}:make", {"k2": 1}).check()


@pytest.mark.extensions
@pytest.mark.parametrize("given", ["bm25", RetrieverSpec("bm25"), SharedWords()])
def test_ours_answers_beir_with_its_ids_and_leaves_out_the_query_itself(given: Any) -> None:
    found = harness.as_beir(given).search(CORPUS, QUERIES, 1, "cos_sim")
    assert {query: [*scores] for query, scores in found.items()} == {"q1": ["a"], "q2": ["b"]}
    deep = harness.as_beir(given).search(CORPUS, QUERIES, 100, "dot")
    assert next(iter(deep["q1"])) == "a"
    assert "q2" not in deep["q2"]
    assert harness.as_beir(given).search({}, QUERIES, 10) == {"q1": {}, "q2": {}}


class Seen:
    """Keeps what it is shown, and answers with all documents as they come, without scores."""

    def index(self, corpus: Corpus) -> None:
        self.corpus = corpus

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        return [Result(self.corpus.handles[:k]) for _ in queries]


@pytest.mark.extensions
def test_ours_sees_handles_in_an_order_that_tells_nothing_and_ranks_without_scores() -> None:
    seen = Seen()
    many = {f"doc{i:03}": {"title": "", "text": f"text {i}"} for i in range(200)}
    found: Mapping[str, Mapping[str, float]] = harness.as_beir(seen).search(many, {"q": "text"}, 50)
    assert not {*many} & {document.id for document in seen.corpus}
    assert [document.text for document in seen.corpus] != [one["text"] for one in many.values()]
    shown = [f"doc{int(document.text[5:]):03}" for document in seen.corpus]
    assert [*found["q"]] == shown[:50]
    assert [*found["q"].values()] == sorted(found["q"].values(), reverse=True)


@pytest.mark.extensions
def test_no_handle_stands_in_two_corpora() -> None:
    seen = Seen()
    search = harness.as_beir(seen)
    search.search(CORPUS, QUERIES, 1)
    first = {*seen.corpus.handles}
    search.search(CORPUS, QUERIES, 1)
    assert first.isdisjoint(seen.corpus.handles)


@pytest.mark.extensions
def test_what_is_no_retriever_is_refused_in_a_line() -> None:
    for given, said in (
        (SharedWords, "SharedWords is not a retriever object"),
        ({}, "a dict is not a retriever object"),
        ("bm26", "unknown retriever 'bm26'"),
        ("oracle", "is given the gold labels"),
    ):
        with pytest.raises(UsageError, match=said):
            harness.as_beir(given)  # type: ignore[arg-type]
