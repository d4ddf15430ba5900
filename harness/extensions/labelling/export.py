"""Exports a project as a dataset that `--dataset labelled` reads, with a record of its creation.

* documents.jsonl, queries.jsonl, qrels.jsonl; or qrels/SPLIT.tsv if queries have a split
* labelling.json: annotators, n, agreement, depth and systems of the pool, exclusions
* README.md: the same for readers

Every grade of a finished query is exported, including 0, which judged@k needs; grades below the
relevance level become 0. An unanswerable query gets the ability abstention and no relevant
document."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

import harness
from harness.datasets.adapters.labelled_files import SETTINGS
from harness.errors import UsageError
from harness.extensions.labelling.annotations import Annotation, Annotations
from harness.extensions.labelling.consensus import Consensus, Policy, apply_policy, read_consensus
from harness.extensions.labelling.project import LabelQuery, Project, encode_lines
from harness.extensions.labelling.render import readme
from harness.extensions.labelling.reports import (
    AnnotatorSummary,
    ConflictSummary,
    ExportCounts,
    ExportManifest,
    PoolSummary,
)
from harness.extensions.labelling.status import (
    JudgingProgress,
    count_unconfirmed,
    exported_grades,
    judging_progress,
    measures,
)
from harness.io.files import digest, folder_aside, write_bytes
from harness.io.records import write_json_record
from harness.runfiles.fields import QUERIES
from harness.schema import Ability

Qrels = dict[str, dict[str, int]]
"""Grades by query and document."""


def export(
    folder: Path,
    out: Path | None = None,
    *,
    conflicts: Policy = "refuse",
    unfinished: bool = False,
) -> ExportManifest:
    """Writes the dataset of a project to `out` (FOLDER/dataset); returns its manifest.

    `conflicts`: `refuse`, or resolve by the `lower` grade (and accept marks as unanswerable) or by
    the `higher` one (and ignore such marks): metrics under the two are bounds of those after
    adjudication. `unfinished` includes queries with candidates that no person judged: grades by
    construction then count, and the export is marked as unreviewed.

    Raises UsageError for a folder that is not a project, open conflicts with `refuse`, nothing to
    export, and an `out` with other content.
    """
    project = Project.read(folder)
    if project.scale.target == "answer":
        raise UsageError(
            f"{folder}: judgements of answers cannot be exported; use them with "
            f"`{project.scale.final_command(folder)}`"
        )
    out = folder / "dataset" if out is None else out
    others = out.is_file() or (out.is_dir() and any(out.iterdir()))
    if others and not (out / "labelling.json").is_file():
        raise UsageError(f"--out {out}: contains other files; name a new folder")
    annotators = project.annotations()
    merged = read_consensus(project, annotators)
    if merged.open and conflicts == "refuse":
        raise UsageError(_conflict_message(folder, merged))
    agreed = apply_policy(project, merged, conflicts) if merged.open else merged
    progress = judging_progress(project, agreed)
    queries, qrels, lowered = _collect(project, agreed, progress, unfinished=unfinished)
    settings = project.settings
    with folder_aside(out) as aside:
        _write(aside, project, queries, qrels)
        splits = Counter(query.split for query in queries if query.split)
        manifest = ExportManifest(
            exported_at=datetime.now(UTC).isoformat(timespec="seconds"),
            harness=harness.__version__,
            project=folder.resolve().name,
            relevance_level=settings.relevance_level,
            sources=settings.sources,
            generated=settings.generated,
            pool=PoolSummary(
                depth=settings.depth,
                seed=settings.seed,
                systems=settings.systems,
                candidates=len(project.pool),
            ),
            annotators=[
                AnnotatorSummary(
                    name=name, grades=len(one.grades), unanswerable=sum(one.unanswerable.values())
                )
                for name, one in annotators.items()
            ],
            agreement=measures(project, annotators),
            conflicts=ConflictSummary(
                total=len(merged.conflicts),
                resolved=len(merged.conflicts) - len(merged.open),
                open=len(merged.open),
                policy=conflicts,
            ),
            counts=_counts(project, annotators, agreed, progress, queries, qrels, lowered),
            annotation_files={
                path.name: digest(path) for path in sorted((folder / "annotations").glob("*.jsonl"))
            },
            splits=dict(sorted(splits.items())) or None,
        )
        write_json_record(aside / "labelling.json", manifest)
        write_bytes(aside / "README.md", readme(manifest).encode())
        if project.guidelines:
            write_bytes(aside / "guidelines.md", f"{project.guidelines}\n".encode())
    return manifest


def _conflict_message(folder: Path, merged: Consensus) -> str:
    kinds = Counter(one.kind for one in merged.open)
    counts = ", ".join(f"{n} of {kind}" for kind, n in kinds.items())
    n = len(merged.open)
    return (
        f"{folder}: {n} conflict{'s are' if n > 1 else ' is'} open ({counts}); resolve them with "
        f"`harness label adjudicate {folder}`, or use --conflicts lower or higher"
    )


def _collect(
    project: Project, agreed: Consensus, progress: JudgingProgress, *, unfinished: bool
) -> tuple[list[LabelQuery], Qrels, int]:
    """Returns the queries and grades to export, and the number of grades set to 0 because their
    query is unanswerable. Raises UsageError if there is no query."""
    exported = {*progress.scorable, *progress.without_relevant, *progress.unanswerable}
    if unfinished:
        exported |= {query for query, _ in agreed.grades}
    if not exported:
        raise UsageError(
            f"{project.folder}: no query is finished; continue with `harness label open "
            f"{project.folder}`, or export unfinished queries with --unfinished"
        )
    records = [query for query in project.queries if query.id in exported]
    some_split = any(query.split for query in records)
    queries, qrels, lowered = [], Qrels(), 0
    for query in records:
        ability = agreed.abilities.get(query.id)
        if agreed.unanswerable.get(query.id):
            ability = Ability.ABSTENTION
        # A query without a split is in `test` if other queries have one.
        split = (query.split or "test") if some_split else None
        queries.append(replace(query, ability=ability, split=split))
        grades = exported_grades(project, agreed, query.id)
        if ability is Ability.ABSTENTION:
            lowered += sum(grade > 0 for grade in grades.values())
            grades = dict.fromkeys(grades, 0)
        qrels[query.id] = grades
    return queries, qrels, lowered


def _counts(
    project: Project,
    annotators: Mapping[str, Annotations],
    agreed: Consensus,
    progress: JudgingProgress,
    queries: Sequence[LabelQuery],
    qrels: Qrels,
    lowered: int,
) -> ExportCounts:
    own = list(annotators.values())
    pairs = [(query, document) for query, grades in qrels.items() for document in grades]
    grades = Counter(grade for grades in qrels.values() for grade in grades.values())
    abilities = [query.ability for query in queries]
    unanswerable = qrels.keys() & set(progress.unanswerable)
    return ExportCounts(
        documents=len(project.documents),
        queries=len(qrels),
        judgements=len(pairs),
        grades={str(grade): grades[grade] for grade in range(4)},
        judged_by_two_or_more=sum(sum(pair in one.grades for one in own) >= 2 for pair in pairs),
        unreviewed=len(qrels.keys() & agreed.unreviewed_queries),
        abilities=dict(sorted(Counter(str(one or Ability.LOOKUP) for one in abilities).items())),
        ability_unknown=sum(one is None for one in abilities),
        without_relevant=len(qrels.keys() & set(progress.without_relevant)),
        unanswerable=len(unanswerable),
        unanswerable_unconfirmed=count_unconfirmed(project, unanswerable, annotators),
        unfinished=len(qrels.keys() & set(progress.unfinished)),
        excluded=len(set(progress.unfinished) - qrels.keys()),
        rejected=len(progress.rejected),
        edited=sum(bool(query.edits) for query in queries),
        lowered_to_0=lowered,
    )


def _write(folder: Path, project: Project, queries: Sequence[LabelQuery], qrels: Qrels) -> None:
    """Writes the dataset's files."""
    write_bytes(folder / "documents.jsonl", encode_lines(project.documents))
    write_bytes(folder / "queries.jsonl", encode_lines(queries))
    known = {*QUERIES.names} - {"relevant"}  # this project's judgements replace a file's
    ignored = {name for query in queries for name in query.extra if name not in known}
    ignored |= {n for n in ("generated", "edits") if any(getattr(q, n) for q in queries)}
    if ignored:  # else every run reports them as unknown fields
        names = ", ".join(map(json.dumps, sorted(ignored)))
        write_bytes(folder / SETTINGS, f"[ignore]\nqueries = [{names}]\n".encode())
    splits = {str(query.split) for query in queries if query.split}
    for name in splits:
        ids = [query.id for query in queries if query.split == name]
        write_bytes(folder / "qrels" / f"{name}.tsv", _tsv(ids, qrels))
    if not splits:
        lines = [
            Annotation(query=query, document=document, grade=grade)
            for query, grades in qrels.items()
            for document, grade in grades.items()
        ]
        if not lines:
            raise UsageError(
                f"{project.folder}: the finished queries have no judgements; export unfinished "
                "queries with --unfinished"
            )
        write_bytes(folder / "qrels.jsonl", encode_lines(lines))


def _tsv(queries: Sequence[str], qrels: Qrels) -> bytes:
    rows = ["query-id\tcorpus-id\tscore"]
    for query in queries:
        for document, grade in qrels[query].items():
            for id_ in (query, document):
                if "\t" in id_ or "\n" in id_:
                    raise UsageError(
                        f"the id {id_!r} contains a tab or a line end, which qrels cannot contain"
                    )
            rows.append(f"{query}\t{document}\t{grade}")
    return ("\n".join(rows) + "\n").encode()
