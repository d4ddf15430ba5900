"""Queries that were made, and the labelling project that they are written to or added to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.files import write_bytes
from harness.labelling.folder import CONSTRUCTION, Project, as_lines, haystacks
from harness.labelling.generate.labelled import project_sources, row_of
from harness.labelling.generate.sources import Source, normalised
from harness.labelling.records import Candidate

GENERATED = "generated"
"""The field of label.json, and of a query, that says how it was made."""

MARK = ".generated"
"""A file that says whose folder it is, also where a call was stopped before label.json."""

GRADE = 3
"""The grade of the document that a query was made from: it holds the answer."""

REASONS = ("same text", "topic", "field", "similarity")
"""Why a document is proposed, in this order.

It has the words of the query's document; it holds the query's topic; it has the same value in the
template's field; it is near by its vector.
"""

Settings = dict[str, Any]


@dataclass(frozen=True)
class Made:
    """A query. `golds` are rows of the documents it was made from; `haystack` None: all documents.

    `proposed`: rows that may be relevant too, and why ({"by": "topic"}). `origin` is its
    provenance ({"by": "template", "template": ..., "topic": ...}).
    """

    text: str
    haystack: str | None
    golds: tuple[int, ...]
    origin: Mapping[str, Any]
    proposed: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    ability: str | None = None
    answers: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """From its text and haystack alone: it says nothing of the document."""
        data = f"{self.haystack or ''}\0{self.text}".encode("utf-8", "surrogatepass")
        return f"q-{hashlib.sha256(data).hexdigest()[:12]}"

    def with_proposed(self, more: Mapping[int, Mapping[str, Any]]) -> Made:
        """The same with further documents proposed.

        Of several reasons the first in REASONS is named; a similarity is kept in any case.
        """
        known = {row: dict(why) for row, why in self.proposed.items()}
        for row, why in more.items():
            if row not in self.golds:
                both = {**why, **known.get(row, {})}
                by = min((known.get(row, why)["by"], why["by"]), key=REASONS.index)
                known[row] = {**both, "by": by}
        return replace(self, proposed=known)


def merged(queries: list[Made]) -> list[Made]:
    """Equal queries as one that was made from all their documents; in order of their ids."""
    found: dict[str, Made] = {}
    for one in queries:
        before = found.get(one.id)
        if before is None:
            found[one.id] = one
            continue
        golds = tuple(sorted({*before.golds, *one.golds}))
        both = replace(before, golds=golds, answers=(*before.answers, *one.answers))
        proposed = {**before.proposed, **one.proposed}
        found[one.id] = replace(
            both, proposed={r: w for r, w in proposed.items() if r not in golds}
        )
    return [found[id_] for id_ in sorted(found)]


def earlier(folder: Path, settings: Settings) -> Project | None:
    """The project that is added to; None for a new one.

    `settings` fix splits and proposals, so they must be those of before. Raises UsageError for
    others.
    """
    if not (folder / "label.json").is_file():
        return None
    project = Project.read(folder)
    before = project.settings[GENERATED]
    for name, value in settings.items():
        if before.get(name) != value:
            raise UsageError(
                f"--out {folder}: was made with {name} {_said(before.get(name))}, not "
                f"{_said(value)}, and its splits rest on that; leave it as it was, or name a new "
                "folder"
            )
    return project


def check_folder(folder: Path) -> None:
    """Raises UsageError for a folder that holds something else than a generated set."""
    if folder.is_file():
        raise UsageError(f"--out {folder}: is a file; name a folder")
    if (folder / "label.json").is_file():
        if not isinstance(Project.read(folder).settings.get(GENERATED), Mapping):
            raise UsageError(
                f"--out {folder}: is a labelling project that was not generated; name a new folder"
            )
    elif folder.is_dir() and not (folder / MARK).exists() and any(folder.iterdir()):
        raise UsageError(f"--out {folder}: is not empty and no generated set; name a new folder")


def with_earlier(project: Project, sources: Sequence[Source]) -> list[Source]:
    """The project's documents, then those that are new. Raises UsageError for one that changed."""
    known = {key_of(record): record for record in project.documents}
    new = []
    for source in sources:
        before = known.get(key_of(source.record))
        if before is None:
            new.append(source)
        elif (before.get("title") or "", before["text"]) != (source.title, source.text):
            raise UsageError(
                f"{source.id}: has changed since {project.folder} was made, and what was judged "
                "would be about another text; name a new folder with --out"
            )
    return [*project_sources(project), *new]


