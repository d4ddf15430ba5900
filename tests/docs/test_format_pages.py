"""The pages on file formats have every key and column that is written, and no other."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from docs_blocks import ROOT
from docs_tables import documented

from harness import open_dataset
from harness.runfiles.fields import CHANGES, DOCUMENTS, QRELS, QUERIES, RUN, RUN_LISTS, Fields

FORMATS = ROOT / "docs" / "reference" / "formats"

_ALL_FIELDS: dict[str, list[dict[str, Any]]] = {
    "documents": [
        {"id": "d1", "text": "a", "title": "b", "timestamp": "2024-03-01", "session": "s",
         "speaker": "c", "position": 0, "haystack": ["h"], "user_id": "u"},
        {"id": "d1", "text": "b", "haystack": ["i"]},
        {"id": "d3", "text": "c", "haystack": ["i"]},
    ],
    "queries": [
        {"id": "q1", "text": "a", "haystack": "h", "ability": "lookup", "category": "b",
         "timestamp": "2024-03-02", "answers": ["c"], "user_id": "u", "groups": ["t"]},
        {"id": "q2", "text": "b", "haystack": "i", "ability": "abstention"},
        {"id": "q3", "text": "c", "haystack": "h", "relevant": ["d1"]},
    ],
    "qrels": [
        {"query": "q1", "document": "d1", "grade": 2, "evidence_id": "u"},
        {"query": "q1", "document": "d2", "missing": True},
        {"query": "q1", "document": "d1", "qrels_set": "second"},
    ],
    "changes": [
        {"kind": "forget", "document": "d1", "timestamp": "2024-03-02", "haystack": "h"},
        {"kind": "update", "document": "d1", "timestamp": "2024-03-02", "by": "d3",
         "haystack": "i"},
    ],
}  # fmt: skip


@pytest.fixture
def command(harness: Callable[..., Any]) -> Callable[..., None]:
    """Runs one that ends with that status."""

    def call(*arguments: str, status: int = 0) -> None:
        told = harness(*arguments)
        assert told.status == status, told.err

    return call


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


@pytest.mark.usefixtures("home")
def test_prepared_datasets_have_the_columns_and_keys_of_the_page() -> None:
    dataset, page = open_dataset("changes", quiet=True), FORMATS / "prepared-dataset.md"
    users = open_dataset("scopes", quiet=True).folder / "scopes.arrow"
    for file in [*sorted(dataset.folder.glob("*.arrow")), users]:
        schema = pa.ipc.open_file(pa.memory_map(str(file))).schema
        assert schema.names == documented(page, file.name)


@pytest.mark.usefixtures("home")
def test_labelled_data_with_every_field_of_the_page_is_read_and_written_again(
    tmp_path: Path, command: Callable[..., None]
) -> None:
    source, page = tmp_path / "mine", FORMATS / "labelled-data.md"
    source.mkdir()
    for role, records in _ALL_FIELDS.items():
        (source / f"{role}.jsonl").write_text("".join(json.dumps(r) + "\n" for r in records))
    export = ("datasets", "export", "labelled", "--source", "mine", "--format", "jsonl")
    command(*export, "--out", "out")
    # A query's split chooses what is read, and is not kept; its judgements are written apart.
    # A date is written as a timestamp.
    not_written = {"documents": {"date"}, "queries": {"split", "relevant", "date"}}
    for role in _ALL_FIELDS:
        written = {key for record in _lines(tmp_path / "out" / f"{role}.jsonl") for key in record}
        assert written | not_written.get(role, set()) == set(documented(page, role.capitalize()))


@pytest.mark.parametrize(
    ("page", "heading", "fields"),
    [
        ("labelled-data.md", "Documents", DOCUMENTS),
        ("labelled-data.md", "Queries", QUERIES),
        ("labelled-data.md", "Qrels", QRELS),
        ("labelled-data.md", "Changes", CHANGES),
        ("rankings.md", "Names", RUN),
    ],
)
def test_every_name_that_a_field_may_have_stands_in_its_row(
    page: str, heading: str, fields: Fields
) -> None:
    lines = (FORMATS / page).read_text("utf-8").split(f"# {heading}\n", 1)[1].split("\n#", 1)[0]
    rows = [row.split("|")[1:-1] for row in lines.splitlines() if row.startswith("| `")]
    told = {re.findall(r"`(.+?)`", row[0])[0]: re.findall(r"`(.+?)`", row[-1]) for row in rows}
    said = {field: list(names[1:]) for field, names in fields.names.items()}
    assert told == said


def test_every_name_of_a_list_of_documents_stands_on_the_page() -> None:
    text = (FORMATS / "rankings.md").read_text("utf-8")
    names = {name for names in RUN_LISTS.names.values() for name in names}
    assert {name for name in names if f"`{name}`" not in text and f'"{name}"' not in text} == set()
