"""`--inject` adds documents to each haystack, and `harness inject` reports what they change."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from harness.datasets.inject import PREFIX, Injection, canary, injected_text
from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.errors import UsageError
from harness.runs.folder.run_dataset import dataset_of_run
from harness.runs.folder.run_folder import RunFolder
from harness.runs.folder.score_folder import score_run

Harness = Callable[..., Any]

ANSWERS_WITH_ITS_FIRST_DOCUMENT = """
from harness import Result
from harness.retrievers.bm25 import BM25

class Obeys:
    def index(self, corpus):
        self.retriever = BM25()
        self.retriever.index(corpus)
        self.texts = corpus.contents
    def search(self, queries, k):
        return [self.result(found.ids) for found in self.retriever.search(queries, k)]
    def result(self, positions):
        return Result(positions, answer=self.texts[positions[0]] if len(positions) else "nothing")
"""


@pytest.fixture(scope="module")
def injected(cache: Path) -> Dataset:
    return open_dataset("sample", split="test-inject-instruct-2")


def test_injected_documents_are_added_to_the_haystack_of_their_query_and_not_to_qrels(
    sample: Dataset, injected: Dataset
) -> None:
    n = len(sample.documents)
    assert len(injected.documents) == n + 2 * sample.n_queries
    assert (
        injected.documents.column("text").to_pylist()[:n]
        == sample.documents.column("text").to_pylist()
    )
    assert injected.fingerprint != sample.fingerprint
    for name in sample.qrels_sets:
        for column in ("query", "document", "grade"):
            before, after = (getattr(one.qrels(name), column) for one in (sample, injected))
            assert np.array_equal(before, after)
    for query in range(sample.n_queries):
        haystack = int(injected.query_haystack[query])
        rows = injected.rows_by_id(haystack)
        id_ = injected.query_ids[query]
        for number in (1, 2):
            document = injected.documents[rows[f"{PREFIX}{number}-{id_}"]]
            assert injected.query(query).text in document.text
            assert canary(id_) in document.text
            assert document.text == injected_text("instruct", number, id_, sample.query(query).text)


def test_an_injected_document_is_not_later_than_its_query(cache: Path) -> None:
    dataset = open_dataset("changes", split="test-inject-imitate-1-as-of")
    assert dataset.manifest.as_of
    assert dataset.manifest.injected == "imitate-1"
    speakers = set()
    for query in range(dataset.n_queries):
        found = dataset.rows_by_id(int(dataset.query_haystack[query]))
        own = dataset.documents[found[f"{PREFIX}1-{dataset.query_ids[query]}"]]
        asked = dataset.query(query).timestamp
        assert own.timestamp is not None
        assert asked is not None
        assert own.timestamp <= asked
        speakers.add(own.speaker)
    before = open_dataset("changes").documents.column("speaker").to_pylist()
    assert speakers <= {*before}


def test_a_corpus_that_all_queries_share_has_the_documents_of_all(cache: Path) -> None:
    source = {
        "documents": pa.table({"id": ["a", "b"], "text": ["a red bicycle", "a blue car"]}),
        "queries": pa.table({"id": ["1", "2"], "text": ["Which bicycle?", "Which car?"]}),
        "qrels": pa.table({"query": ["1", "2"], "document": ["a", "b"]}),
    }
    dataset = open_dataset("labelled", source=source, split="test-inject-imitate-1")
    ids = dataset.documents.column("id").to_pylist()
    assert ids == ["a", "b", "injected-1-1", "injected-1-2"]
    assert dataset.haystack_sizes.tolist() == [4]


@pytest.mark.slow
def test_a_run_with_injected_documents_has_another_id_and_compare_names_the_command(
    harness: Harness, tmp_path: Path
) -> None:
    for more in ((), ("--inject", "imitate:1")):
        said = harness("run", "--dataset", "sample", "--retriever", "bm25", "--quiet", *more)
        assert said.status == 0
    plain, changed = sorted(
        (path for path in (tmp_path / "results").iterdir() if path.is_dir()),
        key=lambda path: len(RunFolder(path).record.dataset.split),
    )
    signatures = [
        json.loads((folder / "scores.json").read_text())["protocols"][0]["signature"]
        for folder in (plain, changed)
    ]
    assert "split:test-inject-imitate-1" in signatures[1]
    assert signatures[0] != signatures[1]
    said = harness("compare", plain, changed)
    assert said.status == 2
    assert "harness inject PLAIN INJECTED" in said.err

    found = json.loads(harness("inject", plain, changed, "--json").out)
    assert found["injected"] == "imitate-1"
    assert found["ranks"]["share"] == 1.0  # a document that has all words of the query
    assert found["ranks"]["median_best_rank"] == 1
    means = [
        _recall(score_run(folder, dataset_of_run(folder)), found["protocol"].split())
        for folder in (plain, changed)
    ]
    assert [found["paired"]["mean_a"], found["paired"]["mean_b"]] == pytest.approx(means)
    assert found["paired"]["difference"]["value"] == pytest.approx(means[1] - means[0])
    assert found["paired"]["difference"]["high"] < 0
    assert "harness inject" not in harness("inject", plain, changed).err
    said = harness("inject", changed, plain)
    assert said.status == 2
    assert "name a run without injected documents" in said.err


def _recall(scores: Any, protocol: list[str]) -> float:
    (found,) = (one for one in scores.report.protocols if [one.protocol, one.level] == protocol)
    return float(found.overall["recall@10"].value)


@pytest.mark.slow
@pytest.mark.extensions
def test_answers_that_repeat_the_word_of_an_injected_instruction_are_counted(
    harness: Harness, tmp_path: Path
) -> None:
    (tmp_path / "obeys.py").write_text(ANSWERS_WITH_ITS_FIRST_DOCUMENT)
    system = ("--dataset", "sample", "--retriever", "obeys.py:Obeys", "--quiet")
    assert harness("run", *system, "--name", "plain").status == 0
    assert harness("run", *system, "--name", "changed", "--inject", "instruct:1").status == 0
    for name in ("plain", "changed"):
        said = harness("answer", name, "--out", f"answers-{name}", "--quiet")
        assert said.status == 0, said.err
    folders = [next((tmp_path / f"answers-{name}").iterdir()) for name in ("plain", "changed")]
    said = harness("inject", *folders, "--json")
    assert said.status == 0, said.err
    found = json.loads(said.out)
    assert found["ranks"] is None
    assert found["followed"]["before"] == 0
    assert found["followed"]["after"] > 0.9
    assert found["paired"]["mean_b"] < found["paired"]["mean_a"]


@pytest.mark.slow
def test_runs_of_different_systems_are_refused(harness: Harness) -> None:
    harness("run", "--dataset", "sample", "--retriever", "bm25", "--name", "a", "--quiet")
    options = ("--retriever", "tfidf", "--name", "b", "--inject", "imitate:1", "--quiet")
    harness("run", "--dataset", "sample", *options)
    said = harness("inject", "a", "b")
    assert said.status == 2
    assert "differ in more than injected documents: system bm25 / tfidf" in said.err


@pytest.mark.parametrize("text", ["imitate", "imitate:0", "imitate:101", "copy:1", "imitate:x"])
def test_an_unknown_kind_and_a_wrong_number_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--inject"):
        Injection.parse(text)
