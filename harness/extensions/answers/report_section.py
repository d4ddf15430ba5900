"""Report section of answers: readers over a run, baselines, and error attribution."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.extensions.answers.answering.context import RETRIEVED
from harness.extensions.answers.answering.judging import failures_as_wrong
from harness.extensions.answers.scoring.error_attribution import (
    CONDITIONAL,
    answer_classes,
    evidence_coverage,
)
from harness.io.files import digest
from harness.io.records import convert
from harness.records.answers import BASELINES, CLASSES, JudgeRecord, reader_of
from harness.records.scores import ProtocolResult, ScoreReport
from harness.reports.material import Material, ReportContext, Texts
from harness.reports.records import (
    AnswersProtocol,
    AnswersSection,
    JudgeCounts,
    QueryAnswers,
    ReaderRow,
    ReportSection,
    Verdicts,
)
from harness.runs.folder.answers_folder import AnswersFolder, display_names
from harness.runs.folder.run_folder import RunFolder, read_scores
from harness.schema import Ability
from harness.scoring.scores import range_over_judges

_SLICES = ("all", *(str(ability) for ability in Ability))
_CONDITIONS = ("own", "imported", RETRIEVED, *BASELINES)
_OF_TEXTS = ("exact_match", "token_f1", "containment", "abstained")


def section(context: ReportContext) -> ReportSection | None:
    """Returns the section with the answers of a report's runs; None if there are none."""
    folders_of = [answers_of(folder) for folder in context.folders]
    if not any(folders_of):
        return None
    return ReportSection(
        title="From what was retrieved to what was answered",
        data=AnswersSection(
            readers=[answered(folders) for folders in folders_of],
            queries=[
                by_question(material, folders, context.asked, context.texts)
                for material, folders in zip(context.materials, folders_of, strict=True)
            ],
        ),
    )


def answers_of(run: Path) -> list[AnswersFolder]:
    """Returns the folders of answers next to a run that were made from exactly its rankings, and
    the baselines of the same readers."""
    own, baselines = [], []
    found = [
        AnswersFolder(path.parent) for path in sorted(run.parent.glob("*.answers/answers.json"))
    ]
    rankings = digest(RunFolder(run).rankings) if found else ""
    for one in found:
        reference, condition = one.record.run, one.record.settings.condition
        same_run = reference is not None and (reference.name, reference.rankings_sha256) == (
            run.resolve().name,
            rankings,
        )
        if same_run and (not one.record.baseline or condition == "random"):
            own.append(one)
        elif one.record.baseline and condition != "random":
            baselines.append(one)
    asked = {_kind(one) for one in own}
    found = own + [one for one in baselines if _kind(one) in asked]
    return sorted(found, key=lambda one: _CONDITIONS.index(one.record.settings.condition))


def _kind(one: AnswersFolder) -> tuple[str, str]:
    """Returns what comparable answers share: the dataset's fingerprint and the reader."""
    return one.record.dataset.fingerprint, reader_of(one.record)


def answered(folders: Sequence[AnswersFolder]) -> list[ReaderRow]:
    """Returns a row per folder: its context, its cost, and the results of every protocol."""
    rows = []
    names = display_names([folder.record for folder in folders])
    for name, folder in zip(names, folders, strict=True):
        record, path = folder.record, folder.path / "scores.json"
        report = read_scores(folder.path) if path.is_file() else None
        protocols = report.protocols if report else []
        rows.append(
            ReaderRow(
                system=name,
                baseline=record.baseline,
                reader=reader_of(record),
                tokens=record.mean_context_tokens,
                usd=record.usage.usd if record.usage else None,
                failed=record.queries.failed,
                protocols=[_protocol(one) for one in protocols],
                judge_range=range_over_judges(protocols),
                judges=_judges(report, path) if report else [],
            )
        )
    return rows


def _judges(report: ScoreReport, path: Path) -> list[JudgeCounts]:
    records = [convert(one, JudgeRecord, str(path)) for one in (report.judges or {}).values()]
    return [
        JudgeCounts(
            judge=one.judge.name,
            judgements=one.counts.judgements,
            undecided=one.counts.undecided,
        )
        for one in records
    ]


def _protocol(protocol: ProtocolResult) -> AnswersProtocol:
    wanted = {"accuracy", "f1", *_OF_TEXTS, *CLASSES, *CONDITIONAL}
    return AnswersProtocol(
        protocol=protocol.protocol,
        slices={
            name: {
                metric: result
                for metric, result in protocol.slices[name].metrics.items()
                if metric in wanted
            }
            for name in _SLICES
            if name in protocol.columns
        },
    )


def by_question(
    material: Material, folders: Sequence[AnswersFolder], asked: npt.NDArray[np.int64], texts: Texts
) -> list[QueryAnswers]:
    """Returns for each folder the answer to every query, its context, and all verdicts.

    Only the first repetition is used. A text is represented by its number, -1 if there is none or
    it is not shown; `failed` has the positions of failed answers.
    """
    place = {material.dataset.query_ids[row]: at for at, row in enumerate(asked)}
    found = []
    for folder in folders:
        table = folder.table
        rows = table.to_pylist()
        first = {row["query"]: at for at, row in enumerate(rows) if row["repeat"] == 0}
        answers = [-1] * len(place)
        failed: list[int] = []
        context: list[list[str] | None] = [None] * len(place)
        for query, at in first.items():
            if query in place:
                answers[place[query]] = texts.number(rows[at]["answer"])
                context[place[query]] = rows[at]["documents"]
                if rows[at]["answer"] is None:
                    failed.append(place[query])
        found.append(
            QueryAnswers(
                answer=answers,
                failed=failed,
                context=[] if folder.record.baseline else context,
                verdicts=[
                    _verdicts(material, folder, name, place, first, texts)
                    for name in folder.judge_folders
                ],
            )
        )
    return found


def _verdicts(
    material: Material,
    folder: AnswersFolder,
    name: str,
    place: Mapping[str, int],
    first: Mapping[str, int],
    texts: Texts,
) -> Verdicts:
    """Returns one judge's verdicts on the first repetition, with the error classes they imply; a
    failed answer is wrong."""
    record, judged = folder.judgements(name)
    correct: list[bool | None] = [None] * len(place)
    reply = [-1] * len(place)
    values = np.full(folder.table.num_rows, np.nan)
    for row in judged.to_pylist():
        at = place.get(row["query"])
        if at is None or row["repeat"] or row["judgement"]:
            continue
        correct[at] = row["correct"]
        if row["correct"] is None:
            reply[at] = texts.number(row["reply"])
        else:
            values[first[row["query"]]] = float(row["correct"])
    values = failures_as_wrong(record, material.dataset, folder.table, values)
    for query, at in first.items():
        if query in place and values[at] == 0:
            correct[place[query]] = False
    error_class: list[str | None] = [None] * len(place)
    coverage = evidence_coverage(material.dataset, folder.table)
    if coverage is not None:
        classes = answer_classes(coverage, values)
        for query, at in first.items():
            if query in place:
                error_class[place[query]] = classes[at]
    return Verdicts(judge=record.judge.name, correct=correct, reply=reply, error_class=error_class)
