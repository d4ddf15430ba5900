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
everybody judges), `systems` ([{"system", "name", "params", "version"}]; `system` is the name in
`ranks`), `sources` ([{"role": "documents" or "queries", "file", "sha256", "added"}]), and whatever
else made the project wrote (`generated`).

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

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from harness.errors import UsageError
from harness.files import read_json, write_bytes, write_json
from harness.labelling.journal import Journal
from harness.labelling.records import Candidate

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
        documents, queries = (read_lines(folder / f"{n}.jsonl") for n in ("documents", "queries"))
        path = folder / "pool.jsonl"
        try:
            pool = [
                Candidate(r["query"], r["document"], r.get("ranks") or {}, r.get("proposed"))
                for r in read_lines(path)
            ]
        except KeyError as error:
            raise UsageError(f"{path}: a candidate has no field {error}") from None
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
    def systems(self) -> list[str]:
        """Names of the pooled systems, as in `ranks`."""
        return [system["system"] for system in self.settings.get("systems", [])]

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


def haystacks(document: Mapping[str, Any]) -> list[str]:
    """Names of the haystacks that a document stands in; none where it names none."""
    value = document.get("haystack")
    if value is None or value == "":
        return []
    return [value] if isinstance(value, str) else list(value)


def annotator_name(name: str) -> str:
    """The name, if an annotator can have it. Raises UsageError."""
    if not _NAME.fullmatch(name) or name == CONSTRUCTION:
        raise UsageError(
            f"--annotator {name!r}: a name is letters, digits, dots, hyphens and underscores, and "
            f"not {CONSTRUCTION!r}"
        )
    return name


def read_lines(path: Path) -> list[Record]:
    """The records of a JSON Lines file. Raises UsageError, naming the line, for a broken one."""
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
    return found


def as_lines(records: Iterable[Record]) -> bytes:
    """Records as JSON Lines."""
    return b"".join(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE) for record in records)
