"""Exports a project as a dataset that `--dataset labelled` reads, with a record of how it was made.

* documents.jsonl, queries.jsonl, qrels.jsonl; or qrels/SPLIT.tsv where queries carry a split
* labelling.json: annotators, n, agreement, depth and systems of the pool, what was excluded
* README.md: the same for people

Every grade of a finished query is kept, 0 too, as judged@k needs them; grades below the relevance
level become 0. An unanswerable query becomes one of ability abstention without a relevant document.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import msgspec

import harness
from harness.dataset.adapters.labelled_files import SETTINGS
from harness.errors import UsageError
from harness.files import digest, folder_aside, write_bytes
from harness.labelling.annotations import Annotation, Annotations
from harness.labelling.consensus import (
    Consensus,
    Policy,
    annotations_by_name,
    apply_policy,
    consensus,
)
from harness.labelling.project import CONSTRUCTION, Project
from harness.labelling.readme import readme
from harness.labelling.records import encode_lines
from harness.labelling.reports import (
    AnnotatorSummary,
    ConflictSummary,
    Excluded,
    ExportCounts,
    ExportManifest,
    PoolSummary,
)
from harness.labelling.scores import JudgingProgress, judging_progress
from harness.labelling.status import count_unconfirmed, measures
from harness.rankings.fields import QUERIES
from harness.records.base import write_json_record
from harness.schema import Ability

Qrels = dict[str, dict[str, int]]
"""Grades by query and document."""


@dataclass(frozen=True)
class ExportResult:
    """The folder of a dataset, and its manifest."""

    folder: Path
    manifest: ExportManifest


@dataclass(frozen=True)
class _Inputs:
    """A project with all annotations of it; `merged` has open conflicts that `agreed` resolves."""

    project: Project
    annotators: Mapping[str, Annotations]
    construction: Annotations
    adjudicated: Annotations
    merged: Consensus
    agreed: Consensus


def export(
    folder: Path,
    out: Path | None = None,
    *,
    conflicts: Policy = "refuse",
    unfinished: bool = False,
) -> ExportResult:
    """Writes the dataset of a project to `out` (FOLDER/dataset).

    `conflicts`: `refuse`, or take the `lower` grade (and believe who marked a query as
    unanswerable) or the `higher` (and do not): metrics under both are bounds of what resolving them
    would give. `unfinished` includes queries that have candidates without a judgement.

    Raises UsageError for a folder that is not a project, open conflicts where they are refused,
    nothing to export, and an `out` that contains something else.
    """
    if conflicts not in get_args(Policy):
        choices = ", ".join(get_args(Policy))
        raise UsageError(f"--conflicts must be one of {choices}, not {conflicts!r}")
    project = Project.read(folder)
    if project.scale.target == "answer":
        raise UsageError(
            f"{folder}: contains judgements of answers, which are not a dataset; use them with "
            f"`{project.scale.next_command(folder)}`"
        )
    out = folder / "dataset" if out is None else out
    _check_out(out)
    inputs = _read(project, conflicts)
    progress = judging_progress(project, inputs.agreed)
    queries = _exported_queries(inputs, progress, unfinished=unfinished)
    if not queries:
        raise UsageError(
            f"{folder}: no query is finished, so there is nothing to export yet; `harness label "
            f"status {folder}` shows what is left, --unfinished exports what there is"
        )
    qrels, lowered = _qrels(inputs, queries)
    with folder_aside(out) as aside:
        splits = _write(aside, inputs, queries, qrels)
        manifest = ExportManifest(
            exported_at=datetime.now(UTC).isoformat(timespec="seconds"),
            harness=harness.__version__,
            project=project.folder.resolve().name,
            relevance_level=project.relevance_level,
            sources=project.settings.sources,
            generated=project.settings.generated,
            pool=PoolSummary(
                depth=project.depth,
                seed=project.seed,
                systems=project.settings.systems,
                candidates=len(project.pool),
            ),
            annotators=[
                AnnotatorSummary(
                    name=name, grades=len(one.grades), unanswerable=sum(one.unanswerable.values())
                )
                for name, one in inputs.annotators.items()
            ],
            agreement=measures(project, inputs.annotators),
            conflicts=ConflictSummary(
                total=len(inputs.merged.conflicts),
                resolved=sum(not one.open for one in inputs.merged.conflicts),
                open=len(inputs.merged.open),
                policy=conflicts,
            ),
            counts=_counts(inputs, progress, qrels, lowered),
            excluded=Excluded(unfinished_queries=len(set(progress.unfinished) - set(queries))),
            annotation_files={
                path.name: digest(path)
                for path in sorted((project.folder / "annotations").glob("*.jsonl"))
            },
            splits=splits,
            unfinished_included=unfinished,
        )
        write_json_record(aside / "labelling.json", manifest)
        write_bytes(aside / "README.md", readme(manifest).encode())
    return ExportResult(out, manifest)


def _check_out(out: Path) -> None:
    if not out.exists() or (out.is_dir() and not any(out.iterdir())):
        return
    if not (out / "labelling.json").is_file():
        raise UsageError(f"--out {out}: contains something else; name a new folder")


def _read(project: Project, conflicts: Policy) -> _Inputs:
    annotators = annotations_by_name(project)
    construction = project.annotation_log(CONSTRUCTION).current
    adjudicated = project.adjudication_log().current
    merged = consensus(project, annotators, construction, adjudicated)
    if merged.open and conflicts == "refuse":
        kinds = Counter(one.kind for one in merged.open)
        counts = ", ".join(f"{n} of {kind}" for kind, n in kinds.items())
        n = len(merged.open)
        raise UsageError(
            f"{project.folder}: {n} conflict{'s are' if n > 1 else ' is'} open ({counts}); resolve "
            f"them with `harness label adjudicate {project.folder}`, or use --conflicts lower or "
            "higher"
        )
    agreed = apply_policy(project, merged, conflicts) if merged.open else merged
    return _Inputs(project, annotators, construction, adjudicated, merged, agreed)


def _exported_queries(inputs: _Inputs, progress: JudgingProgress, *, unfinished: bool) -> list[str]:
    exported = {*progress.scorable, *progress.without_relevant, *progress.unanswerable}
    if unfinished:
        begun = {query for query, _ in inputs.agreed.grades}
        exported |= {query for query in progress.unfinished if query in begun}
    return [query for query in inputs.project.query if query in exported]


def _qrels(inputs: _Inputs, queries: list[str]) -> tuple[Qrels, int]:
    """The grades to export, and how many became 0 because their query is unanswerable."""
    project, agreed = inputs.project, inputs.agreed
    qrels: Qrels = {}
    lowered = 0
    for query in queries:
        qrels[query] = {}
        for candidate in project.candidates[query]:
            grade = agreed.grades.get((query, candidate.document))
            if grade is None:
                continue
            if grade < project.relevance_level:
                grade = 0
            elif agreed.unanswerable.get(query):
                grade, lowered = 0, lowered + 1
            qrels[query][candidate.document] = grade
    return qrels, lowered


def _counts(inputs: _Inputs, progress: JudgingProgress, qrels: Qrels, lowered: int) -> ExportCounts:
    project, adjudicated = inputs.project, inputs.adjudicated
    own = list(inputs.annotators.values())
    by_people = {pair for one in own for pair in one.grades} | set(adjudicated.grades)
    pairs = [(query, document) for query, grades in qrels.items() for document in grades]
    grades = Counter(grade for grades in qrels.values() for grade in grades.values())
    abilities = [_ability(inputs, query) for query in qrels]
    unanswerable = qrels.keys() & set(progress.unanswerable)
    return ExportCounts(
        documents=len(project.documents),
        queries=len(qrels),
        judgements=len(pairs),
        grades={str(grade): grades[grade] for grade in range(4)},
        judged_by_two_or_more=sum(sum(pair in one.grades for one in own) >= 2 for pair in pairs),
        by_construction=sum(
            pair in inputs.construction.grades and pair not in by_people for pair in pairs
        ),
        abilities=dict(sorted(Counter(str(one or Ability.LOOKUP) for one in abilities).items())),
        ability_unknown=sum(one is None for one in abilities),
        without_relevant=len(qrels.keys() & set(progress.without_relevant)),
        unanswerable=len(unanswerable),
        unanswerable_unconfirmed=count_unconfirmed(unanswerable, (*own, adjudicated)),
        unfinished=len(qrels.keys() & set(progress.unfinished)),
        unjudged_proposals=sum(
            one.proposal is not None and one.query in qrels and one.document not in qrels[one.query]
            for one in project.pool
        ),
        lowered_to_0=lowered,
    )


def _ability(inputs: _Inputs, query: str) -> Ability | None:
    """The ability of the exported query; None where nobody chose one."""
    if inputs.agreed.unanswerable.get(query):
        return Ability.ABSTENTION
    given = inputs.project.query[query].ability
    return inputs.agreed.abilities.get(query) or (None if given == Ability.ABSTENTION else given)


def _write(
    folder: Path, inputs: _Inputs, queries: list[str], qrels: Qrels
) -> dict[str, int] | None:
    """Writes the dataset's files; returns the number of queries by split, None where none has one.

    A query without a split, where others have one, is in `test`.
    """
    project = inputs.project
    records = [
        msgspec.structs.replace(project.query[query], ability=_ability(inputs, query))
        for query in queries
    ]
    split = any(record.split for record in records)
    if split:
        records = [
            msgspec.structs.replace(record, split=record.split or "test") for record in records
        ]
    write_bytes(folder / "documents.jsonl", encode_lines(project.documents))
    write_bytes(folder / "queries.jsonl", encode_lines(records))
    known = {*QUERIES.names} - {"relevant"}  # the judgements of this project replace a file's
    ignored = {name for record in records for name in record.extra if name not in known}
    if any(record.generated for record in records):
        ignored.add("generated")
    if ignored:  # else `labelled` would refuse unknown fields
        names = ", ".join(map(json.dumps, sorted(ignored)))
        write_bytes(folder / SETTINGS, f"[ignore]\nqueries = [{names}]\n".encode())
    if not split:
        _write_qrels(folder, inputs, qrels)
        return None
    for name in {record.split for record in records}:
        rows = ["query-id\tcorpus-id\tscore"]
        for record in records:
            if record.split == name:
                rows += [_row(record.id, *pair) for pair in qrels[record.id].items()]
        write_bytes(folder / "qrels" / f"{name}.tsv", ("\n".join(rows) + "\n").encode())
    return dict(sorted(Counter(str(record.split) for record in records).items()))


def _write_qrels(folder: Path, inputs: _Inputs, qrels: Qrels) -> None:
    lines = [
        Annotation(query=query, document=document, grade=grade)
        for query, grades in qrels.items()
        for document, grade in grades.items()
    ]
    if not lines:
        n = len(inputs.agreed.grades)
        raise UsageError(
            f"{inputs.project.folder}: "
            + (
                f"no query is finished ({n} grades are there); --unfinished exports them"
                if n
                else "no document was judged; there is nothing to export"
            )
        )
    write_bytes(folder / "qrels.jsonl", encode_lines(lines))


def _row(query: str, document: str, grade: int) -> str:
    for id_ in (query, document):
        if "\t" in id_ or "\n" in id_:
            raise UsageError(
                f"the id {id_!r} contains a tab or a line end, which qrels cannot carry"
            )
    return f"{query}\t{document}\t{grade}"
