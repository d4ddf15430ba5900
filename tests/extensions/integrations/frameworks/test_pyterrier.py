"""PyTerrier's transformers, over an index of PISA and without one. Run with -m systems."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from notes import corpus

import harness
from harness.errors import UsageError
from harness.extensions.integrations.frameworks.pyterrier_bridge import PyTerrier
from harness.retrievers.contract import Question, Result
from harness.retrievers.hybrid import Hybrid
from harness.retrievers.registry import RetrieverSpec

pytestmark = pytest.mark.systems

NOTES = [
    "The dentist moved my appointment to Friday.",
    "Bees need syrup when the ivy is over.",
    "I practise the cello every Tuesday at eleven.",
    "My brother has bought a boat with a leaking hull.",
    "The rent will go up in April.",
]
PIPELINES = """
import tempfile
import pandas as pd
import pyterrier as pt
from pyterrier_pisa import PisaIndex

def bm25(documents, fields=("title", "text")):
    index = PisaIndex(tempfile.mkdtemp() + "/index", text_field=[*fields])
    index.index(documents)
    return index.bm25()

def longest_of(documents, depth=2):
    lengths = {d["docno"]: len(d["text"]) for d in documents}
    return bm25(documents) % depth >> pt.apply.doc_score(lambda row: lengths[row["docno"]])

class SharedWords(pt.Transformer):
    def transform(self, frame):
        pt.validate.result_frame(frame, extra_columns=["query", "text"])
        pairs = zip(frame["query"], frame["text"])
        shared = [len(set(q.lower().split()) & set(t.lower().split())) for q, t in pairs]
        return pt.model.add_ranks(frame.assign(score=shared))

reranker = SharedWords()

def nothing(documents):
    return documents

def rewrites(documents):
    return pt.apply.query(lambda row: row["query"] + " cello")

def best_first(documents):  # by rank alone, for every other question
    ids = [d["docno"] for d in documents]
    def answer(frame):
        rows = [(q, d, r) for q in frame["qid"][::2] for r, d in enumerate(ids)]
        return pd.DataFrame(rows, columns=["qid", "docno", "rank"])[::-1]
    return pt.apply.generic(answer)
