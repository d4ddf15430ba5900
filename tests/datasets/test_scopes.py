"""Users of documents and queries: written, checked and read back; other datasets are as before."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from small import prepared

from harness.datasets.export import export
from harness.datasets.manifest import FILES
from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.datasets.verify import verify
from harness.datasets.writer import DatasetWriter
from harness.errors import UsageError

OWNERS = {"a1": "ada", "b1": "bo", "t1": "team", "free": None}


def fill(out: DatasetWriter) -> None:
    rows = [out.document(id_, f"text of {id_}", user_id=user) for id_, user in OWNERS.items()]
    out.haystack("all", rows)
    out.haystack("some", rows[:2])
    out.query("ada", "?", "all", user_id="ada", groups=["team"])
    out.query("bo", "?", "all", user_id="bo")
    out.query("none", "?", "all")
    out.query("new", "?", "some", user_id="nobody")
    out.qrel("ada", "t1")
    out.qrel("bo", "b1")


def test_users_and_groups_are_read_back_with_documents_and_queries(tmp_path: Path) -> None:
    dataset = prepared(tmp_path / "data", fill)
    assert [one.user_id for one in dataset.documents] == ["ada", "bo", "team", None]
    assert dataset.documents[2].user_id == "team"
    found = [(dataset.query(row).user_id, dataset.query(row).groups) for row in range(4)]
    assert found == [("ada", ("team",)), ("bo", ()), (None, ()), ("nobody", ())]
    assert [one.ok for one in verify(dataset) if one.what == "content"] == [True]
    assert "user_id" not in dataset.shown_documents.names


def test_a_query_may_read_documents_of_its_user_its_groups_and_nobody(tmp_path: Path) -> None:
    dataset = prepared(tmp_path / "data", fill)
    assert dataset.scopes is not None
    query, row = np.divmod(np.arange(16), 4)
    assert dataset.scopes.foreign(query, row).reshape(4, 4).tolist() == [
        [False, True, False, False],
        [True, False, True, False],
        [False] * 4,  # without a user
        [True, True, True, False],
    ]
    assert not dataset.scopes.foreign(np.array([1]), np.array([-1])).any()
    rows = {h: dataset.haystack_rows(h) for h in (0, 1)}
    found = dataset.scopes.foreign_counts(dataset.query_haystack, rows)
    assert found.tolist() == [1, 2, 0, 2]


def test_a_dataset_without_users_has_no_table_of_them(sample: Dataset) -> None:
    assert set(sample.manifest.files) == set(FILES)
    assert sample.scopes is None
    assert sample.documents[0].user_id is None
    assert sample.query(0).user_id is None


def test_users_move_with_their_documents(tmp_path: Path) -> None:
    def dropped(out: DatasetWriter) -> None:
        for id_, user in OWNERS.items():
            out.document(id_, id_, user_id=user)
        out.drop_documents([0])

    dataset = prepared(tmp_path / "data", dropped)
    assert {one.id: one.user_id for one in dataset.documents} == {
        id_: user for id_, user in OWNERS.items() if id_ != "a1"
    }


def test_relevant_documents_out_of_scope_are_counted(tmp_path: Path) -> None:
    def wrong(out: DatasetWriter) -> None:
        fill(out)
        out.qrel("new", "a1")

    dataset = prepared(tmp_path / "data", wrong)
    (repair,) = dataset.manifest.repairs
    assert (repair.count, repair.examples) == (1, ["new"])
    assert "may not read" in repair.kind


def test_groups_without_a_user_are_refused(tmp_path: Path) -> None:
    def wrong(out: DatasetWriter) -> None:
        out.query("q", "?", "all", groups=["team"])

    with pytest.raises(UsageError, match="'q' has groups, but no user_id"):
        prepared(tmp_path / "data", wrong)


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_labelled_files_may_have_users_and_groups(home: Path, tmp_path: Path, form: str) -> None:
    files: dict[str, list[dict[str, object]]] = {
        "documents": [
            {"id": id_, "text": f"text of {id_}", "user_id": user or ""}
            for id_, user in OWNERS.items()
        ],
        "queries": [
            {"id": "q1", "text": "one", "user_id": "ada", "groups": ["team", "other"]},
            {"id": "q2", "text": "two", "user_id": "bo", "groups": "team"},
        ],
        "qrels": [{"query": "q1", "document": "t1"}, {"query": "q2", "document": "b1"}],
    }
    folder = tmp_path / "mine"
    folder.mkdir()
    for name, records in files.items():
        if form == "jsonl":
            text = "".join(json.dumps(record) + "\n" for record in records)
        else:
            rows = [records[0].keys(), *(record.values() for record in records)]
            cells = [[one if isinstance(one, str) else json.dumps(one) for one in r] for r in rows]
            quoted = [['"' + cell.replace('"', '""') + '"' for cell in row] for row in cells]
            text = "".join(",".join(row) + "\n" for row in quoted)
        (folder / f"{name}.{form}").write_text(text)
    dataset = open_dataset("labelled", source=folder)
    assert [one.user_id for one in dataset.documents] == ["ada", "bo", "team", None]
    assert dataset.query(0).groups == ("team", "other")
    assert dataset.query(1).groups == ("team",)
    export(dataset, tmp_path / "out", "jsonl")
    back = open_dataset("labelled", source=tmp_path / "out")
    assert back.fingerprint == dataset.fingerprint


def test_users_stay_in_splits_as_of_the_questions(home: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    for name, lines in {
        "documents": [
            {"id": f"d{n}", "text": "t", "timestamp": n, "user_id": "ada"} for n in (1, 9)
        ],
        "queries": [{"id": "q", "text": "t", "timestamp": 5, "user_id": "bo", "relevant": ["d1"]}],
    }.items():
        text = "".join(json.dumps(record) + "\n" for record in lines)
        (tmp_path / "mine" / f"{name}.jsonl").write_text(text)
    dataset = open_dataset("labelled", source=tmp_path / "mine", split="test-as-of")
    assert [one.user_id for one in dataset.documents] == ["ada", "ada"]
    assert dataset.query(0).user_id == "bo"
