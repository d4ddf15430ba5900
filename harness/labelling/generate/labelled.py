"""A labelled set as the leakage checks see it, and how it is read from a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.dataset.adapters import labelled_fields, labelled_files
from harness.dataset.adapters.formats.jsonl import optional_string, string
from harness.labelling.folder import CONSTRUCTION, Project, haystacks
from harness.labelling.generate.sources import Source, read
from harness.labelling.records import RELEVANT


@dataclass(frozen=True)
class Asked:
    """A query, the rows of its relevant documents and of those proposed and not judged.

    `split` is None in a set without splits.
    """

    id: str
    text: str
    haystack: str | None
    split: str | None
    relevant: tuple[int, ...]
    proposed: tuple[int, ...] = ()


@dataclass(frozen=True)
class LabelledSet:
    """Documents and queries."""

    documents: Sequence[Source]
    queries: Sequence[Asked]


def read_set(folder: Path) -> LabelledSet:
    """A labelling project, or a folder that the dataset `labelled` reads, with all its splits.

    Raises UsageError for any other folder.
    """
    if (folder / "label.json").is_file():
        return of_project(Project.read(folder))
    files = labelled_files.find(folder, "all")
    sources = read(files["documents"]).sources
    rows = row_of(sources)
    split: dict[str, str] = {}
    relevant: dict[str, dict[str, None]] = {}
    for one in labelled_fields.qrels(files):
        split.setdefault(one.query, one.split)
        if one.grade >= RELEVANT:
            relevant.setdefault(one.query, {})[one.document] = None
    queries = []
    file = labelled_files.opened(files["queries"])
    for line, record in labelled_files.records("queries", files["queries"]):
        id_ = string(file, line, record, "id")
        text = string(file, line, record, "text")
        haystack = optional_string(file, line, record, "haystack")
        found = (rows.get((haystack, document)) for document in relevant.get(id_, ()))
        kept = tuple(row for row in found if row is not None)
        queries.append(Asked(id_, text, haystack, split.get(id_) or None, kept))
    return LabelledSet(sources, queries)


def of_project(project: Project) -> LabelledSet:
    """A labelling project as it is judged now: relevant is what anybody graded 1 or more."""
    sources = project_sources(project)
    rows = row_of(sources)
    journals = [project.journal(name).held for name in (CONSTRUCTION, *project.annotators())]
    grades: dict[tuple[str, str], int] = {}
    for held in journals:
        for pair, grade in held.grades.items():
            grades[pair] = max(grade, grades.get(pair, grade))
    relevant: dict[str, list[int]] = {}
    haystack = {query["id"]: query.get("haystack") or None for query in project.queries}
    for (query, document), grade in grades.items():
        row = rows.get((haystack.get(query), document))
        if grade >= RELEVANT and row is not None:
            relevant.setdefault(query, []).append(row)
    queries = []
    for asked in project.queries:
        id_ = asked["id"]
        proposed = [
            rows[haystack[id_], one.document]
            for one in project.candidates[id_]
            if one.proposed is not None and (id_, one.document) not in grades
        ]
        queries.append(
            Asked(
                id_,
                asked["text"],
                haystack[id_],
                asked.get("split"),
                tuple(sorted(relevant.get(id_, ()))),
                tuple(sorted(proposed)),
            )
        )
    return LabelledSet(sources, queries)


def project_sources(project: Project) -> list[Source]:
    """The documents of a project."""
    return [
        Source(d["id"], d.get("title") or "", d["text"], tuple(haystacks(d)), d)
        for d in project.documents
    ]


def row_of(sources: Sequence[Source]) -> Mapping[tuple[str | None, str], int]:
    """The row of each document by haystack (None: whatever it stands in) and id."""
    rows: dict[tuple[str | None, str], int] = {}
    for row, source in enumerate(sources):
        rows.setdefault((None, source.id), row)
        for name in source.haystacks:
            rows[name, source.id] = row
    return rows
