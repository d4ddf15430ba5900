"""Judges the answers of a folder and scores the folder with all judgements, human labels
included."""

from __future__ import annotations

import io
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

import harness
from harness.datasets.reader import Dataset
from harness.errors import RunError, UsageError
from harness.extensions.answers.answering.answer import now, response_models
from harness.extensions.answers.answering.client import ModelClient
from harness.extensions.answers.answering.judges import Judge
from harness.extensions.answers.answering.replies import Call, has_reasoning
from harness.extensions.answers.scoring.error_attribution import question_rows
from harness.extensions.answers.scoring.score import JudgeVerdicts, score_answers
from harness.io.checksums import write_with_checksums
from harness.io.files import digest, disk_errors, folder_aside, write_bytes
from harness.io.progress import progress
from harness.io.records import decode, to_plain
from harness.records.answers import (
    CallUsage,
    HumanLabel,
    HumanLabelSource,
    ImportedAnswersFile,
    JudgeIdentity,
    JudgementCounts,
    JudgeRecord,
    reader_of,
)
from harness.records.scores import ScoreReport
from harness.runfiles.raw import read_lines
from harness.runs.folder.answers_folder import HUMAN, JUDGEMENTS, AnswersFolder, file_name
from harness.runs.folder.run_folder import write_scores
from harness.schema import Ability
from harness.scoring.arrays import Flags, Values
from harness.scoring.judge_agreement import JudgeAgreement, judge_agreement
from harness.scoring.score_columns import query_clusters

_log = logging.getLogger(__name__)

_REMEDY = "make it writable: judgements are stored next to the answers"


def judge_answers(
    folder: AnswersFolder, dataset: Dataset, judge: Judge, client: ModelClient, repeat: int = 1
) -> Path:
    """Judges every answer of a folder `repeat` times, and writes the judgements into the folder.

    Replies are cached as they arrive. Failed answers and answers to questions without a reference
    are not judged.
    Raises UsageError and RunError like `ModelClient.complete`, UsageError for a dataset without
    references, and RunError if every call failed.
    """
    if repeat < 1:
        raise UsageError(f"--repeat must be 1 or more, not {repeat}")
    table = folder.table
    row_of = dataset.query_rows
    judgeable = _judgeable(dataset)
    answers = [
        (query, number, text)
        for query, number, text in zip(
            *(table[name].to_pylist() for name in ("query", "repeat", "answer")), strict=True
        )
        if text is not None and judgeable[row_of[query]]
    ]
    if not answers:
        raise UsageError(f"{dataset.name} has no reference answers; a judge has nothing to go by")
    calls = []
    for query, _, text in answers:
        messages, params = judge.prompt(row_of[query], text)
        for number in range(repeat):
            seed = {"seed": number} if repeat > 1 else {}
            calls.append(Call(client.model, messages, {**params, **seed}, number))
    with progress(len(calls), "judgements", judge.name) as bar:
        responses = client.complete(calls, bar.update)
    rows = []
    for (query, answer_number, _), number, response in zip(
        [answer for answer in answers for _ in range(repeat)],
        [*range(repeat)] * len(answers),
        responses,
        strict=True,
    ):
        reply = response.reply
        rows.append(
            {
                "query": query,
                "repeat": answer_number,
                "judgement": number,
                "correct": None if reply.error else judge.verdict(reply.text),
                "reply": reply.text,
                "error": reply.error,
            }
        )
    if n_reasoning := sum(has_reasoning(row["reply"]) for row in rows):
        _log.warning(
            f"note: {n_reasoning} of {len(rows)} replies of {judge.name} contain reasoning: "
            "longmemeval-official counts a `yes` in it, as the original; templates ignore it"
        )
    if all(row["error"] for row in rows):
        raise RunError(f"every judgement failed, first: {rows[0]['error']}")
    return write_judgements(
        folder,
        pa.Table.from_pylist(rows, JUDGEMENTS),
        JudgeIdentity(
            name=f"{judge.name}{f'x{repeat}' if repeat > 1 else ''}",
            version=judge.version,
            signature=f"{judge.signature}{f',repeat:{repeat}' if repeat > 1 else ''}",
            model=client.model,
            endpoint=client.address,
            repeat=repeat,
        ),
        models=response_models(responses),
        usage=client.usage_of(responses),
    )


