"""A labelling project on disk: all of it is in one folder, and every file can be read by eye.

| file | what |
|---|---|
| label.json | settings, see below |
| documents.jsonl, queries.jsonl | own copies, with the fields that the dataset `labelled` reads |
| pool.jsonl | {"query", "document", "ranks": {system: place from 1}, "proposed": {"by": ...}} |
| judgements/NAME.jsonl | what the annotator NAME judged |
| judgements/construction.jsonl | what is so because a query was made so (no person judged it) |
| resolved.jsonl | how conflicts were settled, each line with "by" |

label.json: `version` (1), `k` (depth of the pool), `seed`, `overlap` (share of the queries that
everybody judges), `relevant_from` (the grade from which on a document counts as evidence: 1 where
it is not there), `systems` ([{"system", "name", "params", "version"}]; `system` is the name in
`ranks`), `answers` (only where answers are judged, which are then the documents: [{"folder",
"system", "sha256"}]), `sources` ([{"role": "documents" or "queries", "file", "sha256", "added"}]),
and whatever else made the project wrote (`generated`).

Ids of documents are unique in a haystack only; a query names its haystack or is answered from all
documents. A query may carry `ability`, `split`, `answers` and any field of its own.

A journal (judgements/*.jsonl, resolved.jsonl) is appended to, one line a judgement, in one of four
forms, each with "time"; the last line about a thing counts, null takes it back:

    {"query": id, "document": id, "grade": 0 to 3 or null}
    {"query": id, "ability": "lookup", "multi-hop", "temporal", "knowledge-update" or null}
    {"query": id, "unanswerable": true, false or null}
    {"query": id, "document": id (optional), "note": text}

A candidate that construction judged is not asked of annotators; where they judge it all the same
theirs counts.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from harness.errors import UsageError
from harness.files import fsync_path, read_json, write_bytes, write_json
from harness.labelling import shapes
from harness.labelling.records import (
    ANSWERS,
    DOCUMENTS,
    RELEVANT,
    Candidate,
    Judgements,
    Line,
    Scale,
    check,
)

VERSION = 1

CONSTRUCTION = "construction"
"""The name under which judgements by construction are kept; no annotator can have it."""

_NAME = re.compile(r"\w[\w.\-]{0,63}")
Record = dict[str, Any]


@dataclass
class Project:
    """What a project holds, without its judgements. `write` puts all of it on the disk."""

    folder: Path
    settings: Record
    documents: list[Record]
    queries: list[Record]
    pool: list[Candidate]

    @classmethod
    def read(cls, folder: Path) -> Project:
        """Raises UsageError for a folder that is no project, or has a broken file."""
        if not (folder / "label.json").is_file():
            raise UsageError(
                f"{folder}: no labelling project (it has no label.json); `harness label start` "
                "makes one"
            )
        settings = read_json(folder / "label.json")
        if not isinstance(settings, dict) or settings.get("version") != VERSION:
            raise UsageError(f"{folder / 'label.json'}: not of this version of the harness")
        shapes.check_settings(folder / "label.json", settings)
        documents, queries, candidates = (
            _records(folder / f"{name}.jsonl", shape)
            for name, shape in (
                ("documents", shapes.TEXT),
                ("queries", shapes.TEXT),
                ("pool", shapes.CANDIDATE),
            )
        )
        pool = [
            Candidate(r["query"], r["document"], r.get("ranks") or {}, r.get("proposed"))
            for r in candidates
        ]
        shapes.check_pool(folder, queries, documents, pool)
        return cls(folder, settings, documents, queries, pool)

    def write(self) -> None:
        """Write the four files, each whole or not at all; judgements are not touched.

        In an order in which a crash between two leaves a project that can be read: nothing names
        what is not there yet.
        """
        for name, records in (
            ("documents", self.documents),
            ("queries", self.queries),
            ("pool", [candidate.line() for candidate in self.pool]),
        ):
            write_bytes(self.folder / f"{name}.jsonl", as_lines(records))
        write_json(self.folder / "label.json", {"version": VERSION, **self.settings})

    @property
    def k(self) -> int:
        """Depth of the pool."""
        return int(self.settings.get("k", 0))

    @property
    def seed(self) -> int:
        """Seed of every order."""
        return int(self.settings.get("seed", 0))

    @property
    def relevant_from(self) -> int:
        """The grade from which on a document counts as evidence."""
        return int(self.settings.get("relevant_from", RELEVANT))

    @property
    def scale(self) -> Scale:
        """What is judged: documents, or the answers of which label.json speaks."""
        return ANSWERS if "answers" in self.settings else DOCUMENTS

    @property
    def systems(self) -> list[str]:
        """Names of the pooled systems, as in `ranks`."""
        return [system["system"] for system in self.settings.get("systems", [])]

    @property
    def answered_by(self) -> list[str]:
        """Names of the folders whose answers are judged, as in `ranks`."""
        return [one["folder"] for one in self.settings.get("answers", [])]

    @cached_property
    def query(self) -> dict[str, Record]:
        """Queries by id."""
        return {query["id"]: query for query in self.queries}

    @cached_property
    def candidates(self) -> dict[str, list[Candidate]]:
        """The pool by query; every query has an entry."""
        found: dict[str, list[Candidate]] = {query: [] for query in self.query}
        for candidate in self.pool:
            found[candidate.query].append(candidate)
        return found

    def document(self, query: str, document: str) -> Record:
        """A document as the query sees it: the one of its haystack. Raises KeyError."""
        haystack = self.query[query].get("haystack")
        of_id = self._by_id[document]
        if haystack is None or len(of_id) == 1:
            return of_id[0]
        return next(one for one in of_id if haystack in haystacks(one))

    def session(self, document: Record) -> list[Record]:
        """All documents of a document's session, in the order in which they were said."""
        key = _session(document)
        return [document] if key is None else self._sessions[key]

    @cached_property
    def _sessions(self) -> dict[Any, list[Record]]:
        found: dict[Any, list[Record]] = {}
        for document in self.documents:
            if (key := _session(document)) is not None:
                found.setdefault(key, []).append(document)
        for key, mates in found.items():
            if all(type(one.get("timestamp")) is int for one in mates):
                found[key] = sorted(mates, key=lambda one: one["timestamp"])  # those alike as given
        return found

    @cached_property
    def _by_id(self) -> dict[str, list[Record]]:
        found: dict[str, list[Record]] = {}
        for document in self.documents:
            found.setdefault(document["id"], []).append(document)
        return found

    def journal(self, annotator: str) -> Journal:
        """The judgements of an annotator, or of CONSTRUCTION."""
        return Journal(self.folder / "judgements" / f"{annotator}.jsonl")

    def resolved(self) -> Journal:
        """How conflicts were settled."""
        return Journal(self.folder / "resolved.jsonl")

    def annotators(self) -> list[str]:
        """Names of those who judged something, sorted; construction is none."""
        found = (path.stem for path in (self.folder / "judgements").glob("*.jsonl"))
        return sorted(name for name in found if name != CONSTRUCTION and _NAME.fullmatch(name))


