"""A labelled set as the leakage checks use it, and how it is read from a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.dataset.adapters import labelled_fields, labelled_files
from harness.dataset.adapters.formats.jsonl import optional_string, string
from harness.labelling.generate.sources import SourceDocument, read
from harness.labelling.project import CONSTRUCTION, Project
from harness.labelling.records import RELEVANCE_LEVEL


@dataclass(frozen=True)
class LabelledQuery:
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

    documents: Sequence[SourceDocument]
    queries: Sequence[LabelledQuery]


def read_set(folder: Path) -> LabelledSet:
    """Reads a labelling project, or all splits of a folder that the dataset `labelled` reads.

    Raises UsageError for any other folder.
    """
    if (folder / "label.json").is_file():
        return from_project(Project.read(folder))
    files = labelled_files.find(folder, "all")
    sources = read(files["documents"]).sources
    rows = row_of(sources)
    split: dict[str, str] = {}
    relevant: dict[str, dict[str, None]] = {}
    for one in labelled_fields.qrels(files):
        split.setdefault(one.query, one.split)
        if one.grade >= RELEVANCE_LEVEL:
            relevant.setdefault(one.query, {})[one.document] = None
    queries = []
    file = labelled_files.opened(files["queries"])
    for line, record in labelled_files.records("queries", files["queries"]):
        id_ = string(file, line, record, "id")
        text = string(file, line, record, "text")
        haystack = optional_string(file, line, record, "haystack")
        found = (rows.get((haystack, document)) for document in relevant.get(id_, ()))
        kept = tuple(row for row in found if row is not None)
        queries.append(LabelledQuery(id_, text, haystack, split.get(id_) or None, kept))
    return LabelledSet(sources, queries)


def from_project(project: Project) -> LabelledSet:
    """Returns a project as it is judged now: relevant is what anybody graded 1 or more."""
    sources = project_sources(project)
    rows = row_of(sources)
    grades: dict[tuple[str, str], int] = {}
    for name in (CONSTRUCTION, *project.annotators()):
        for pair, grade in project.annotation_log(name).current.grades.items():
            grades[pair] = max(grade, grades.get(pair, grade))
    relevant: dict[str, list[int]] = {}
    haystack = {query.id: query.haystack or None for query in project.queries}
    for (query_id, document), grade in grades.items():
        row = rows.get((haystack.get(query_id), document))
        if grade >= RELEVANCE_LEVEL and row is not None:
            relevant.setdefault(query_id, []).append(row)
    queries = []
    for query in project.queries:
        proposed = [
            rows[haystack[query.id], one.document]
            for one in project.candidates[query.id]
            if one.proposal is not None and (query.id, one.document) not in grades
        ]
        queries.append(
            LabelledQuery(
                query.id,
                query.text,
                haystack[query.id],
                query.split,
                tuple(sorted(relevant.get(query.id, ()))),
                tuple(sorted(proposed)),
            )
        )
    return LabelledSet(sources, queries)


def project_sources(project: Project) -> list[SourceDocument]:
    """Returns the documents of a project."""
    return [SourceDocument(document) for document in project.documents]


def row_of(sources: Sequence[SourceDocument]) -> Mapping[tuple[str | None, str], int]:
    """Returns the row of each document by haystack (None: any) and id."""
    rows: dict[tuple[str | None, str], int] = {}
    for row, source in enumerate(sources):
        rows.setdefault((None, source.id), row)
        for name in source.haystacks:
            rows[name, source.id] = row
    return rows
