"""LlamaIndex's own indices and retrievers. Run with -m systems."""

from __future__ import annotations

from pathlib import Path

import pytest
from notes import corpus

from harness.errors import UsageError
from harness.extensions.dense.minilm import MiniLM
from harness.extensions.integrations.frameworks.document_bridges import LlamaIndex
from harness.retrievers.contract import Hit, Question
from harness.retrievers.hybrid import Hybrid

pytestmark = pytest.mark.systems

NOTES = [
    "The dentist moved my appointment to Friday.",
    "Bees need syrup when the ivy is over.",
    "I practise the cello every Tuesday at eleven.",
    "My brother has bought a boat with a leaking hull.",
    "The rent will go up in April.",
]


def find(retriever: LlamaIndex, text: str, k: int = 10) -> list[Hit]:
    (hits,) = retriever.search([Question(text)], k)
    return hits


def test_the_vector_index_ranks_and_scores_as_minilm(home: Path, weights: None) -> None:
    theirs, ours = LlamaIndex(), MiniLM()
    for retriever in (theirs, ours):
        retriever.index(corpus(NOTES, [1577836800] * 5))
    hits = find(theirs, "When is the music lesson?", k=3)
    (found,) = ours.search([Question("When is the music lesson?")], 3)
    # Handles run backwards in these notes; they, and dates, are not embedded with the text.
    assert [hit.sources for hit in hits] == [(f"d{4 - i}",) for i in found.ids]
    assert [hit.score for hit in hits] == pytest.approx([float(s) for s in found.scores], abs=1e-5)
    assert hits[0].text == NOTES[2]


def test_a_new_corpus_replaces_the_old_one_and_k_may_change(home: Path, weights: None) -> None:
    retriever = LlamaIndex()
    retriever.index(corpus(NOTES))
    assert len(find(retriever, "music lesson", k=1)) == 1
    assert len(find(retriever, "music lesson", k=4)) == 4
    retriever.index(corpus(NOTES[:2]))
    assert {hit.text for hit in find(retriever, "music lesson", k=50)} == set(NOTES[:2])
    assert find(retriever, "") == []
    retriever.index(corpus([]))
    assert find(retriever, "music lesson") == []


def test_a_function_may_cut_the_documents_and_give_a_retriever(
    tmp_path: Path, home: Path, weights: None
) -> None:
    path = tmp_path / "my.py"
    path.write_text(
        "from llama_index.core import VectorStoreIndex\n"
        "from llama_index.core.node_parser import SentenceSplitter\n"
        "def make(documents, embed_model, words):\n"
        "    cut = SentenceSplitter(chunk_size=words, chunk_overlap=0, include_metadata=False)\n"
        "    nodes = cut.get_nodes_from_documents(documents)\n"
        "    return VectorStoreIndex(nodes, embed_model=embed_model).as_retriever()\n"
    )
    retriever = LlamaIndex(f"{path}:make", {"words": 7})  # whose chunks lose the metadata
    retriever.index(corpus(["Tea at five. Cake at six.", "The cello is old. It has a crack."]))
    hits = find(retriever, "cello", k=3)
    assert len(hits) == 3  # of its own it gives 2
    assert (hits[0].text, hits[0].sources) == ("The cello is old.", ("d0",))


def test_an_index_without_scores_gives_none(home: Path) -> None:
    retriever = LlamaIndex("llama_index.core:SummaryIndex")
    retriever.index(corpus(NOTES))
    hits = find(retriever, "anything", k=2)
    assert [(hit.text, hit.score) for hit in hits] == [(NOTES[0], None), (NOTES[1], None)]


def test_what_cannot_be_built_is_said_before_the_run() -> None:
    with pytest.raises(UsageError, match="has no 'VectorStoreIndx'"):
        LlamaIndex("llama_index.core:VectorStoreIndx")


def test_fused_with_another_its_hits_count_as_the_documents_that_they_are(
    home: Path, weights: None
) -> None:
    found = []
    for one in ("llamaindex", "minilm"):
        hybrid = Hybrid(["bm25", one], weights=[1, 2])
        hybrid.index(corpus(NOTES))
        (result,) = hybrid.search([Question("When is the music lesson?")], 5)
        found.append(list(result.ids))
    assert found[0] == found[1]
