"""LangChain's own stores and retrievers. Run with -m systems."""

from __future__ import annotations

from pathlib import Path

import pytest
from notes import corpus

from harness.errors import UsageError
from harness.extensions.dense.minilm import MiniLM
from harness.extensions.dense.rerank import Rerank
from harness.extensions.integrations.frameworks.document_bridges import LangChain
from harness.retrievers.contract import Hit, Question
from harness.retrievers.hybrid import Hybrid, RecencyWeighted
from harness.retrievers.registry import RetrieverSpec

pytestmark = pytest.mark.systems

NOTES = [
    "The dentist moved my appointment to Friday.",
    "Bees need syrup when the ivy is over.",
    "I practise the cello every Tuesday at eleven.",
    "My brother has bought a boat with a leaking hull.",
    "The rent will go up in April.",
]
IN_MEMORY = "langchain_core.vectorstores:InMemoryVectorStore"
CHROMA = "langchain_chroma:Chroma"
WORDS = """
from langchain_core.retrievers import BaseRetriever

class Words(BaseRetriever):
    documents: list
    k: int = 4

    @classmethod
    def from_documents(cls, documents):
        return cls(documents=documents)

    def _get_relevant_documents(self, query, *, run_manager):
        wanted = set(query.split())
        shared = lambda document: len(wanted & set(document.page_content.split()))
        return sorted(self.documents, key=shared, reverse=True)[: self.k]
"""


def find(retriever: LangChain, text: str, k: int = 10) -> list[Hit]:
    (hits,) = retriever.search([Question(text)], k)
    return hits


@pytest.mark.parametrize("store", [IN_MEMORY, CHROMA])
def test_a_store_named_without_code_ranks_as_minilm_whatever_its_scores_mean(
    store: str, home: Path, weights: None
) -> None:
    theirs, ours = LangChain(store), MiniLM()
    for retriever in (theirs, ours):
        retriever.index(corpus(NOTES))
    hits = find(theirs, "When is the music lesson?", k=3)
    (found,) = ours.search([Question("When is the music lesson?")], 3)
    # Handles run backwards in these notes.
    assert [hit.sources for hit in hits] == [(f"d{4 - i}",) for i in found.ids]
    assert hits[0].text == NOTES[2]
    scores = [hit.score for hit in hits]
    assert None not in scores  # Chroma gives distances, the other one similarities
    assert scores == sorted(scores, reverse=True)
    theirs.close()


def test_two_at_once_do_not_share_a_collection(home: Path, weights: None) -> None:
    first, second = LangChain(CHROMA), LangChain(CHROMA)
    first.index(corpus(NOTES[:2]))
    second.index(corpus(NOTES[2:]))
    second.close()
    assert {hit.text for hit in find(first, "bees", k=50)} == set(NOTES[:2])


@pytest.mark.parametrize("store", [IN_MEMORY, CHROMA])
def test_a_new_corpus_replaces_the_old_one(store: str, home: Path, weights: None) -> None:
    retriever = LangChain(store)
    retriever.index(corpus(NOTES))
    retriever.index(corpus(NOTES[:2]))
    assert {hit.text for hit in find(retriever, "music lesson", k=50)} == set(NOTES[:2])
    retriever.index(corpus([]))
    assert find(retriever, "music lesson") == []


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """A file with a retriever of its own."""
    path = tmp_path / "words.py"
    path.write_text(WORDS)
    return path


def test_a_retriever_gives_as_many_as_are_wanted_and_takes_no_embeddings(words: Path) -> None:
    retriever = LangChain(f"{words}:Words")
    retriever.index(corpus(NOTES))
    hits = find(retriever, "cello boat", k=5)
    assert len(hits) == 5  # of its own it gives 4
    assert {hits[0].sources, hits[1].sources} == {("d2",), ("d1",)}
    assert len(find(retriever, "boat", k=2)) == 2
    assert retriever.report() == {}


def test_a_function_is_given_documents_with_metadata_embeddings_and_options(
    tmp_path: Path, home: Path, weights: None
) -> None:
    path = tmp_path / "my.py"
    path.write_text(
        "from langchain_core.vectorstores import InMemoryVectorStore\n"
        "def make(documents, embeddings, keep):\n"
        "    assert {'timestamp': '2020-01-01T00:00:00'}.items() <= documents[0].metadata.items()\n"
        "    store = InMemoryVectorStore.from_documents(documents[:keep], embeddings)\n"
        "    return store.as_retriever(search_kwargs={'k': 1})\n"
    )
    retriever = LangChain(f"{path}:make", {"keep": 3})
    retriever.index(corpus(NOTES, [1577836800] * 5))
    assert len(find(retriever, "cello")) == 3


