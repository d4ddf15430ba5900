"""Changes among a user's own files, in each form, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from harness.datasets.reader import ChangedRow
from harness.datasets.registry import open_dataset
from harness.errors import UsageError

FILES = {
    "documents.jsonl": '{"id": "d1", "text": "She lives in Lyon.", "timestamp": 100}\n'
    '{"id": "d2", "text": "She lives in Porto.", "timestamp": 200}\n',
    "queries.jsonl": '{"id": "q1", "text": "Where does she live?", "timestamp": 300}\n',
    "qrels.jsonl": '{"query": "q1", "document": "d2"}\n'
    '{"query": "q1", "document": "d1", "grade": 0}\n',
}
UPDATE = {"kind": "update", "document": "d1", "timestamp": "1970-01-01T00:03:20", "by": "d2"}


def write(folder: Path, **more: str) -> Path:
    folder.mkdir(exist_ok=True)
    for name, text in {**FILES, **more}.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("changes.jsonl", json.dumps(UPDATE)),
        ("changes.json", json.dumps([{"Kind": "update", "doc_id": "d1", "date": 200, "by": "d2"}])),
        ("changes.csv", "kind,document,timestamp,by\nupdate,d1,1970-01-01T00:03:20,d2\n"),
        ("changes.tsv", "kind\tdocument\ttimestamp\tby\nupdate\td1\t1970-01-01T00:03:20\td2\n"),
    ],
)
def test_every_form_of_a_file_of_changes_is_read(
    home: Path, tmp_path: Path, name: str, text: str
) -> None:
    dataset = open_dataset("labelled", source=write(tmp_path / "mine", **{name: text}))
    assert dataset.changes(0) == [ChangedRow("update", 0, 200, 1)]


def test_tables_in_python_may_have_changes(home: Path) -> None:
    tables: dict[str, Any] = {
        name.removesuffix(".jsonl"): pa.Table.from_pylist(
            [json.loads(line) for line in text.splitlines()]
        )
        for name, text in FILES.items()
    }
    dataset = open_dataset("labelled", source={**tables, "changes": pa.Table.from_pylist([UPDATE])})
    assert dataset.changes(0) == [ChangedRow("update", 0, 200, 1)]


def test_a_new_file_of_changes_makes_another_dataset(home: Path, tmp_path: Path) -> None:
    mine = write(tmp_path / "mine")
    before = open_dataset("labelled", source=mine)
    write(mine, **{"changes.jsonl": json.dumps(UPDATE)})
    after = open_dataset("labelled", source=mine)
    assert (before.has_changes, after.has_changes) == (False, True)
    assert before.fingerprint != after.fingerprint


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"kind": "drop"}, "changes.jsonl:1: the kind 'drop' is none of update, forget"),
        ({"document": "d9"}, "changes.jsonl:1: the document 'd9' is not in the haystack 'corpus'"),
        ({"haystack": "ada"}, "changes.jsonl:1: names the haystack 'ada', which is not there"),
        ({"timestamp": 150}, "changes.jsonl:1: at 1970-01-01 00:02:30, before the document 'd2'"),
        ({"timestamp": None}, "changes.jsonl:1: the timestamp is empty"),
        ({"timestamp": "May"}, "changes.jsonl:1: the timestamp 'May' is neither ISO 8601"),
        ({"by": None}, "changes.jsonl:1: an update by nothing"),
    ],
)
def test_a_change_that_cannot_be_is_refused_with_its_line(
    home: Path, tmp_path: Path, changed: dict[str, Any], says: str
) -> None:
    line = json.dumps(UPDATE | changed)
    with pytest.raises(UsageError) as error:
        open_dataset("labelled", source=write(tmp_path / "mine", **{"changes.jsonl": line}))
    assert says in str(error.value)


def test_where_queries_have_haystacks_a_change_names_its_own(home: Path, tmp_path: Path) -> None:
    mine = write(tmp_path / "mine", **{"changes.jsonl": json.dumps(UPDATE)})
    for name in ("documents.jsonl", "queries.jsonl"):
        (mine / name).write_text(FILES[name].replace('{"id"', '{"haystack": "ada", "id"'))
    with pytest.raises(UsageError, match=r"changes.jsonl:1: haystack missing"):
        open_dataset("labelled", source=mine)
    (mine / "changes.jsonl").write_text(json.dumps(UPDATE | {"haystack": "ada"}))
    assert open_dataset("labelled", source=mine).changes(0) == [ChangedRow("update", 0, 200, 1)]
