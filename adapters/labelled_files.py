"""Finds and reads the files of a labelled dataset.

Records of all formats use one set of field names (see harness.runfiles.fields):

* documents: id, text; title, timestamp, session, speaker, position, user_id, haystack, and any
  other field
* queries: id, text; haystack, ability, category, timestamp, answers, user_id, groups, split,
  relevant
* qrels: query, document; grade, evidence_id, qrels_set, missing
* changes: kind, document, timestamp; by, haystack

A file `labelled.toml` in the folder can list fields to ignore and columns to rename.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from msgspec import field

from harness.datasets.adapters.formats import jsonl, parquet, trec
from harness.datasets.adapters.formats.delimited import csv_rows, tsv
from harness.datasets.adapters.formats.text import TextFile
from harness.errors import UsageError, suggest
from harness.io.files import read_toml
from harness.io.records import Record, convert
from harness.runfiles.fields import (
    CHANGES,
    DOCUMENTS,
    QRELS,
    QUERIES,
    FieldError,
    Fields,
    MissingFieldError,
)
from harness.runfiles.json_files import load_json
from harness.runfiles.tables import FORMS, form_of, has_header, header

Records = Iterator[tuple[int, dict[str, object]]]

FIELDS = {
    "documents": DOCUMENTS,
    "queries": QUERIES,
    "qrels": QRELS,
    "changes": CHANGES,
}
SETTINGS = "labelled.toml"

_STEMS = {
    "documents": ("documents", "docs", "corpus", "collection"),
    "queries": ("queries", "topics"),
    "qrels": ("qrels", "judgements", "judgments"),
    "changes": ("changes",),
}
_TREC = {"documents": ("documents", "docs"), "queries": ("topics",), "qrels": ("qrels",)}
"""File names read as TREC format, whatever their ending (documents: .trec)."""

ACCEPTED = (
    "documents, docs or corpus; queries; qrels or judgements: each .jsonl, .json, .csv, .tsv or "
    ".parquet, or TREC's documents.trec, topics.* and qrels.*; BEIR's qrels/*.tsv; or queries with "
    "a field `relevant`"
)


def find(folder: Path, split: str) -> dict[str, Path]:
    """Finds the files of a folder by role: `documents`, `queries`, and zero or more `qrels`.

    The roles `changes` and `settings` (labelled.toml) are optional. Without qrels files the queries
    must contain the judgements. Raises UsageError when a role has no file or several, and for an
    unknown split.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder}: not a folder; pass one with {ACCEPTED}")
    names = sorted(path.name for path in folder.iterdir() if path.is_file())
    found = {}
    for role in ("documents", "queries"):
        found[role] = folder / _only(folder, role, names)
    if SETTINGS in names:
        found["settings"] = folder / SETTINGS
    if _fitting("changes", names):
        found["changes"] = folder / _only(folder, "changes", names)
    if (folder / "qrels").is_dir():
        return found | _splits(folder / "qrels", split)
    if split not in ("test", "all"):
        raise UsageError(f"{folder}: has no splits, so no {split!r}; omit --split")
    if not _fitting("qrels", names):
        return found
    return found | {"qrels": folder / _only(folder, "qrels", names)}


def opened(path: Path) -> TextFile:
    """Opens a file of records, with lines or records as its unit."""
    return TextFile(path, unit="record" if form_of(path) in (".json", ".parquet") else "line")


def records(role: str, path: Path, unread: set[str] | None = None) -> Records:
    """Yields the records of a file in its role; `unread` collects the names of unknown fields.

    Raises UsageError for an unreadable record.
    """
    file, form = opened(path), form_of(path)
    ignored, renamed = _settings(role, path)
    fields = FIELDS[role].renamed(renamed)
    names = _Names(file, role, fields, ignored, set() if unread is None else unread)
    if form == ".jsonl":
        return _named(names, jsonl.checked(file))
    if form == ".json":
        return _named(names, _from_json(file, role))
    if form == ".parquet":
        return _named(names, ((n, _without_nulls(one)) for n, one in parquet.records(file)))
    if (
        form == ".csv"
        or role == "changes"
        or (_may_have_header(role, form) and has_header(path, fields, spoilt=role != "qrels"))
    ):
        return _from_delimited(names, form)
    return _headerless(file, role)


def _may_have_header(role: str, form: str) -> bool:
    return form == ".tsv" or (role == "qrels" and not form)


def documents_name(folder: Path, name: str = "") -> str | None:
    """Returns the name of the documents file in a folder, or None.

    With `name`, returns that name if it is accepted. Raises UsageError for several files.
    """
    names = [name] if name else sorted(path.name for path in folder.iterdir() if path.is_file())
    found = _fitting("documents", names)
    return _only(folder, "documents", names) if found else None


