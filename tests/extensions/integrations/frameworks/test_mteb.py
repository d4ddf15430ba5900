"""Models of mteb here, and ours there: run with -m dense in an environment that has the extra
[mteb] (and so torch)."""

from __future__ import annotations

import csv
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
import pytrec_eval
from notes import ask, corpus

import harness
from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.extensions.dense.minilm import PACKAGED, MiniLM
from harness.extensions.dense.models import packaged
from harness.extensions.integrations.frameworks.mteb_bridge import Mteb
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
MODELS = Path(__file__).with_name("mteb_models.py")
BASELINE = "mteb/baseline-bm25s"


@pytest.fixture(scope="module")
def task(request: pytest.FixtureRequest) -> Any:
    """SciFact as a task of mteb that reads the files on this machine."""
    folder = request.getfixturevalue("data") / "beir" / "scifact"
    from datasets import Dataset as Rows
    from mteb.abstasks.retrieval import AbsTaskRetrieval
    from mteb.abstasks.task_metadata import TaskMetadata

    class Local(AbsTaskRetrieval):
        ignore_identical_ids = True
        metadata = TaskMetadata(
            name="LocalSciFact",
            description="SciFact's test questions",
            dataset={"path": "none", "revision": "none"},
            type="Retrieval",
            category="t2t",
            eval_langs=["eng-Latn"],
            main_score="ndcg_at_10",
        )

        def load_data(self, **options: Any) -> None:
            qrels: dict[str, dict[str, int]] = {}
            with (folder / "qrels" / "test.tsv").open() as lines:
                for row in csv.DictReader(lines, delimiter="\t"):
                    qrels.setdefault(row["query-id"], {})[row["corpus-id"]] = int(row["score"])
            rows = {
                name: [json.loads(line) for line in (folder / f"{name}.jsonl").open()]
                for name in ("corpus", "queries")
            }
            documents = [{"id": r["_id"], **r} for r in rows["corpus"]]
            asked = [{"id": r["_id"], **r} for r in rows["queries"] if r["_id"] in qrels]
            self.dataset = {
                "default": {
                    "test": {
                        "corpus": _rows(Rows, documents, ("id", "title", "text")),
                        "queries": _rows(Rows, asked, ("id", "text")),
                        "relevant_docs": qrels,
                        "top_ranked": None,
                    }
                }
            }
            self.data_loaded = True

    local = Local()
    local.load_data()
    return local


def _rows(kind: Any, rows: list[dict[str, Any]], names: tuple[str, ...]) -> Any:
    return kind.from_list([{name: row[name] for name in names} for row in rows])


def in_mteb(model: Any, task: Any, folder: Path) -> tuple[dict[str, dict[str, float]], float]:
    """The scores that mteb gets from a model, and the nDCG@10 that it makes of them."""
    import mteb

    done = mteb.evaluate(
        model,
        task,
        cache=None,
        co2_tracker=False,
        prediction_folder=folder,
        show_progress_bar=False,
    )
    (scores,) = done.task_results[0].scores["test"]
    (file,) = folder.rglob("*_predictions.json")
    found = json.loads(file.read_bytes())["default"]["test"]
    for query, ranked in found.items():
        ranked.pop(query, None)
    qrels = task.dataset["default"]["test"]["relevant_docs"]
    each = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10"}).evaluate(found).values()
    exact = sum(query["ndcg_cut_10"] for query in each) / len(each)
    assert scores["ndcg_at_10"] == round(exact, 5)  # mteb gives no more digits
    return found, exact


@pytest.fixture
def scifact(data: Path, home: Path) -> Dataset:
    return harness.open_dataset("beir/scifact", source=data / "beir" / "scifact")


def here(folder: Path, dataset: Dataset) -> float:
    return float(harness.score_run(folder, dataset)["ndcg@10", "all", "trec"])


def test_a_search_of_mteb_scores_scifact_as_mteb_says(
    task: Any, scifact: Dataset, tmp_path: Path
) -> None:
    import mteb

    model = mteb.get_model(BASELINE)
    theirs, ndcg = in_mteb(model, task, tmp_path / "theirs")
    folder = harness.run(scifact, model, harness.Settings(k=1000), out=tmp_path)
    assert here(folder, scifact) == pytest.approx(ndcg, abs=1e-9)
    ours: dict[str, dict[str, float]] = {}
    for line in (folder / "rankings.trec").read_text().splitlines():
        query, _, document, _, score, _ = line.split()
        ours.setdefault(query, {})[document] = float(score)
    for query, found in theirs.items():
        # Of documents with the lowest score it depends on their order which ones still came.
        least = max(min(found.values()), min(ours[query].values()))
        assert {d: s for d, s in found.items() if s > least} == {
            d: s for d, s in ours[query].items() if s > least
        }


def test_our_bm25_scores_scifact_in_mteb_as_here(
    task: Any, scifact: Dataset, tmp_path: Path
) -> None:
    _, ndcg = in_mteb(harness.as_mteb("bm25"), task, tmp_path / "theirs")
    assert ndcg == pytest.approx(0.67909, abs=5e-6)
    folder = harness.run(scifact, "bm25", harness.Settings(k=100), out=tmp_path)
    assert ndcg == pytest.approx(here(folder, scifact), abs=1e-9)