def write_judgements(
    folder: AnswersFolder,
    table: pa.Table,
    judge: JudgeIdentity,
    *,
    models: Sequence[str] = (),
    usage: CallUsage | None = None,
    imported: ImportedAnswersFile | None = None,
    human_labels: HumanLabelSource | None = None,
) -> Path:
    """Writes judgements into the folder of the answers, atomically."""
    import pyarrow.parquet as pq

    failed = table.num_rows - table["error"].null_count
    record = JudgeRecord(
        judge=judge,
        counts=JudgementCounts(
            judgements=table.num_rows,
            undecided=table["correct"].null_count - failed,
            failed=failed,
        ),
        answers_sha256=digest(folder.path / "answers.parquet"),
        finished=now(),
        versions={"harness": harness.__version__},
        response_models=[*models],
        usage=usage,
        imported=imported,
        human_labels=human_labels,
    )
    target = folder.path / "judgements" / file_name(judge.signature)
    with disk_errors(folder.path, _REMEDY), folder_aside(target) as aside:
        pq.write_table(table, aside / "judgements.parquet", compression="zstd")
        write_with_checksums(aside / "judge.json", record, ["judgements.parquet"])
    return target


def score_folder(folder: AnswersFolder, dataset: Dataset) -> ScoreReport:
    """Scores the answers of a folder, with all judgements of exactly these answers."""
    import pyarrow.parquet as pq

    table = folder.table
    verdicts = _verdicts(folder, dataset, table)
    report, per_query = score_answers(dataset, table, reader_of(folder.record), verdicts)
    report = replace(
        report,
        judge_agreement={
            name: to_plain(agreement) for name, agreement in _agreement(dataset, table, verdicts)
        },
        judges={name: to_plain(folder.judgements(name)[0]) for name in folder.judge_folders},
    )
    buffer = io.BytesIO()
    pq.write_table(per_query, buffer)
    with disk_errors(folder.path, _REMEDY):
        write_bytes(folder.path / "scores.parquet", buffer.getvalue())
        write_scores(folder.path, report)
    return report


def _agreement(
    dataset: Dataset, answers: pa.Table, verdicts: Sequence[JudgeVerdicts]
) -> list[tuple[str, JudgeAgreement]]:
    """Compares every judge with the human labels of the same answers, excluding failed answers;
    empty without human labels."""
    human = next((one for one in verdicts if one.name == HUMAN), None)
    if human is None:
        return []
    rows = question_rows(dataset, answers)
    shares = query_clusters(dataset)
    over = "queries" if shares is None else "haystacks"
    clusters = None if shares is None else shares[rows].astype(np.int64)
    if clusters is None and len(np.unique(rows)) < len(rows):  # several answers to one question
        clusters = rows
    failed = answers["answer"].is_null().to_numpy()
    labels = np.where(failed, np.nan, human.right)
    found = [
        (one.name, judge_agreement(np.where(failed, np.nan, one.right), labels, clusters, over))
        for one in verdicts
        if one.name != HUMAN
    ]
    return [(name, agreement) for name, agreement in found if agreement is not None]


def _judgeable(dataset: Dataset) -> Flags:
    """Tests whether a judge can judge each question: it has a reference or is unanswerable."""
    references = dataset.query_table["answers"].to_pylist()
    unanswerable = dataset.abilities == str(Ability.ABSTENTION)
    found: Flags = unanswerable | np.array([*map(bool, references)])
    return found


def failures_as_wrong(
    judge: JudgeRecord, dataset: Dataset, answers: pa.Table, correct: Values
) -> Values:
    """Returns a judge's verdicts by row of the answers, with failed answers to judgeable questions
    set to wrong. Human labels and imported judgements include failed answers already, and are
    returned unchanged."""
    if judge.human_labels is not None or judge.imported is not None:
        return correct
    rows = question_rows(dataset, answers)
    failed = answers["answer"].is_null().to_numpy() & _judgeable(dataset)[rows]
    values: Values = np.where(failed, 0.0, correct)
    return values


