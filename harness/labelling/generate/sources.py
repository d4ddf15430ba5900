"""Reads the documents that queries are generated from: a folder of .txt and .md files, or records.

A document is a file, or a record: nothing is split into passages here, since the user chooses what
a retriever returns; split before, and give the passages as documents.jsonl.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path

from harness.dataset.adapters import labelled_fields, labelled_files
from harness.dataset.adapters.formats.jsonl import optional_string, string
from harness.dataset.adapters.formats.text import TextFile
from harness.errors import UsageError
from harness.labelling.records import LabelDocument
from harness.records.base import convert
from harness.scoring.matching.words import WORD, plain

_SUFFIXES = (".md", ".markdown", ".txt")
_HEADING = re.compile(r"^ {0,3}# +(.+?)(?: +#+)? *$")
_FENCE = re.compile(r"^ {0,3}(```|~~~)")
_PAIR = re.compile(r"^([A-Za-z][\w-]*) *: +(.+?) *$")
_NO_FIELDS = ("haystack", "position", "metadata")  # of a document, which no template may name


@dataclass(frozen=True)
class SourceDocument:
    """A document, with what generation and the leakage checks need of it."""

    record: LabelDocument

    @property
    def id(self) -> str:
        """Its id."""
        return self.record.id

    @property
    def title(self) -> str:
        """Its title; empty where it has none."""
        return self.record.title or ""

    @property
    def text(self) -> str:
        """Its text."""
        return self.record.text

    @cached_property
    def haystacks(self) -> tuple[str, ...]:
        """Its haystacks; none: it is in the whole set."""
        return tuple(self.record.haystacks)

    @property
    def content(self) -> str:
        """Title and text as retrievers index them."""
        return f"{self.title} {self.text}".strip() if self.title else self.text

    @property
    def key(self) -> str:
        """What identifies it among all: ids are unique in a haystack alone."""
        return f"{self.haystacks[0]}/{self.id}" if self.haystacks else self.id

    @cached_property
    def normalised(self) -> str:
        """Its words as they are compared: equal for texts that differ in case, marks and spaces."""
        return normalised(self.content)

    @property
    def fields(self) -> dict[str, str]:
        """The values that a template may name: title, speaker, session, timestamp, metadata."""
        record = self.record
        metadata = record.extra.get("metadata")
        every: dict[str, object] = {
            **(metadata if isinstance(metadata, dict) else {}),
            **record.extra,
            **{
                name: getattr(record, name) for name in ("title", "timestamp", "session", "speaker")
            },
        }
        return {
            name: " ".join(str(value).split())
            for name, value in every.items()
            if name not in _NO_FIELDS
            and isinstance(value, str | int | float)
            and str(value).strip()
        }


def normalised(text: str) -> str:
    """The words of a text with a space between, in compatibility form and lower case."""
    return " ".join(plain(word) for word in WORD.findall(text))


@dataclass(frozen=True)
class SourceDocuments:
    """Documents in order of their paths or lines; `empty`: ids of those without a word."""

    sources: list[SourceDocument]
    empty: list[str]


def read(path: Path) -> SourceDocuments:
    """Reads the documents of a folder or of one file of records.

    A folder with documents.jsonl, .csv or another file of documents is read as the dataset
    `labelled` reads it, any other for its .md and .txt files, in all its folders; hidden ones are
    skipped. Raises UsageError for a path without documents, for a file that is not UTF-8,
    and for duplicate ids in a haystack.
    """
    if path.is_dir():
        name = labelled_files.documents_name(path)
        found = _records(path / name) if name else _texts(path)
    elif path.is_file():
        if labelled_files.documents_name(path.parent, path.name) is None:
            raise UsageError(
                f"{path}: a file of documents is called documents, docs or corpus, and .jsonl, "
                ".json, .csv, .tsv or .parquet; rename it, or give a folder of .md and .txt files"
            )
        found = _records(path)
    else:
        raise UsageError(f"{path}: no such file or folder; give a folder of documents")
    if len(found.sources) == len(found.empty):
        raise UsageError(
            f"{path}: contains no document with text ({', '.join(_SUFFIXES)} files, or "
            f"documents.jsonl); those there are empty: {len(found.empty)}"
        )
    return found


def _records(path: Path) -> SourceDocuments:
    file, seen = labelled_files.opened(path), dict[tuple[str, str], int]()
    sources = list[SourceDocument]()
    for line, record in labelled_files.records("documents", path):
        labelled_fields.haystacks(file, line, record)
        labelled_fields.timestamp(file, line, record.get("timestamp"))
        values = {
            "id": string(file, line, record, "id"),
            "text": string(file, line, record, "text"),
            "timestamp": record.get("timestamp"),
            "haystack": record.get("haystack"),
            "extra": {name: value for name, value in record.items() if name not in _KNOWN_NAMES},
        }
        for name in ("title", "session", "speaker"):
            values[name] = optional_string(file, line, record, name)
        source = SourceDocument(convert(values, LabelDocument, f"{file}, {file.at(line)}"))
        for name in source.haystacks or ("",):
            before = seen.setdefault((name, source.id), line)
            if before != line:
                raise file.error(
                    line,
                    f"the document id {source.id!r} stands on {file.at(before)} already; "
                    "rename one",
                )
        sources.append(source)
    return _read(sources)


_KNOWN_NAMES = {*LabelDocument.__struct_fields__, "_id"}


def _texts(folder: Path) -> SourceDocuments:
    return _read(
        [
            SourceDocument(
                _parse(
                    TextFile(path),
                    path.relative_to(folder).as_posix(),
                    markdown=path.suffix.lower() != ".txt",
                )
            )
            for path in _files(folder)
        ]
    )


def _read(sources: list[SourceDocument]) -> SourceDocuments:
    empty = [source.id for source in sources if not WORD.search(source.content)]
    return SourceDocuments(sources, empty)


def _files(folder: Path) -> Iterator[Path]:
    """Text files below a folder, by path; hidden files and folders are left out."""
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.suffix.lower() in _SUFFIXES and not any(part.startswith(".") for part in parts):
            try:
                if path.is_file():
                    yield path
            except OSError as error:
                raise UsageError(f"{path}: cannot be read ({error.strerror})") from None


def _parse(file: TextFile, id_: str, *, markdown: bool) -> LabelDocument:
    """The document of a text file; front matter and the first heading are removed from the text."""
    try:
        lines = [
            file.decode(number, line)
            for first, block in file.blocks()
            for number, line in enumerate(block, first)
        ]
    except PermissionError as error:
        raise UsageError(f"{file}: cannot be read ({error.strerror})") from None
    pairs: dict[str, str] = {}
    if markdown:
        pairs, lines = _front_matter(lines)
        heading = None if "title" in pairs else _heading(lines)
        if heading is not None:
            pairs["title"] = _HEADING.sub(r"\1", lines.pop(heading)).strip()
    known: dict[str, str] = {}
    metadata = dict(pairs)
    for name, checked in _KNOWN.items():
        value = metadata.pop(name, None)
        if value is not None and checked(value):
            known["timestamp" if name == "date" else name] = value
        elif value is not None:
            metadata[name] = value
    return LabelDocument(
        id=id_,
        text="\n".join(lines).strip(),
        title=known.get("title"),
        timestamp=known.get("timestamp"),
        session=known.get("session"),
        speaker=known.get("speaker"),
        extra={"metadata": metadata} if metadata else {},
    )


def _is_time(value: str) -> bool:
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


_KNOWN: dict[str, Callable[[str], bool]] = {
    "title": bool,
    "speaker": bool,
    "session": bool,
    "timestamp": _is_time,
    "date": _is_time,
}


def _front_matter(lines: list[str]) -> tuple[dict[str, str], list[str]]:
    """`key: value` lines between --- and ---; lists and nested values are left out."""
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
    """The line of the first heading of the first level, outside of code."""
    fenced = False
    for at, line in enumerate(lines):
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and _HEADING.match(line):
            return at
    return None