"""


@pytest.fixture
def pipelines(tmp_path: Path) -> Path:
    path = tmp_path / "pipelines.py"
    path.write_text(PIPELINES)
    return path


def made(pipelines: Path, name: str, **options: Any) -> PyTerrier:
    return PyTerrier(f"{pipelines}:{name}", options)


def find(retriever: Any, *texts: str, k: int = 10) -> list[Result]:
    return list(retriever.search([Question(text) for text in texts], k))


def test_a_function_indexes_the_documents_of_each_haystack(pipelines: Path) -> None:
    retriever = made(pipelines, "bm25")
    retriever.index(corpus(NOTES, titles=["", "", "", "", "Landlord"]))
    cello, landlord, none = find(retriever, "the cello lesson", "Landlord?", "zebra", k=100)
    # Handles run backwards in these notes.
    assert (list(cello.ids), list(landlord.ids), list(none.ids)) == (["d2"], ["d0"], [])
    assert float(cello.scores[0]) > 0
    retriever.index(corpus(NOTES[:2]))
    assert [list(result.ids) for result in find(retriever, "bees", "cello")] == [["d0"], []]
    retriever.index(corpus([]))
    assert list(find(retriever, "bees")[0].ids) == []


def test_a_pipeline_is_asked_for_all_questions_at_once_and_cut_at_k(pipelines: Path) -> None:
    retriever = made(pipelines, "longest_of", depth=3)
    retriever.index(corpus(NOTES))
    boat, cello = find(retriever, "boat, bees or rent", "cello", k=2)
    assert list(boat.ids) == ["d1", "d3"]
    assert list(boat.scores) == [len(NOTES[3]), len(NOTES[1])]
    assert list(cello.ids) == ["d2"]


def test_the_order_is_that_of_rank_and_a_question_may_have_no_answer(pipelines: Path) -> None:
    retriever = made(pipelines, "best_first")
    retriever.index(corpus(NOTES))
    found = find(retriever, "one", "two", "three", k=2)
    assert [list(result.ids) for result in found] == [["d4", "d3"], [], ["d4", "d3"]]
    assert found[0].scores is None


def test_what_wants_texts_is_given_all_documents_and_fuses_with_others(pipelines: Path) -> None:
    for spec in (
        RetrieverSpec(f"{pipelines}:reranker"),
        RetrieverSpec(f"{pipelines}:SharedWords"),
        RetrieverSpec("pyterrier", {"build": f"{pipelines}:SharedWords"}),
    ):
        retriever = spec.build()
        retriever.index(corpus(NOTES))
        (found,) = find(retriever, "every cello", k=3)
        assert (found.ids[0], len(found.ids)) == ("d2", 3)
    hybrid = Hybrid(["bm25", {"name": "pyterrier", "params": {"build": f"{pipelines}:bm25"}}])
    hybrid.index(corpus(NOTES))
    assert list(find(hybrid, "cello", k=5)[0].ids) == [2]


def test_scifact_has_the_ndcg_that_it_has_in_pyterrier(
    pipelines: Path, home: Path, data: Path, tmp_path: Path
) -> None:
    import pandas as pd
    import pyterrier as pt

    from harness.retrievers.registry import find

    source = data / "beir" / "scifact"
    lines = (source / "corpus.jsonl").read_text().splitlines()
    documents = [{"docno": one["_id"], **one} for one in map(json.loads, lines)]
    bm25 = find(f"{pipelines}:bm25")(documents)
    queries = [json.loads(line) for line in (source / "queries.jsonl").read_text().splitlines()]
    topics = pd.DataFrame([{"qid": one["_id"], "query": one["text"]} for one in queries])
    qrels = pd.read_csv(
        source / "qrels" / "test.tsv", sep="\t", dtype={"score": int, 0: str, 1: str}
    )
    qrels.columns = ["qid", "docno", "label"]
    topics = topics[topics["qid"].isin(qrels["qid"])]
    # BEIR leaves out the document whose id is the query's, and PyTerrier does not.
    others = bm25 >> pt.apply.generic(lambda frame: frame[frame["qid"] != frame["docno"]])
    theirs = pt.Experiment([others], topics, qrels, ["ndcg_cut_10"], round=None)

    dataset = harness.open_dataset("beir/scifact", source=source)
    for given in (RetrieverSpec("pyterrier", {"build": f"{pipelines}:bm25"}), bm25):
        folder = harness.run(dataset, given, harness.Settings(k=1000), out=tmp_path)
        ours = harness.score_run(folder, dataset)["ndcg@10", "all", "trec"]
        assert ours == pytest.approx(theirs["ndcg_cut_10"][0], abs=1e-9)
        record = json.loads((folder / "run.json").read_bytes())["retriever"]
        # What was indexed elsewhere answers with the ids that it was given there.
        assert record["ids"] == ("dataset" if given is bm25 else "handles")


def test_what_cannot_retrieve_is_said(pipelines: Path) -> None:
    for build, options, message in (
        ("", {}, "pass a function of documents"),
        (f"{pipelines}:pt", {}, "is a module"),
        (f"{pipelines}:bm25", {"depth": 3}, "has no parameter 'depth'"),
        (f"{pipelines}:reranker", {"depth": 3}, "need a build function, not a transformer"),
    ):
        with pytest.raises(UsageError, match=message):
            RetrieverSpec("pyterrier", {"build": build, "options": options}).build()
    with pytest.raises(TypeError, match=r"a _Documents is not a pyterrier.Transformer"):
        made(pipelines, "nothing").index(corpus(NOTES))
    rewrites = made(pipelines, "rewrites")
    rewrites.index(corpus(NOTES))
    with pytest.raises(ValueError, match="a retriever must return docno"):
        find(rewrites, "bees")