def made_before(project: Project, sources: Sequence[Source]) -> list[Made]:
    """The queries that an earlier call made, with what is proposed of the new documents.

    A new document that holds a query's topic is proposed as it would have been then.
    """
    rows = row_of(sources)
    new = range(len(project.documents), len(sources))
    found = []
    for query in project.queries:
        origin = query.get(GENERATED)
        if not isinstance(origin, Mapping):
            continue
        haystack = query.get("haystack") or None
        golds = tuple(sorted(rows[haystack, document] for document in origin["documents"]))
        topic = f" {normalised(origin['topic'])} " if "topic" in origin else None
        proposed = {
            row: {"by": "topic"}
            for row in new
            if topic is not None
            and (haystack is None or haystack in sources[row].haystacks)
            and topic in f" {sources[row].normalised} "
        }
        rest = {name: value for name, value in origin.items() if name != "documents"}
        found.append(Made(query["text"], haystack, golds, rest, proposed))
    return found


def write(
    folder: Path,
    before: Project | None,
    sources: Sequence[Source],
    queries: Sequence[tuple[Made, str]],
    settings: Settings,
    made_by: Settings,
) -> Project:
    """Write the project: old queries as they were, then the new ones with their splits.

    The queries of one call stand in the order of their ids, which is none of the documents'.
    `queries` are all of them, with splits; `made_by` says what made the new ones. Judgements come
    first, so that a crash leaves none out.
    """
    old = {query["id"] for query in before.queries} if before else set()
    new = [_record(made, split, sources) for made, split in queries if made.id not in old]
    pool = list(before.pool) if before else []
    there = {(one.query, one.document) for one in pool}
    for made, _ in queries:
        golds = [(row, {"by": CONSTRUCTION}) for row in made.golds]
        for row, why in [*golds, *sorted(made.proposed.items())]:
            one = Candidate(made.id, sources[row].id, {}, why)
            if (one.query, one.document) not in there:
                pool.append(one)
    lines = [
        {"query": made.id, "document": sources[row].id, "grade": GRADE}
        for made, _ in queries
        for row in made.golds
    ]
    folder.mkdir(parents=True, exist_ok=True)
    # Whole, not appended: the same documents and seed give the same bytes, without a time.
    write_bytes(folder / "judgements" / f"{CONSTRUCTION}.jsonl", as_lines(lines))
    kept = before.settings if before else {"k": 0, "seed": settings["seed"], "systems": []}
    calls = list(kept[GENERATED]["calls"]) if before else []
    if new:
        calls.append({**made_by, "queries": len(new)})
    project = Project(
        folder,
        {**kept, GENERATED: {**settings, "calls": calls}},
        [dict(source.record) for source in sources],
        [*(before.queries if before else []), *new],
        pool,
    )
    project.write()
    return project


def unjudged_proposals(project: Project) -> int:
    """Candidates that were proposed and that nobody judged: in the export they are not relevant."""
    every = (CONSTRUCTION, *project.annotators())
    judged: set[tuple[str, str]] = set()
    for name in every:
        judged.update(project.journal(name).held.grades)
    return sum(
        one.proposed is not None and (one.query, one.document) not in judged for one in project.pool
    )


def key_of(record: Mapping[str, Any]) -> tuple[str, ...]:
    """What tells a document from all others."""
    return (*haystacks(record), record["id"])


def _record(made: Made, split: str, sources: Sequence[Source]) -> dict[str, Any]:
    """A line of queries.jsonl. No retriever sees `generated`, and the id says nothing."""
    record: dict[str, Any] = {"id": made.id, "text": made.text}
    if made.haystack is not None:
        record["haystack"] = made.haystack
    if made.ability is not None:
        record["ability"] = made.ability
    if made.answers:
        record["answers"] = list(made.answers)
    documents = [sources[row].id for row in made.golds]
    return {**record, "split": split, GENERATED: {**made.origin, "documents": documents}}


def _said(value: object) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{name}={share:g}" for name, share in value.items())
    return "none" if value is None or value == "" else str(value)
