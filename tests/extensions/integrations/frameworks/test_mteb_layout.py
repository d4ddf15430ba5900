"""MTEB's layout as written here, read by mteb itself and here: the same data, the same number.

Run with -m dense in an environment that has the extra [mteb] (and so torch).
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import mteb_files
import numpy as np
import pytest
import pytrec_eval
from places import ROOT

import harness
from harness.datasets.export import export
from harness.datasets.reader import Dataset
from harness.extensions.integrations.frameworks.mteb_bridge import Mteb

pytestmark = pytest.mark.dense


def task_of(folder: Path, subsets: list[str], *, same: bool = False) -> Any:
    """A task of mteb over a folder, loaded by mteb's own loader."""
    from mteb.abstasks.retrieval import AbsTaskRetrieval
    from mteb.abstasks.task_metadata import TaskMetadata

    class Local(AbsTaskRetrieval):
        ignore_identical_ids = same
        metadata = TaskMetadata(
            name="LocalTask",
            description="A folder in MTEB's layout",
            dataset={"path": str(folder), "revision": "0" * 40},
            type="Retrieval",
            category="t2t",
            eval_langs={name: ["eng-Latn"] for name in subsets} if subsets else ["eng-Latn"],
            main_score="ndcg_at_10",
        )

    local = Local()
    local.load_data()
    return local


def assert_same(task: Any, dataset: Dataset) -> None:
    """The queries, their documents, and their judgements as mteb has them."""
    documents = dataset.documents
    texts = dict(zip(documents.column("id").to_pylist(), documents.contents(), strict=True))
    key = dataset.qrels()
    judged: dict[str, dict[str, int]] = {}
    for q, d, g in zip(key.query.tolist(), key.document_id.to_pylist(), key.grade, strict=True):
        judged.setdefault(dataset.query_ids[q], {})[d] = int(g)
    asked: list[str] = []
    for subset, splits in task.dataset.items():
        theirs = splits["test"]
        titled = "title" in theirs["corpus"].column_names
        rows = (
            f"{row['title'] if titled else ''} {row['text']}".strip() for row in theirs["corpus"]
        )
        assert dict(zip(theirs["corpus"]["id"], rows, strict=True)) == texts
        asked += theirs["queries"]["id"]
        for row in theirs["queries"]:
            number = dataset.query_ids.index(row["id"])
            query = dataset.query(number)
            assert (query.text, query.category) == (
                row["text"],
                "" if subset == "default" else subset,
            )
            assert theirs["relevant_docs"][row["id"]] == judged[row["id"]]
            if theirs["top_ranked"] is not None:
                held = dataset.haystack_rows(int(dataset.query_haystack[number]))
                ids = documents.column("id", held).to_pylist()
                assert sorted(theirs["top_ranked"][row["id"]]) == sorted(ids)
    assert asked == dataset.query_ids


def evaluated(model: Any, task: Any, folder: Path) -> tuple[dict[str, float], dict[str, float]]:
    """mteb's nDCG@10 by subset, rounded as it is there, and from its rankings without rounding."""
    import mteb

    done = mteb.evaluate(
        model,
        task,
        cache=None,
        co2_tracker=False,
        prediction_folder=folder,
        show_progress_bar=False,
    )
    rounded = {one["hf_subset"]: one["ndcg_at_10"] for one in done.task_results[0].scores["test"]}
    (file,) = folder.rglob("*_predictions.json")
    found = json.loads(file.read_bytes())
    exact = {}
    for subset in rounded:
        ranked = found[subset]["test"]
        for query, scores in ranked.items() if task.ignore_identical_ids else ():
            scores.pop(query, None)
        qrels = task.dataset[subset]["test"]["relevant_docs"]
        each = pytrec_eval.RelevanceEvaluator(qrels, {"ndcg_cut.10"}).evaluate(ranked).values()
        exact[subset] = sum(one["ndcg_cut_10"] for one in each) / len(each)
    headline = done.task_results[0].get_score()
    assert headline == pytest.approx(np.mean([*rounded.values()]), abs=1e-12)
    return rounded, exact


def scored(dataset: Dataset, out: Path) -> Any:
    from mteb_models import Letters

    folder = harness.run(dataset, Mteb(Letters()), harness.Settings(k=1000), out=out)  # type: ignore[arg-type]
    return harness.score_run(folder, dataset)


def test_scifact_exported_is_the_same_to_mteb_and_here(
    data: Path, home: Path, tmp_path: Path
) -> None:
    from mteb_models import Letters

    dataset = harness.open_dataset("beir/scifact", source=data / "beir" / "scifact")
    export(dataset, tmp_path / "scifact", "mteb")
    back = harness.open_dataset("mteb/my-scifact", source=tmp_path / "scifact")
    task = task_of(tmp_path / "scifact", [])
    assert_same(task, back)
    rounded, exact = evaluated(Letters(), task, tmp_path / "theirs")
    value = scored(back, tmp_path)["ndcg@10", "all", "trec"]
    assert value == pytest.approx(exact["default"], abs=1e-9)
    assert round(value, 5) == rounded["default"]


