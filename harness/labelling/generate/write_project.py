"""Generated queries, and the labelling project that they are written to or added to."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import get_args

import msgspec

from harness.errors import UsageError
from harness.files import write_bytes
from harness.labelling.annotations import Annotation
from harness.labelling.generate.labelled import project_sources, row_of
from harness.labelling.generate.sources import SourceDocument, normalised
from harness.labelling.project import CONSTRUCTION, Project
from harness.labelling.records import (
    Candidate,
    GenerationBatch,
    GenerationSettings,
    LabelDocument,
    LabelQuery,
    Proposal,
    ProposalReason,
    QueryOrigin,
    Split,
    encode_lines,
)
from harness.schema import Ability

MARK = ".generated"
"""A file that marks a folder as generated, also where a call was stopped before label.json."""

GRADE = 3
"""The grade of the document that a query was generated from: it contains the answer."""

REASONS: tuple[ProposalReason, ...] = get_args(ProposalReason)
"""Why a document is proposed, in order of precedence.

It has the words of the query's document; it contains the query's topic; it has the same value in
the template's field; it is near by its vector.
"""


@dataclass(frozen=True)
class GeneratedQuery:
    """A query. `golds` are rows of the documents it was generated from; `haystack` None: all.

    `proposed`: rows that may be relevant too, and why.
    """

    text: str
    haystack: str | None
    golds: tuple[int, ...]
    origin: QueryOrigin
    proposed: Mapping[int, Proposal] = field(default_factory=dict)
    ability: Ability | None = None
    answers: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The id, from text and haystack alone: it reveals nothing of the document."""
        data = f"{self.haystack or ''}\0{self.text}".encode("utf-8", "surrogatepass")
        return f"q-{hashlib.sha256(data).hexdigest()[:12]}"

    def with_proposed(self, more: Mapping[int, Proposal]) -> GeneratedQuery:
        """Returns the query with further documents proposed.

        Of several reasons the first in REASONS counts; a similarity is kept in any case.
        """
        known = dict(self.proposed)
        for row, proposal in more.items():
            if row not in self.golds:
                known[row] = _merged_proposal(known.get(row, proposal), proposal)
        return replace(self, proposed=known)


def _merged_proposal(known: Proposal, other: Proposal) -> Proposal:
    similarity = known.similarity if known.similarity is not None else other.similarity
    reason = min(known.reason, other.reason, key=REASONS.index)
    return Proposal(reason=reason, similarity=similarity)


def merged(queries: list[GeneratedQuery]) -> list[GeneratedQuery]:
    """Merges equal queries to one with all their documents; in order of their ids."""
    found: dict[str, GeneratedQuery] = {}
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


def read_earlier(folder: Path, settings: GenerationSettings) -> Project | None:
    """Reads the project that is added to; None for a new one.

    `settings` fix splits and proposals, so they must be the same. Raises UsageError for others.
    """
    if not (folder / "label.json").is_file():
        return None
    project = Project.read(folder)
    before = project.settings.generated
    for name in ("similarity", "embedding", "splits", "seed"):
        old, new = getattr(before, name), getattr(settings, name)
        if old != new:
            raise UsageError(
                f"--out {folder}: was generated with {name} {_format(old)}, not {_format(new)}, "
                "and its splits depend on that; leave it as it was, or name a new folder"
            )
    return project


def check_folder(folder: Path) -> None:
    """Raises UsageError for a folder that contains something else than a generated set."""
    if folder.is_file():
        raise UsageError(f"--out {folder}: is a file; name a folder")
    if (folder / "label.json").is_file():
        if Project.read(folder).settings.generated is None:
            raise UsageError(
                f"--out {folder}: is a labelling project that was not generated; name a new folder"
            )
    elif folder.is_dir() and not (folder / MARK).exists() and any(folder.iterdir()):
        raise UsageError(f"--out {folder}: is not empty and no generated set; name a new folder")


def with_earlier(project: Project, sources: Sequence[SourceDocument]) -> list[SourceDocument]:
    """Returns the project's documents, then the new ones. Raises UsageError for one that
    changed."""
    known = {key_of(document): document for document in project.documents}
    new = []
    for source in sources:
        before = known.get(key_of(source.record))
        if before is None:
            new.append(source)
        elif (before.title or "", before.text) != (source.title, source.text):
            raise UsageError(
                f"{source.id}: has changed since {project.folder} was generated, and its "
                "annotations would be about another text; name a new folder with --out"
            )
    return [*project_sources(project), *new]


