"""Plain functions and ready-made objects under test."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from corpora import labelled, ranked

from harness.datasets.reader import Dataset
from harness.records.run import RunRecord
from harness.retrievers.contract import Corpus, Question, Result
from harness.runs.folder.run_folder import RunFolder
from harness.runs.run import run


@pytest.fixture
def notes(home: Path, tmp_path: Path) -> Dataset:
    """Eight notes, told apart by their last word; the answer to `want 3` is note 3."""
    documents = [{"id": f"n{i}", "text": f"note number {i}"} for i in range(8)]
    queries = [{"id": f"q{i}", "text": f"want {i}"} for i in range(4)]
    return labelled(tmp_path / "files", documents, queries, {f"q{i}": [f"n{i}"] for i in range(4)})


def _record(folder: Path) -> RunRecord:
    return RunFolder(folder).record


def test_a_plain_function_answers_with_the_dataset_s_own_ids(
    notes: Dataset, tmp_path: Path
) -> None:
    def retrieve(text: str, k: int) -> list[str]:
        return [f"n{text[-1]}", "n7"][:k]

    folder = run(notes, retrieve, out=tmp_path)
    assert ranked(folder)["q3"] == ["n3", "n7"]
    about = _record(folder).retriever
    assert about.ids == "dataset"
    assert about.name.endswith("retrieve")
    assert list(about.files) == ["corpora.py", "test_functions.py"]  # and what it imports


def test_a_plain_function_may_answer_with_numbers_that_are_ids(home: Path, tmp_path: Path) -> None:
    """Not positions: 3 is the document with the id 3."""
    documents = [{"id": str(i), "text": f"passage {i}"} for i in range(5)]
    queries = [{"id": "1", "text": "three"}]
    dataset = labelled(tmp_path / "files", documents, queries, {"1": ["3"]})
    for answer in ([3, "4"], np.array([3, 4]), [(3, 2.0), (4, 1.0)], Result(np.array([3, 4]))):
        folder = run(dataset, lambda text, k, answer=answer: answer, out=tmp_path)
        assert ranked(folder) == {"1": ["3", "4"]}


def test_a_function_that_asks_for_the_corpus_answers_with_handles(
    notes: Dataset, tmp_path: Path
) -> None:
    def retrieve(text: str, k: int, corpus: Corpus) -> list[str]:
        return [d.id for d in corpus if d.text.split()[-1] == text.split()[-1]]

    folder = run(notes, retrieve, out=tmp_path)
    assert ranked(folder) == {f"q{i}": [f"n{i}"] for i in range(4)}
    assert _record(folder).retriever.ids == "handles"


def test_two_functions_and_two_objects_leave_folders_of_their_own(
    notes: Dataset, tmp_path: Path
) -> None:
    class Named:
        def __init__(self, n: int) -> None:
            self.params = {"n": n}

        def index(self, corpus: Corpus) -> None: ...

        def search(self, queries: Sequence[Question], k: int) -> list[list[int]]:
            return [[self.params["n"]] for _ in queries]

    def first(text: str, k: int) -> list[str]:
        return ["n1"]

    def second(text: str, k: int) -> list[str]:
        return ["n2"]

    folders = {run(notes, one, out=tmp_path) for one in (first, second, Named(1), Named(2))}
    assert len(folders) == 4
    assert {_record(folder).retriever.params.get("n") for folder in folders} == {1, 2, None}
