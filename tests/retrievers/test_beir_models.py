"""BEIR's own models and searches, with the packaged MiniLM: run with -m dense in an environment
that has the extra [beir] (and so torch)."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from notes import ask, corpus

import harness
from harness.errors import UsageError
from harness.extensions.dense.dense import Dense
from harness.extensions.dense.minilm import PACKAGED
from harness.extensions.dense.models import packaged
from harness.extensions.integrations.beir_models import Beir
from harness.retrievers.contract import Question
from harness.retrievers.registry import RetrieverSpec

pytestmark = pytest.mark.dense

NOTES = [
    "The dentist moved my appointment to Friday.",
    "Bees need syrup when the ivy is over.",
    "I practise the cello every Tuesday at eleven.",
    "My brother has bought a boat with a leaking hull.",
    "The rent will go up in April.",
]
QUESTIONS = [Question("When is the music lesson?"), Question("Who looks after my teeth?")]


@pytest.fixture(scope="module")
def beir(weights: None) -> Beir:
    return Beir(path=PACKAGED)


def test_beirs_exact_search_ranks_as_the_dense_retriever_does(beir: Beir, home: Path) -> None:
    dense = Dense(PACKAGED)
    for retriever in (beir, dense):
        retriever.index(corpus(NOTES))
    for theirs, ours in zip(beir.search(QUESTIONS, 4), dense.search(QUESTIONS, 4), strict=True):
        assert list(theirs.ids) == list(ours.ids)
        np.testing.assert_allclose(np.asarray(theirs.scores), np.asarray(ours.scores), atol=1e-5)


def test_one_question_gets_the_answer_it_gets_among_others(beir: Beir) -> None:
    beir.index(corpus(NOTES))
    together = beir.search(QUESTIONS, 3)
    assert list(ask(beir, QUESTIONS[0].text, 3).ids) == list(together[0].ids)


def test_the_corpus_is_embedded_once_and_replaced_by_the_next_one(beir: Beir) -> None:
    beir.index(corpus(NOTES))
    ask(beir, "boat")
    embedded = dict(beir._model._embedded)
    ask(beir, "bees")
    assert list(beir._model._embedded) == list(embedded)
    beir.index(corpus(NOTES[:2]))
    assert sorted(ask(beir, "boat").ids) == [0, 1]
    beir.index(corpus([]))
    assert list(ask(beir, "boat").ids) == []


@pytest.mark.parametrize("search", ["FlatIPFaissSearch", "HNSWFaissSearch"])
def test_a_faiss_search_finds_the_same_on_a_few_documents(search: str, weights: None) -> None:
    faiss = Beir(path=PACKAGED, search=f"beir.retrieval.search.dense.{search}")
    exact = Beir(path=PACKAGED)
    for retriever in (faiss, exact):
        retriever.index(corpus(NOTES))
    for theirs, ours in zip(faiss.search(QUESTIONS, 50), exact.search(QUESTIONS, 50), strict=True):
        assert list(theirs.ids) == list(ours.ids)


def test_a_model_class_of_ones_own_serves(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "import torch\n"
        "class Letters:\n"
        "    def __init__(self, path, of='abc'): self.of = of\n"
        "    def encode_queries(self, texts, **options):\n"
        "        return torch.tensor([[t.count(c) + 0.0 for c in self.of] for t in texts])\n"
        "    def encode_corpus(self, corpus, **options):\n"
        "        return self.encode_queries([d['text'] for d in corpus])\n"
    )
    settings = {"model": f"{path}:Letters", "score_function": "dot", "options": {"of": "xyz"}}
    letters = RetrieverSpec("beir", settings).build()
    letters.index(corpus(["aaa", "xx", "xxx yy", "z"]))
    found = ask(letters, "x", 2)
    assert (list(found.ids), list(found.scores or ())) == ([2, 1], [3.0, 2.0])


def test_a_class_that_is_no_model_is_refused() -> None:
    with pytest.raises(UsageError, match="has no encode_corpus"):
        Beir(model="beir.retrieval.evaluation.EvaluateRetrieval")


SEARCHES = """
from beir.retrieval.models import SentenceBERT
from beir.retrieval.search.dense import DenseRetrievalExactSearch
from harness.extensions.dense.minilm import PACKAGED
from harness.extensions.dense.models import packaged
from harness.extensions.dense.models import packaged