class Journal:
    """The judgements in one file, a JSON line each. The file need not be there yet.

    It is only ever appended to, and a line is on the disk before it counts. Several processes may
    write it (a page and a terminal, two pages): a lock is held for each line. A line that a crash
    cut off is the last one and was never acknowledged; it is dropped, and said. A broken line
    elsewhere is no crash's work, and is refused.

    `held` is what the lines come to; after `append` and `refresh` it is that of all processes.
    """

    held: Judgements
    lines: list[Line]
    _read: int  # bytes that were taken in
    _number: int  # lines that were taken in
    _open_end: bool  # the last of them wants its line end
    _torn: bool  # what stands behind them was cut off

    def __init__(self, path: Path) -> None:
        """Reads the file. Raises UsageError, naming the line, for one that is no judgement."""
        self.path = path
        self._start_over()
        self.refresh()
        if self._torn:
            print(f"note: {path}: its last line was cut off and is dropped", file=sys.stderr)

    def append(self, *lines: Line) -> None:
        """Add lines, with the time, and force them to the disk. Raises ValueError and OSError."""
        for line in lines:
            check(line)
        from filelock import FileLock

        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = not self.path.exists()
        with FileLock(self.path.with_name(f".{self.path.name}.lock")):
            self.refresh()
            time = datetime.now(UTC).isoformat(timespec="milliseconds")
            data = b"".join(
                orjson.dumps({**line, "time": time}, option=orjson.OPT_APPEND_NEWLINE)
                for line in lines
            )
            with open(self.path, "r+b" if self.path.exists() else "xb") as file:
                file.truncate(self._read)  # what was cut off ends here
                file.seek(self._read)
                file.write(b"\n" + data if self._open_end else data)
                file.flush()
                os.fsync(file.fileno())
            if new:
                fsync_path(self.path.parent)
            self.refresh()

    def refresh(self) -> None:
        """Take in what was added since, by this process or another."""
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            size = 0
        if size < self._read:  # somebody mended it by hand
            self._start_over()
        if size == self._read:
            return
        with open(self.path, "rb") as file:
            file.seek(self._read)
            data = file.read()
        *whole, rest = data.split(b"\n")
        for line in whole:
            if line or not self._open_end:  # else it is the end of a line that was taken in
                self._take(line)
            self._read += len(line) + 1
            self._open_end = False
        self._torn = bool(rest) and not self._take_rest(rest)

    def _take(self, data: bytes) -> None:
        self._number += 1
        if not data.strip():
            return
        try:
            line = orjson.loads(data)
            self.held.add(line)
        except ValueError as error:
            raise UsageError(
                f"{self.path}, line {self._number}: is no judgement ({error}); mend the line or "
                "take it out"
            ) from None
        self.lines.append(line)

    def _take_rest(self, data: bytes) -> bool:
        """Take in what stands behind the last line end, if it is whole and wants its end only."""
        try:
            check(orjson.loads(data))
        except ValueError:
            return False
        self._take(data)
        self._read += len(data)
        self._open_end = True
        return True

    def _start_over(self) -> None:
        self.held, self.lines = Judgements(), []
        self._read, self._number = 0, 0
        self._open_end, self._torn = False, False