def _verdicts(
    folder: AnswersFolder, dataset: Dataset, answers: pa.Table
) -> Sequence[JudgeVerdicts]:
    """Reads the verdicts of each judge by row of the answers; failed answers are wrong. Judgements
    of other answers are skipped with a warning."""
    row_of = {
        key: row
        for row, key in enumerate(
            zip(answers["query"].to_pylist(), answers["repeat"].to_pylist(), strict=True)
        )
    }
    sha256 = digest(folder.path / "answers.parquet")
    found = []
    for name, path in folder.judge_folders.items():
        record, judged = folder.judgements(name)
        if record.answers_sha256 != sha256:
            _log.warning(
                f"note: {path}: judges other answers than these, and is excluded; judge them again"
            )
            continue
        correct = judged["correct"].cast(pa.float64()).to_numpy(zero_copy_only=False)
        keys = zip(judged["query"].to_pylist(), judged["repeat"].to_pylist(), strict=True)
        rows = np.array([row_of[key] for key in keys], np.int64)
        decided = ~np.isnan(correct)
        counts = np.bincount(rows[decided], minlength=len(answers))
        sums = np.bincount(rows[decided], correct[decided], len(answers))
        values = np.full(len(answers), np.nan)
        np.divide(sums, counts, out=values, where=counts > 0)
        judge = record.judge
        right = failures_as_wrong(record, dataset, answers, values)
        found.append(JudgeVerdicts(judge.name, judge.version, judge.signature, right))
    return found


Labels = Mapping[tuple[str, int], bool]
"""Whether an answer is correct, by question id and repetition."""


def read_human_labels(path: Path, folder: AnswersFolder) -> tuple[Labels, HumanLabelSource]:
    """Reads a file with one HumanLabel per line.

    Failed answers are wrong: a line may label them, and they are added once all other answers have
    a label, so that the labels cover all answers. Raises UsageError for an invalid line, a label of
    an unknown answer, a failed answer that is labelled correct, and contradictory labels of one
    answer.
    """
    failed = failed_answers(folder)
    labels: dict[tuple[str, int], bool] = {}
    for number, line in enumerate(read_lines(path), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        expected = 'expected {"question_id": id, "correct": true or false}'
        label = decode(line, HumanLabel, where, expected)
        key = str(label.question_id), label.repeat
        if label.correct is None:
            continue
        if key not in failed:
            raise UsageError(f"{where}: {folder.path} has no answer to {key[0]!r}")
        if failed[key] and label.correct:
            raise UsageError(f"{where}: the answer to {key[0]!r} failed, so it is not correct")
        if labels.setdefault(key, label.correct) != label.correct:
            raise UsageError(f"{where}: {key[0]!r} has contradictory labels; keep one line")
    if not labels:
        raise UsageError(f"{path}: labels no answer yet: every `correct` is null")
    if all(key in labels for key in failed if not failed[key]):
        labels.update(dict.fromkeys((key for key in failed if failed[key]), False))
    return labels, HumanLabelSource(file=path.name, sha256=digest(path))


def failed_answers(folder: AnswersFolder) -> dict[tuple[str, int], bool]:
    """Returns whether each answer failed, by question id and repetition."""
    columns = (folder.table[name].to_pylist() for name in ("query", "repeat", "answer"))
    return {(query, repeat): answer is None for query, repeat, answer in zip(*columns, strict=True)}


def write_human_labels(folder: AnswersFolder, labels: Labels, source: HumanLabelSource) -> Path:
    """Writes human labels next to the judgements, replacing earlier labels; warns if they include
    none of the failed answers."""
    failed = [key for key, one in failed_answers(folder).items() if one]
    if failed and not any(key in labels for key in failed):
        _log.warning(
            f"note: {folder.path}: {len(failed)} answers failed, but none has a human label: "
            "their accuracy is that of the answered questions"
        )
    rows = [
        {"query": query, "repeat": repeat, "judgement": 0, "correct": correct}
        for (query, repeat), correct in labels.items()
    ]
    judge = JudgeIdentity(name=HUMAN, version=1, signature=HUMAN, model=HUMAN)
    table = pa.Table.from_pylist(rows, JUDGEMENTS)
    return write_judgements(folder, table, judge, human_labels=source)