def _only(folder: Path, role: str, names: list[str]) -> str:
    fitting = _fitting(role, names)
    if not fitting:
        there = f"; there is {', '.join(names[:8])}" if names else ""
        raise UsageError(f"{folder}: no file with the {role}; accepted are {ACCEPTED}{there}")
    if len(fitting) > 1:
        raise UsageError(
            f"{folder}: several files could be the {role}: {', '.join(fitting)}; keep one"
        )
    return fitting[0]


def _fitting(role: str, names: list[str]) -> list[str]:
    """Returns the accepted file names of a role."""
    return [name for name in names if _fits(role, name)]


def _fits(role: str, name: str) -> bool:
    stem, _, ending = name.removesuffix(".gz").partition(".")
    if stem in _STEMS[role] and f".{ending}" in FORMS:
        return True
    return stem in _TREC.get(role, ()) and (
        ending == "trec" if role == "documents" else bool(ending)
    )


_TREC_ENDINGS = (".qrels", ".trec", ".txt")


def _splits(folder: Path, split: str) -> dict[str, Path]:
    there: dict[str, Path] = {}
    for path in sorted(folder.glob("[!.]*.*")):
        name = Path(path.name.removesuffix(".gz"))
        is_qrels = name.suffix.lower() in (*FORMS, *_TREC_ENDINGS)
        if path.is_dir() or not is_qrels or name.stem in ("README", "LICENSE"):
            continue
        if there.setdefault(name.stem, path) != path:
            raise UsageError(f"{path}: {there[name.stem].name} is that split too; leave one")
    if split == "dev" and split not in there and "validation" in there:
        split = "validation"
    if not there:
        raise UsageError(
            f"{folder}: contains no qrels; write one file per split, such as {split}.tsv with the "
            "columns query-id, corpus-id and score (or remove the folder and write qrels.csv)"
        )
    wanted = list(there) if split == "all" else [split]
    if split not in ("all", *there):
        raise UsageError(
            f"{folder}: no split {split}; available splits: {', '.join(there)} (choose with "
            f"--split; a split is a file such as {split}.tsv)"
        )
    return {f"qrels/{name}": there[name] for name in wanted}


class _LabelledToml(Record):
    """labelled.toml: fields to ignore, and names of fields by column, both by role."""

    ignore: dict[str, list[str]] = field(default_factory=dict)
    rename: dict[str, dict[str, str]] = field(default_factory=dict)


def _settings(role: str, path: Path) -> tuple[Sequence[str], Mapping[str, str]]:
    """Reads the fields to ignore and the columns to rename, {column: field}, of a role."""
    folder = path.parent.parent if path.parent.name == "qrels" else path.parent
    place = folder / SETTINGS
    if not place.is_file():
        return (), {}
    example = 'write [ignore] documents = ["nr"], and [rename.documents] nr = "id"'
    found = convert(read_toml(place), _LabelledToml, str(place), example)
    for table, roles in (("ignore", found.ignore), ("rename", found.rename)):
        for name in roles:
            if name not in FIELDS:
                raise UsageError(f"{place}: [{table}] has no {name!r}{suggest(name, list(FIELDS))}")
    for name, columns in found.rename.items():
        for column, to in columns.items():
            if to not in (known := FIELDS[name].names):
                close = suggest(to, list(known))
                raise UsageError(f"{place}: [rename.{name}] {column!r}: no field {to!r}{close}")
    return found.ignore.get(role, ()), found.rename.get(role, {})


# -- Forms -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Names:
    """Field names of a file: known, ignored (`passed`) or unknown."""

    file: TextFile
    role: str
    fields: Fields
    passed: Sequence[str]
    unread: set[str]

    def plan(self, number: int, names: Sequence[str]) -> list[tuple[str, str]] | None:
        """Returns (field or name, name in the file) of what to keep of a record; None: keep all.

        Unknown fields are kept. Raises UsageError.
        """
        remedy = f" (to ignore a field, add it to {SETTINGS} under [ignore] {self.role})"
        try:
            found = self.fields.read(names, self.passed, remedy)
        except MissingFieldError as error:
            lines = [f'"{column}" = "{to}"' for to, column in error.columns.items()]
            raise self.file.error(
                number,
                f"{error}; to use other columns, write [rename.{self.role}] and "
                f"{' and '.join(lines)} into {SETTINGS} in the folder"
                f"{', each on its own line' if len(lines) > 1 else ''}",
            ) from None
        except FieldError as error:
            raise self.file.error(number, str(error)) from None
        self.unread.update(self.fields.unread(names, self.passed))
        used = {*found.values(), *self.passed}
        rest = [(name, name) for name in names if name not in used | self.fields.names.keys()]
        plan = [*found.items(), *rest]
        return None if len(plan) == len(names) and all(to == of for to, of in plan) else plan


