"""Reads documents and queries to label or to generate from.

A document is a .txt or .md file, or a record. Documents are not split into passages, since the
user chooses what a retriever returns; to label passages, provide them as documents.jsonl.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, get_args

from harness.datasets.adapters import labelled_fields as fields
from harness.datasets.adapters import labelled_files as files
from harness.datasets.adapters.formats import jsonl
from harness.datasets.adapters.formats.delimited import csv_records, tsv
from harness.datasets.adapters.formats.jsonl import optional_string, string
from harness.datasets.adapters.formats.text import TextFile
from harness.errors import UsageError
from harness.extensions.labelling.project import LabelDocument, LabelQuery, Split
from harness.io.files import digest
from harness.io.records import convert
from harness.scoring.matching.words import WORD

_SUFFIXES = (".md", ".markdown", ".txt")
_ENDINGS = ".jsonl, .csv, .tsv or .txt"
_HEADING = re.compile(r"^ {0,3}# +(.+?)(?: +#+)? *$")
_FENCE = re.compile(r"^ {0,3}(```|~~~)")
_PAIR = re.compile(r"^([A-Za-z][\w-]*) *: +(.+?) *$")
_DOCUMENT_NAMES = {*LabelDocument.__struct_fields__, "_id"}
_QUERY_NAMES = {*LabelQuery.__struct_fields__, "_id"} - {"generated"}


def read_documents(path: Path) -> tuple[list[LabelDocument], list[str]]:
    """Reads the documents of a folder or of one file of records, in order of paths or lines.

    Returns them, and the ids of those without a word. A folder with documents.jsonl, .csv or
    another file of documents is read like the dataset `labelled`; any other recursively for its .md
    and .txt files, except hidden ones. Raises UsageError for a path without
    documents, for a file that is not UTF-8, and for duplicate ids in a haystack.
    """
    if path.is_dir():
        name = files.documents_name(path)
        found = _records(path / name) if name else [*map(_text_document, _text_files(path))]
    elif path.is_file():
        if files.documents_name(path.parent, path.name) is None:
            raise UsageError(
                f"{path}: a file of documents is called documents, docs or corpus, and .jsonl, "
                ".json, .csv, .tsv or .parquet; rename it, or give a folder of .md and .txt files"
            )
        found = _records(path)
    else:
        raise UsageError(f"{path}: no such file or folder; give a folder of documents")
    empty = [one.id for one in found if not WORD.search(one.content)]
    if len(found) == len(empty):
        raise UsageError(
            f"{path}: contains no document with text ({', '.join(_SUFFIXES)} files, or "
            f"documents.jsonl); those there are empty: {len(empty)}"
        )
    return found, empty


def _records(path: Path) -> list[LabelDocument]:
    file = files.opened(path)
    seen: dict[tuple[str, str], int] = {}
    found = []
    for line, record in files.records("documents", path):
        fields.haystacks(file, line, record)
        fields.timestamp(file, line, record.get("timestamp"))
        values = {
            "id": string(file, line, record, "id"),
            "text": string(file, line, record, "text"),
            "timestamp": record.get("timestamp"),
            "haystack": record.get("haystack"),
            "extra": {name: value for name, value in record.items() if name not in _DOCUMENT_NAMES},
        }
        for name in ("title", "session", "speaker"):
            values[name] = optional_string(file, line, record, name)
        document = convert(values, LabelDocument, f"{file}, {file.at(line)}")
        for haystack in document.haystacks or ("",):
            before = seen.setdefault((haystack, document.id), line)
            if before != line:
                raise file.error(
                    line,
                    f"the document id {document.id!r} is on {file.at(before)} already; rename one",
                )
        found.append(document)
    return found


def _text_files(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yields the text files below a folder with their ids, sorted by path, except hidden ones."""
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.suffix.lower() in _SUFFIXES and not any(p.startswith(".") for p in name.parts):
            try:
                if path.is_file():
                    yield path, name.as_posix()
            except OSError as error:
                raise UsageError(f"{path}: cannot be read ({error.strerror})") from None