def test_chunks_name_their_document_by_metadata_or_else_by_nothing_but_text(
    words: Path,
) -> None:
    path = words.parent / "chunks.py"
    path.write_text(
        "from words import Words\n"
        "from langchain_text_splitters import CharacterTextSplitter\n"
        "def cut(documents, keep=True):\n"
        "    cutter = CharacterTextSplitter(separator=' ', chunk_size=20, chunk_overlap=0)\n"
        "    chunks = cutter.split_documents(documents)\n"
        "    for chunk in chunks:\n"
        "        chunk.metadata = chunk.metadata if keep else {}\n"
        "    return Words.from_documents(chunks)\n"
    )
    for keep, sources in ((True, ("d2",)), (False, ())):
        retriever = LangChain(f"{path}:cut", {"keep": keep})
        retriever.index(corpus(NOTES))
        assert find(retriever, "cello", k=1) == [Hit("I practise the cello", sources)]


def test_a_store_that_keeps_an_earlier_haystack_is_an_error(words: Path) -> None:
    path = words.parent / "keeps.py"
    path.write_text(
        "from words import Words\n"
        "kept = []\n"
        "def make(documents):\n"
        "    kept.extend(documents)\n"
        "    return Words.from_documents(kept)\n"
    )
    retriever = LangChain(f"{path}:make")
    retriever.index(corpus(NOTES))
    find(retriever, "cello")
    retriever.index(corpus(NOTES[:2]))
    with pytest.raises(RuntimeError, match="from an earlier haystack"):
        find(retriever, "cello")


def test_what_cannot_be_built_is_said_before_the_run(tmp_path: Path) -> None:
    for build, options, message in (
        ("", {}, "pass a function of documents"),
        ("langchain_core.vectorstores:InMemory", {}, "has no 'InMemory'"),
        (f"{_simple(tmp_path)}:make", {"colour": 1}, "has no parameter 'colour'"),
    ):
        with pytest.raises(UsageError, match=message):
            RetrieverSpec("langchain", {"build": build, "options": options}).build()


def test_what_is_no_retriever_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="a list is not a BaseRetriever or VectorStore"):
        LangChain(f"{_simple(tmp_path)}:make").index(corpus(NOTES))


def _simple(folder: Path) -> Path:
    path = folder / "simple.py"
    path.write_text("def make(documents):\n    return documents\n")
    return path


@pytest.mark.parametrize("store", [IN_MEMORY, CHROMA])
def test_inside_hybrid_rerank_and_recency_weighted_it_counts_as_minilm_does(
    store: str, tmp_path: Path, home: Path, weights: None
) -> None:
    """Whose answers are hits: they were dropped there, and the fusion was the other one's alone."""
    (tmp_path / "rerankers.py").write_text(
        "def longest(question, texts): return [*map(len, texts)]\n"
    )
    said = [86_400 * i for i in range(len(NOTES))]
    langchain = {"name": "langchain", "params": {"build": store}}
    for around, inside in (
        (Hybrid, lambda one: {"retrievers": ["bm25", one]}),
        (Rerank, lambda one: {"retriever": one, "reranker": f"{tmp_path}/rerankers.py:longest"}),
        (RecencyWeighted, lambda one: {"retriever": one}),
    ):
        found = []
        for one in (langchain, "minilm"):
            retriever = around(**inside(one))
            retriever.index(corpus(NOTES, said))
            questions = [Question("When is the music lesson?"), Question("a hull of a ship")]
            results = retriever.search(questions, 5)
            found.append([list(result.ids) for result in results])
        assert found[0] == found[1]
        assert all(len(ids) == 5 for ids in found[0])


def test_what_cannot_be_asked_for_more_than_it_holds_is_asked_for_that(tmp_path: Path) -> None:
    """As stores over hnswlib and faiss fail."""
    (tmp_path / "strict.py").write_text(
        WORDS.replace(
            "        wanted =", "        assert self.k <= len(self.documents)\n        wanted ="
        )
    )
    retriever = LangChain(f"{tmp_path}/strict.py:Words")
    retriever.index(corpus(NOTES))
    assert len(find(retriever, "music lesson", k=100)) == len(NOTES)
    assert len(find(retriever, "music lesson", k=2)) == 2