def test_conversations_exported_are_asked_one_by_one_by_mteb_too(
    data: Path, home: Path, tmp_path: Path
) -> None:
    """LoCoMo's D1:3 stands in ten conversations: top_ranked keeps each question in its own."""
    from mteb_models import Letters

    dataset = harness.open_dataset("locomo", source=data / "locomo" / "locomo10.json")
    export(dataset, tmp_path / "locomo", "mteb")
    back = harness.open_dataset("mteb/my-locomo", source=tmp_path / "locomo")
    task = task_of(tmp_path / "locomo", [])
    assert_same(task, back)
    assert len(back.haystack_ids) == 10
    rounded, exact = evaluated(Letters(), task, tmp_path / "theirs")
    value = scored(back, tmp_path)["ndcg@10", "all", "trec"]
    assert value == pytest.approx(exact["default"], abs=1e-9)
    assert round(value, 5) == rounded["default"]


def test_the_mean_over_subsets_is_the_number_of_mteb(
    data: Path, home: Path, tmp_path: Path
) -> None:
    """In subsets as LMEB has LoCoMo: mteb's headline is the mean of their means."""
    from mteb_models import Letters

    dataset = harness.open_dataset("locomo", source=data / "locomo" / "locomo10.json")
    tables = mteb_files.in_subsets(dataset)
    folder = mteb_files.write(tmp_path / "locomo", tables)
    back = harness.open_dataset("mteb/LoCoMo-made-here", source=folder)
    subsets = [name.removesuffix("-corpus") for name in tables if name.endswith("-corpus")]
    task = task_of(folder, subsets)
    assert_same(task, back)
    rounded, exact = evaluated(Letters(), task, tmp_path / "theirs")
    scores = scored(back, tmp_path)
    for subset in subsets:
        value = scores["ndcg@10", f"category:{subset}", "trec"]
        assert value == pytest.approx(exact[subset], abs=1e-9)
        assert round(value, 5) == rounded[subset]
    over = scores.result("ndcg@10", "all", "trec").macro_category
    assert over is not None
    assert over.value == pytest.approx(np.mean([*exact.values()]), abs=1e-9)
    assert over.groups == len(subsets) == 5


def test_what_mteb_loads_by_code_of_its_own_is_written_by_the_lines_of_the_page(
    home: Path, tmp_path: Path
) -> None:
    """A task with data as BRIGHT's: dictionaries, and lists without what is excluded."""
    page = (ROOT / "docs" / "how-to" / "mteb.md").read_text()
    found = re.search(r'```python title="as_layout.py"\n(.*?)```', page, re.S)
    assert found is not None
    lines: dict[str, Any] = {}
    exec(found[1], lines)
    task = task_of(mteb_files.write(tmp_path / "r", mteb_files.SMALL), [])
    del task.dataset
    task.corpus = {"test": {"d1": {"text": "tea"}, "d2": {"text": "rye"}, "d3": {"text": "jam"}}}
    task.queries = {"test": {"q1": "drink?", "q2": "bread?"}}
    task.relevant_docs = {"test": {"q1": {"d1": 1}, "q2": {"d2": 2}}}
    task.top_ranked = {"test": {"q1": ["d1", "d2", "d3"], "q2": ["d2", "d3"]}}
    lines["write"](task, tmp_path / "layout")
    back = harness.open_dataset("mteb/mine", source=tmp_path / "layout")
    assert_same(task, back)
    assert [len(back.haystack_rows(h)) for h in back.query_haystack] == [3, 2]


def test_the_table_of_tasks_is_as_the_installed_mteb_has_it() -> None:
    import mteb

    from harness.datasets.adapters.mteb import tasks

    table = list(tasks.listed())
    assert {one.name for one in table} == {
        task.metadata.name for task in mteb.get_benchmark("LMEB").tasks
    }
    for one in table:
        task = mteb.get_task(one.name)
        about = task.metadata
        assert one.repository == about.dataset["path"]
        assert one.revision == about.dataset["revision"]
        assert one.subsets == tuple(about.eval_langs)
        assert (one.licence, one.splits) == (about.license, tuple(about.eval_splits))
        assert not task.ignore_identical_ids


def test_other_tasks_come_from_the_installed_mteb_or_are_refused_in_a_line() -> None:
    from harness.datasets.registry import find
    from harness.errors import UsageError

    _, variant, name = find("mteb/ArguAna")
    assert (name, variant.exclude_self, variant.needs_source) == ("mteb/ArguAna", True, False)
    _, variant, name = find("mteb/MIRACLRetrieval:sw")
    assert name == "mteb/MIRACLRetrieval:sw"
    for wrong, said in (
        ("mteb/MIRACLRetrieval", "has 18 languages .*choose a subset, such as mteb/MIRACL"),
        ("mteb/MIRACLRetrieval:xx", "has no subset 'xx'"),
        ("mteb/BrightBiologyRetrieval", "mteb loads it with a custom load_data"),
        ("mteb/Banking77Classification", "not text retrieval"),
    ):
        with pytest.raises(UsageError, match=said) as caught:
            find(wrong)
        assert "\n" not in str(caught.value)