def _text_document(found: tuple[Path, str]) -> LabelDocument:
    """Converts a file to a document; front matter and first heading are not part of the text."""
    path, id_ = found
    file = TextFile(path)
    try:
        lines = [
            file.decode(number, line)
            for first, block in file.blocks()
            for number, line in enumerate(block, first)
        ]
    except PermissionError as error:
        raise UsageError(f"{file}: cannot be read ({error.strerror})") from None
    metadata: dict[str, str] = {}
    if path.suffix.lower() != ".txt":
        metadata, lines = _front_matter(lines)
        heading = None if "title" in metadata else _heading(lines)
        if heading is not None:
            metadata["title"] = _HEADING.sub(r"\1", lines.pop(heading)).strip()
    known = {name: metadata.pop(name, None) for name in ("title", "speaker", "session")}
    for name in ("date", "timestamp"):
        with suppress(KeyError, ValueError):
            datetime.fromisoformat(metadata[name])
            known["timestamp"] = metadata.pop(name)
    extra = {"metadata": metadata} if metadata else {}
    values = {"id": id_, "text": "\n".join(lines).strip(), **known, "extra": extra}
    return convert(values, LabelDocument, str(path))


def _front_matter(lines: list[str]) -> tuple[dict[str, str], list[str]]:
    """Returns the `key: value` lines between --- and ---, without nested values, and the rest."""
    if not lines or lines[0].rstrip() != "---":
        return {}, lines
    for end, line in enumerate(lines[1:], 1):
        if line.rstrip() in ("---", "..."):
            found = (_PAIR.match(one) for one in lines[1:end])
            pairs = {
                pair[1].lower(): pair[2].strip("\"'")
                for pair in found
                if pair and pair[2][0] not in "[{|>&*!"
            }
            return pairs, lines[end + 1 :]
    return {}, lines


def _heading(lines: list[str]) -> int | None:
    """Returns the line index of the first level-1 heading outside of code."""
    fenced = False
    for at, line in enumerate(lines):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and _HEADING.match(line):
            return at
    return None


def input_digest(path: Path) -> str:
    """Returns the sha256 of a file, or for a folder that of its file names and hashes."""
    if path.is_file():
        return digest(path)
    paths = sorted(file for file in path.rglob("*") if file.is_file())
    lines = [f"{digest(file)}  {file.relative_to(path).as_posix()}\n" for file in paths]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def read_queries(path: Path) -> list[LabelQuery]:
    """Reads the queries of a file, in order; the id is empty if the file has none.

    .jsonl and .csv have the fields that `labelled` reads, `text` at least, and may have `split`;
    .tsv has id and text; .txt has one query per line. Raises UsageError, with the line number, for
    an invalid field, a duplicate id, and a file without a query.
    """
    if not path.is_file():
        raise UsageError(f"{path}: no such file; a file of queries ({_ENDINGS}) is needed")
    file = TextFile(path)
    lines: dict[str, int] = {}
    found = []
    for line, record in _query_records(file):
        query = _query(file, line, record)
        before = lines.setdefault(query.id, line) if query.id else line
        if before != line:
            raise file.error(
                line, f"the query id {query.id!r} is on line {before} already; rename it"
            )
        found.append(query)
    if not found:
        raise UsageError(f"{path}: contains no queries")
    return found


def _query_records(file: TextFile) -> Iterator[tuple[int, dict[str, Any]]]:
    ending = Path(file.path.name.removesuffix(".gz")).suffix.lower()
    if ending == ".jsonl":
        yield from jsonl.records(file)
    elif ending == ".csv":
        yield from csv_records(file, ("text",))
    elif ending == ".tsv":
        for line, (id_, text) in tsv(file, ("query id", "text")):
            yield line, {"id": id_, "text": text}
    elif ending == ".txt":
        yield from ((line, {"text": text}) for line, text in file.lines() if text.strip())
    else:
        raise UsageError(f"{file}: the queries must be a file that ends in {_ENDINGS}")


def _query(file: TextFile, line: int, record: dict[str, Any]) -> LabelQuery:
    """Returns the query of a record; unknown fields are stored in `extra`."""
    text = string(file, line, record, "text").strip()
    if not text:
        raise file.error(line, "the query has no text; write it, or delete the line")
    optional_string(file, line, record, "category")
    split = optional_string(file, line, record, "split")
    splits = get_args(Split)
    if split is not None and split not in splits:
        raise file.error(line, f"the split {split!r} is none of {', '.join(splits)}; choose one")
    fields.timestamp(file, line, record.get("timestamp"))
    given = {"id": record.get("id", record.get("_id"))}
    values = {
        "id": optional_string(file, line, given, "id") or "",
        "text": text,
        "haystack": optional_string(file, line, record, "haystack"),
        "ability": fields.ability(file, line, record) if record.get("ability") else None,
        "timestamp": record.get("timestamp"),
        "answers": fields.texts(file, line, record, "answers"),
        "split": split,
        "extra": {name: value for name, value in record.items() if name not in _QUERY_NAMES},
    }
    return convert(values, LabelQuery, f"{file}, {file.at(line)}")