def test_in_a_reranking_task_ours_ranks_the_candidates_alone() -> None:
    from datasets import Dataset as Rows

    ours = harness.as_mteb("bm25")
    rows = [{"id": f"n{i}", "title": "", "text": text} for i, text in enumerate(NOTES)]
    ours.index(Rows.from_list(rows), task_metadata=None)
    queries = Rows.from_list([{"id": "q", "text": "boat", "instruction": "or the cello"}])
    assert {*ours.search(queries, top_k=10)["q"]} >= {"n2", "n3"}
    candidates = {"q": ["n0", "n2"]}
    assert next(iter(ours.search(queries, top_k=10, top_ranked=candidates)["q"])) == "n2"
    assert not {"n1", "n3", "n4"} & {*ours.search(queries, top_k=10, top_ranked=candidates)["q"]}


def test_mteb_keeps_results_of_the_same_retriever_alone_under_one_revision(tmp_path: Path) -> None:
    def revision(given: Any) -> str:
        return str(harness.as_mteb(given).mteb_model_meta.revision)

    spec = harness.RetrieverSpec("bm25", {"k1": 0.9})
    assert revision("bm25") == revision("bm25") != revision(spec)
    (tmp_path / "mine.py").write_text("class Mine:\n  index = search = lambda self, *a: []\n")
    for changes in (f"{tmp_path}/mine.py:Mine", spec.build()):
        assert revision(changes) != revision(changes)


def test_an_encoder_ranks_as_in_mteb_and_embeds_each_document_once() -> None:
    from datasets import Dataset as Rows
    from mteb.models import SearchEncoderWrapper
    from mteb_models import Letters

    mine, theirs = Letters(), SearchEncoderWrapper(Letters())
    retriever = Mteb(mine)  # type: ignore[arg-type]
    retriever.index(corpus(NOTES))
    about = retriever._about
    theirs.index(
        Rows.from_list([{"id": f"d{4 - i}", "text": t} for i, t in enumerate(NOTES)]), **about
    )
    asked = Rows.from_list([{"id": "q", "text": "music lesson"}])
    found = theirs.search(asked, top_k=3, **about)["q"]
    made = mine.encoded
    for _ in range(2):  # mteb's wrapper can be asked once
        result = ask(retriever, "music lesson", 3)
        assert dict(zip(result.ids, result.scores, strict=True)) == pytest.approx(found)
    assert mine.encoded == made + 2
    retriever = pickle.loads(pickle.dumps(retriever))  # as other processes get it
    retriever.index(corpus(NOTES[:2], titles=["Teeth", "Bees"]))
    assert {*ask(retriever, "bees", 50).ids} == {"d0", "d1"}
    retriever.index(corpus([]))
    assert list(ask(retriever, "bees").ids) == []


def test_a_model_of_sentence_transformers_ranks_as_minilm(weights: None, home: Path) -> None:
    from sentence_transformers import SentenceTransformer

    theirs, ours = Mteb(SentenceTransformer(str(packaged(PACKAGED)))), MiniLM()  # type: ignore[arg-type]
    for retriever in (theirs, ours):
        retriever.index(corpus(NOTES))
    found, wanted = (ask(one, "When is the music lesson?", 5) for one in (theirs, ours))
    assert list(found.ids) == [f"d{4 - i}" for i in wanted.ids]
    assert list(found.scores) == pytest.approx([float(s) for s in wanted.scores], abs=1e-5)


def test_a_cross_encoder_reads_every_document() -> None:
    retriever = RetrieverSpec("mteb", {"model": f"{MODELS}:Shared"}).build()
    retriever.index(corpus(NOTES))
    found = retriever.search([Question("the cello every day"), Question("a boat")], 2)
    assert [next(iter(result.ids)) for result in found] == ["d2", "d1"]


@pytest.mark.parametrize("name", ["letters", "Letters", "baseline"])
def test_an_object_a_class_and_a_function_of_a_file_are_named_as_retrievers(
    name: str, home: Path, tmp_path: Path
) -> None:
    dataset = harness.open_dataset("sample")
    for given in (
        harness.RetrieverSpec(f"{MODELS}:{name}"),
        harness.RetrieverSpec("mteb", {"model": f"{MODELS}:{name}"}),
    ):
        folder = harness.run(dataset, given, harness.Settings(k=10, limit=20), out=tmp_path)
        record = json.loads((folder / "run.json").read_bytes())
        assert record["queries"]["failed"] == 0
        assert record["retriever"]["ids"] == "handles"


def test_what_mteb_does_not_have_is_said_before_the_run() -> None:
    for params, message in (
        ({"model": f"{MODELS}:np"}, "is a module, not an EncoderProtocol"),
        ({"model": BASELINE, "task": "SciFakt"}, "SciFakt"),
        ({"model": f"{MODELS}:Letter"}, "has no 'Letter'"),
    ):
        with pytest.raises(UsageError, match=message):
            RetrieverSpec("mteb", params).build()