def _named(names: _Names, given: Iterable[tuple[int, Any]]) -> Records:
    """Yields the records under known field names, with unknown and ignored fields."""
    shapes: dict[tuple[str, ...], list[tuple[str, str]] | None] = {}
    for number, record in given:
        if not isinstance(record, dict):
            raise names.file.error(number, "not an object with fields; one record is needed")
        shape = tuple(record)
        if shape not in shapes:
            shapes[shape] = names.plan(number, shape)
        plan = shapes[shape]
        named = record if plan is None else {to: record[of] for to, of in plan}
        if "date" in named and "date" in names.fields.names and "timestamp" not in named:
            if _is_time(named["date"]):
                named["timestamp"] = named.pop("date")
            else:
                names.unread.add("date (where it is not ISO 8601)")
        yield number, named


def _is_time(value: object) -> bool:
    """Returns whether a text may be a time; if not, its name does not matter."""
    try:
        return (
            not isinstance(value, str)
            or (value.isdecimal() and len(value) > 8)
            or bool(datetime.fromisoformat(value.strip()))
        )
    except ValueError:
        return False


def _from_json(file: TextFile, role: str) -> Iterator[tuple[int, Any]]:
    """Yields records of a JSON list, of JSON lines, or of an object keyed by id."""
    value, unit = load_json(file.path)
    if isinstance(value, dict):
        value = list(_of_object(file, role, value))
    if not isinstance(value, list):
        raise UsageError(f"{file}: contains neither a list of records nor an object of ids")
    for number, record in enumerate(value, 1):
        if record is not None or unit == "record":
            yield number, record


def _of_object(
    file: TextFile, role: str, value: Mapping[str, object]
) -> Iterator[dict[str, object]]:
    """Reads {id: text}, {id: {field: value}}, {query: {document: grade}} or {query: [id]}."""
    for id_, held in value.items():
        if role == "qrels" and isinstance(held, dict):
            for document, grade in held.items():
                yield {"query": id_, "document": document, "grade": grade}
        elif role == "qrels" and isinstance(held, list):
            for document in held:
                yield {"query": id_, "document": document}
        elif role != "qrels" and isinstance(held, str):
            yield {"id": id_, "text": held}
        elif role != "qrels" and isinstance(held, dict) and FIELDS[role].heads(["id", *held]):
            yield {"id": id_, **held}
        else:
            raise UsageError(
                f"{file}: {id_!r} contains {held!r:.40}; a list of records is needed, or "
                + ("{query: {document: grade}}" if role == "qrels" else "{id: text}")
            )


def _without_nulls(record: dict[str, Any]) -> dict[str, Any]:
    """Removes the nulls that Arrow adds to objects of a column that lack a field."""
    for name, value in record.items():
        if isinstance(value, dict):
            record[name] = {key: held for key, held in value.items() if held is not None}
    return record


def _from_delimited(names: _Names, form: str) -> Records:
    """Yields records of a table with a header; ignores empty cells, except an empty grade."""
    file = names.file
    first = next((lines[0] for _, lines in file.blocks()), b"")
    cells, delimiter = header(first)
    if not first.strip():
        needed = ", ".join(names.fields.needed)
        raise UsageError(f"{file}: empty; a header line with {needed} is needed")
    plan = names.plan(1, cells)
    places = [(to, cells.index(of)) for to, of in plan or zip(cells, cells, strict=True)]
    for number, row in csv_rows(file, delimiter, one_line=form != ".csv"):
        if number > 1:
            if delimiter == "\t" and len(row) == len(cells) + 1 and not row[-1]:
                row.pop()  # trailing tab
            if len(row) != len(cells):
                raise file.error(
                    number, f"{len(row)} cells, but the header has {len(cells)}; quote the commas"
                )
            yield number, {to: row[at] for to, at in places if row[at] or to == "grade"}


def _headerless(file: TextFile, role: str) -> Records:
    """Yields records of files without a header, and of TREC formats."""
    names: tuple[str, ...]
    rows: Iterable[tuple[Any, ...]]
    if role == "qrels":
        names, rows = ("query", "document", "grade"), trec.qrels(file)
    elif role == "queries":
        names, rows = ("id", "text"), trec.topics(file)
    elif form_of(file.path) == ".tsv":
        names = ("id", "text")
        rows = ((line, *cells) for line, cells in tsv(file, ("document id", "text")))
    else:
        names, rows = ("id", "title", "text"), trec.documents(file)
    for line, *cells in rows:
        yield line, dict(zip(names, cells, strict=True))
