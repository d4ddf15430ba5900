"""The queries to label, from .jsonl, .csv, .tsv or .txt: what a person has at hand."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.dataset.adapters import labelled_fields as fields
from harness.dataset.adapters.formats import jsonl
from harness.dataset.adapters.formats.delimited import csv_records, tsv
from harness.dataset.adapters.formats.text import TextFile
from harness.errors import UsageError
from harness.labelling.folder import Record

ENDINGS = ".jsonl, .csv, .tsv or .txt"
SPLITS = ("test", "dev", "train")
"""The splits that the dataset `labelled` knows."""


def read_queries(path: Path) -> list[Record]:
    """The queries of a file, in its order; those without an id have none yet.

    .jsonl and .csv have the fields that `labelled` reads, `text` at least, and may have `split`;
    .tsv is id and text; .txt is one query a line. Raises UsageError, naming the line, for a field
    that is not as it must be, an id that stands twice, and a file without a query.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file; a file of queries ({ENDINGS}) is needed")
    file = TextFile(path)
    lines: dict[str, int] = {}
    found = []
    for line, record in _records(file):
        query = _checked(file, line, record)
        if "id" in query:
            before = lines.setdefault(query["id"], line)
            if before != line:
                raise file.error(
                    line, f"the query id {query['id']!r} stands on line {before} already; rename it"
                )
        found.append(query)
    if not found:
        raise UsageError(f"{path}: holds no queries")
    return found


def _records(file: TextFile) -> Iterator[tuple[int, dict[str, Any]]]:
    ending = Path(file.path.name.removesuffix(".gz")).suffix.lower()
    if ending == ".jsonl":
        yield from jsonl.records(file)
    elif ending == ".csv":
        yield from csv_records(file, ("text",))
    elif ending == ".tsv":
        for line, (id_, text) in tsv(file, ("query id", "text")):
            yield line, {"id": id_, "text": text}
    elif ending == ".txt":
        for line, text in file.lines():
            if text.strip():
                yield line, {"text": text}
    else:
        raise UsageError(f"{file}: the queries must be a file that ends in {ENDINGS}")


def _checked(file: TextFile, line: int, record: dict[str, Any]) -> Record:
    """The record with its id and text as text, and whatever else it holds."""
    query: Record = {name: value for name, value in record.items() if name not in ("_id", "id")}
    given = {"id": record.get("id", record.get("_id"))}
    id_ = jsonl.optional_string(file, line, given, "id")
    query["text"] = jsonl.string(file, line, record, "text").strip()
    if not query["text"]:
        raise file.error(line, "the query has no text; write it, or take the line out")
    for name in ("haystack", "category"):
        jsonl.optional_string(file, line, record, name)
    split = jsonl.optional_string(file, line, record, "split")
    if split is not None and split not in SPLITS:
        raise file.error(line, f"the split {split!r} is none of {', '.join(SPLITS)}; choose one")
    if record.get("ability"):
        fields.ability(file, line, record)
    fields.answers(file, line, record)
    fields.timestamp(file, line, record.get("timestamp"))
    return query if id_ is None else {"id": id_, **query}