def haystacks(document: Mapping[str, Any]) -> list[str]:
    """Names of the haystacks that a document stands in; none where it names none."""
    value = document.get("haystack")
    if value is None or value == "":
        return []
    return [value] if isinstance(value, str) else list(value)


def _session(document: Mapping[str, Any]) -> Any:
    """What documents of one session have in common; None where a document names none."""
    name = document.get("session")
    return None if name in (None, "") else (tuple(haystacks(document)), name)


def annotator_name(name: str) -> str:
    """The name, if an annotator can have it. Raises UsageError."""
    if not _NAME.fullmatch(name) or name == CONSTRUCTION:
        raise UsageError(
            f"--annotator {name!r}: a name is letters, digits, dots, hyphens and underscores, and "
            f"not {CONSTRUCTION!r}"
        )
    return name


def _records(path: Path, shape: shapes.Shape) -> list[Record]:
    """The records of a JSON Lines file. Raises UsageError, naming the line, for a broken one, and
    for one of another shape."""
    found = []
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file; the project is not whole") from None
    for number, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            try:
                record = orjson.loads(line)
            except orjson.JSONDecodeError as error:
                raise UsageError(f"{path}, line {number}: not valid JSON ({error})") from None
            if not isinstance(record, dict):
                raise UsageError(f"{path}, line {number}: a JSON object was expected")
            found.append(record)
    shapes.check_records(path, shape, found)
    return found


def as_lines(records: Iterable[Record]) -> bytes:
    """Records as JSON Lines."""
    return b"".join(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE) for record in records)