def make(batch_size=128):
    return DenseRetrievalExactSearch(SentenceBERT(str(packaged(PACKAGED))), batch_size=batch_size)

search = make()

class Once:
    indexed = None

    def search(self, corpus, queries, top_k, score_function):
        self.indexed = self.indexed or list(corpus)
        return {id_: {self.indexed[0]: 1.0} for id_ in queries}

once = Once()
"""


@pytest.fixture
def searches(tmp_path: Path) -> Path:
    """A file with searches that have their model."""
    path = tmp_path / "searches.py"
    path.write_text(SEARCHES)
    return path


@pytest.mark.parametrize("name", ["search", "make"])
def test_a_search_that_is_built_ranks_as_the_model_by_its_name(
    name: str, searches: Path, weights: None, beir: Beir
) -> None:
    beir.index(corpus(NOTES))
    wanted = [list(result.ids) for result in beir.search(QUESTIONS, 4)]
    for spec in (
        RetrieverSpec(f"{searches}:{name}"),
        RetrieverSpec("beir", {"search": f"{searches}:{name}"}),
    ):
        retriever = pickle.loads(pickle.dumps(spec.build()))  # as other processes get it
        retriever.index(corpus(NOTES))
        assert [list(result.ids) for result in retriever.search(QUESTIONS, 4)] == wanted


def test_a_search_that_indexes_once_is_asked_anew_for_each_haystack(searches: Path) -> None:
    retriever = RetrieverSpec(f"{searches}:once").build()
    for notes in (NOTES, NOTES[3:]):
        retriever.index(corpus(notes))
        assert [list(result.ids) for result in retriever.search(QUESTIONS, 4)] == [[0], [0]]


def test_a_search_is_handed_to_run_as_it_is_and_its_runs_are_told_apart(
    home: Path, weights: None, tmp_path: Path
) -> None:
    from beir.retrieval.models import SentenceBERT
    from beir.retrieval.search.dense import DenseRetrievalExactSearch

    search = DenseRetrievalExactSearch(SentenceBERT(str(packaged(PACKAGED))))
    dataset = harness.open_dataset("sample")
    settings = harness.Settings(k=10, limit=10)
    given = (search, "minilm", harness.RetrieverSpec("beir", {"path": PACKAGED}))
    folders = [harness.run(dataset, one, settings, out=tmp_path) for one in given]
    values = [harness.score_run(folder, dataset)["ndcg@10"] for folder in folders]
    assert values == pytest.approx([values[0]] * 3, abs=1e-9)
    assert "DenseRetrievalExactSearch" in folders[0].name


def test_our_bm25_scores_scifact_in_beir_as_here(home: Path, data: Path, tmp_path: Path) -> None:
    import pytrec_eval
    from beir.datasets.data_loader import GenericDataLoader
    from beir.retrieval.evaluation import EvaluateRetrieval

    source = data / "beir" / "scifact"
    documents, queries, qrels = GenericDataLoader(str(source)).load(split="test")
    evaluation = EvaluateRetrieval(harness.as_beir("bm25"), k_values=[10, 100])
    results = evaluation.retrieve(documents, queries)
    ndcg, *_ = evaluation.evaluate(qrels, results, [10])
    dataset = harness.open_dataset("beir/scifact", source=source)
    folder = harness.run(dataset, "bm25", harness.Settings(k=100), out=tmp_path)
    ours = harness.score_run(folder, dataset)["ndcg@10", "all", "trec"]
    assert ndcg["NDCG@10"] == round(ours, 5)  # BEIR gives no more digits
    each = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10"}).evaluate(results).values()
    assert sum(q["ndcg_cut_10"] for q in each) / len(each) == pytest.approx(ours, abs=1e-9)
