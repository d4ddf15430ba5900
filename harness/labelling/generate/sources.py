"""The documents that queries are made from: a folder of .txt and .md files, or records.

A document is a file, or a record: nothing is cut into passages here, since what a retriever
returns is the reader's choice; cut before, and give the pieces as documents.jsonl.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from harness.dataset.adapters import labelled_fields, labelled_files
from harness.dataset.adapters.formats.jsonl import optional_string, string
from harness.dataset.adapters.formats.text import TextFile
from harness.errors import UsageError
from harness.scoring.matching.words import WORD, plain

_SUFFIXES = (".md", ".markdown", ".txt")
_HEADING = re.compile(r"^ {0,3}# +(.+?)(?: +#+)? *$")
_FENCE = re.compile(r"^ {0,3}(```|~~~)")
_PAIR = re.compile(r"^([A-Za-z][\w-]*) *: +(.+?) *$")
_OWN = ("id", "_id", "text", "haystack", "position", "metadata")


@dataclass(frozen=True)
class Source:
    """A document. `record` is its line of documents.jsonl; `haystacks` none: in the whole set."""

    id: str
    title: str
    text: str
    haystacks: tuple[str, ...]
    record: Mapping[str, Any]

    @property
    def content(self) -> str:
        """Title and text as retrievers index them."""
        return f"{self.title} {self.text}".strip() if self.title else self.text

    @property
    def key(self) -> str:
        """What tells it from all others: ids are unique in a haystack alone."""
        return f"{self.haystacks[0]}/{self.id}" if self.haystacks else self.id

    @cached_property
    def normalised(self) -> str:
        """Its words as they are compared: equal for texts that differ in case, marks and spaces."""
        return normalised(self.content)

    @property
    def fields(self) -> dict[str, str]:
        """What a template may name: title, speaker, session, timestamp and metadata."""
        own = {k: v for k, v in self.record.items() if k not in _OWN}
        extra = self.record.get("metadata")
        every = {**(extra if isinstance(extra, Mapping) else {}), **own}
        return {
            name: " ".join(str(value).split())
            for name, value in every.items()
            if isinstance(value, str | int | float) and str(value).strip()
        }


def normalised(text: str) -> str:
    """The words of a text with a space between, in compatibility form and lower case."""
    return " ".join(plain(word) for word in WORD.findall(text))


@dataclass(frozen=True)
class Read:
    """Documents in order of their paths or lines; `empty`: ids of those without a word."""

    sources: list[Source]
    empty: list[str]


def read(place: Path) -> Read:
    """The documents of a folder or of one file of records.

    A folder that holds documents.jsonl, .csv or another file of documents is read as the dataset
    `labelled` reads it, any other for its .md and .txt files, in all its folders; hidden ones are
    left out. Raises UsageError for a place that holds no document, for a file that is not UTF-8,
    and for ids that stand twice in a haystack.
    """
    if place.is_dir():
        name = labelled_files.documents_name(place)
        found = _records(place / name) if name else _texts(place)
    elif place.is_file():
        if labelled_files.documents_name(place.parent, place.name) is None:
            raise UsageError(
                f"{place}: a file of documents is called documents, docs or corpus, and .jsonl, "
                ".json, .csv, .tsv or .parquet; rename it, or give a folder of .md and .txt files"
            )
        found = _records(place)
    else:
        raise UsageError(f"{place}: no such file or folder; give a folder of documents")
    if len(found.sources) == len(found.empty):
        raise UsageError(
            f"{place}: holds no document with text ({', '.join(_SUFFIXES)} files, or "
            f"documents.jsonl); those there are empty: {len(found.empty)}"
        )
    return found


def _records(path: Path) -> Read:
    file, seen = labelled_files.opened(path), dict[tuple[str, str], int]()
    sources = list[Source]()
    for line, record in labelled_files.records("documents", path):
        id_ = string(file, line, record, "id")
        text = string(file, line, record, "text")
        haystacks = tuple(labelled_fields.haystacks(file, line, record) or ())
        labelled_fields.timestamp(file, line, record.get("timestamp"))
        for name in haystacks or ("",):
            before = seen.setdefault((name, id_), line)
            if before != line:
                raise file.error(
                    line, f"the document id {id_!r} stands on {file.at(before)} already; rename one"
                )
        title = optional_string(file, line, record, "title") or ""
        kept = {"id": id_, **{k: v for k, v in record.items() if k not in ("id", "_id")}}
        source = Source(id_, title, text, haystacks, kept)
        sources.append(source)
    return _read(sources)


def _texts(folder: Path) -> Read:
    sources = []
    for path in _files(folder):
        id_ = path.relative_to(folder).as_posix()
        record = _parse(TextFile(path), id_, markdown=path.suffix.lower() != ".txt")
        sources.append(Source(id_, record.get("title", ""), record["text"], (), record))
    return _read(sources)


def _read(sources: list[Source]) -> Read:
    return Read(sources, [source.id for source in sources if not WORD.search(source.content)])


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


def _parse(file: TextFile, id_: str, *, markdown: bool) -> dict[str, Any]:
    """The record of a text file: front matter and the first heading are taken out of the text."""
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
    record: dict[str, Any] = {"id": id_, "text": "\n".join(lines).strip()}
    metadata = dict(pairs)
    for name, checked in _KNOWN.items():
        value = metadata.pop(name, None)
        if value is not None and checked(value):
            record["timestamp" if name == "date" else name] = value
        elif value is not None:
            metadata[name] = value
    return {**record, "metadata": metadata} if metadata else record


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