def earlier_queries(project: Project, sources: Sequence[SourceDocument]) -> list[GeneratedQuery]:
    """Returns the queries of earlier calls, with proposals among the new documents.

    A new document that contains a query's topic is proposed as it would have been then.
    """
    rows = row_of(sources)
    new = range(len(project.documents), len(sources))
    found = []
    for query in project.queries:
        origin = query.generated
        if origin is None:
            continue
        haystack = query.haystack or None
        golds = tuple(sorted(rows[haystack, document] for document in origin.documents))
        topic = f" {normalised(origin.topic)} " if origin.topic is not None else None
        proposed = {
            row: Proposal(reason="topic")
            for row in new
            if topic is not None
            and (haystack is None or haystack in sources[row].haystacks)
            and topic in f" {sources[row].normalised} "
        }
        found.append(GeneratedQuery(query.text, haystack, golds, origin, proposed))
    return found


def write(
    folder: Path,
    before: Project | None,
    sources: Sequence[SourceDocument],
    queries: Sequence[tuple[GeneratedQuery, Split]],
    settings: GenerationSettings,
    batch: GenerationBatch,
) -> Project:
    """Writes the project: old queries as they were, then the new ones with their splits.

    The queries of one call are in the order of their ids, which is independent of the documents'.
    `queries` are all of them, with splits; `batch` describes the new ones. Grades are written
    first, so that a crash loses none.
    """
    old = {query.id for query in before.queries} if before else set()
    new = [_record(query, split, sources) for query, split in queries if query.id not in old]
    lines = [
        Annotation(query=query.id, document=sources[row].id, grade=GRADE)
        for query, _ in queries
        for row in query.golds
    ]
    folder.mkdir(parents=True, exist_ok=True)
    # Whole, not appended: the same documents and seed give the same bytes, without a time.
    write_bytes(folder / "annotations" / f"{CONSTRUCTION}.jsonl", encode_lines(lines))
    earlier = before.settings.generated if before else None
    batches = list(earlier.batches) if earlier else []
    if new:
        batches.append(msgspec.structs.replace(batch, queries=len(new)))
    known = before or Project.new(folder)
    project = Project(
        folder,
        msgspec.structs.replace(
            known.settings,
            seed=settings.seed,
            generated=msgspec.structs.replace(settings, batches=batches),
        ),
        [source.record for source in sources],
        [*known.queries, *new],
        _pool(known.pool, queries, sources),
    )
    project.write()
    return project


def _pool(
    old: Sequence[Candidate],
    queries: Sequence[tuple[GeneratedQuery, Split]],
    sources: Sequence[SourceDocument],
) -> list[Candidate]:
    """The old candidates, then the documents of new queries and new proposals."""
    pool = list(old)
    known = {(one.query, one.document) for one in pool}
    for query, _ in queries:
        golds = [(row, Proposal(reason=CONSTRUCTION)) for row in query.golds]
        for row, proposal in [*golds, *sorted(query.proposed.items())]:
            document = sources[row].id
            if (query.id, document) not in known:
                pool.append(Candidate(query=query.id, document=document, proposal=proposal))
    return pool


def unjudged_proposals(project: Project) -> int:
    """Counts the proposed candidates that nobody judged: the export excludes them."""
    every = (CONSTRUCTION, *project.annotators())
    judged: set[tuple[str, str]] = set()
    for name in every:
        judged.update(project.annotation_log(name).current.grades)
    return sum(
        one.proposal is not None and (one.query, one.document) not in judged for one in project.pool
    )


def key_of(document: LabelDocument) -> tuple[str, ...]:
    """Returns what identifies a document among all."""
    return (*document.haystacks, document.id)


def _record(query: GeneratedQuery, split: Split, sources: Sequence[SourceDocument]) -> LabelQuery:
    """A line of queries.jsonl. No retriever sees `generated`, and the id reveals nothing."""
    documents = [sources[row].id for row in query.golds]
    return LabelQuery(
        id=query.id,
        text=query.text,
        haystack=query.haystack,
        ability=query.ability,
        answers=list(query.answers),
        split=split,
        generated=msgspec.structs.replace(query.origin, documents=documents),
    )


def _format(value: object) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{name}={share:g}" for name, share in value.items())
    return "none" if value is None or value == "" else str(value)
