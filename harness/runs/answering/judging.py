"""Judges the answers of a folder, and scores the folder with all that was judged of it."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

import harness
from harness.dataset.progress import progress
from harness.dataset.reader import Dataset
from harness.errors import RunError, UsageError
from harness.files import (
    digest,
    disk_errors,
    folder_aside,
    write_bytes,
)
from harness.records.scores import ScoreReport
from harness.runs.answering.asking import Asked, Asker
from harness.runs.answering.folder import JUDGEMENTS, PEOPLE, AnswersFolder, plain
from harness.runs.answering.judges import Case, Judge
from harness.runs.answering.replies import Call
from harness.runs.folder.run_folder import write_scores
from harness.schema import Ability
from harness.scoring.answered.people import beside_people
from harness.scoring.answered.score import Verdicts, score_answers
from harness.scoring.uncertainty import independent
from harness.seals import write_sealed

_REMEDY = "make it writable: judgements are kept beside the answers"


def judge_answers(
    folder: AnswersFolder, dataset: Dataset, by: Judge, asker: Asker, repeat: int = 1
) -> Path:
    """Put every answer of a folder to a judge, `repeat` times, and score the folder anew.

    Replies are kept as they come, and none is paid twice. Answers to questions without a reference
    are not judged. Raises UsageError and RunError as `Asker.all`, UsageError for a dataset without
    references, and RunError where no judgement came.
    """
    if repeat < 1:
        raise UsageError(f"--repeat must be 1 or more, not {repeat}")
    table = folder.table
    known = {name: row for row, name in enumerate(dataset.query_ids)}
    references = dataset.query_table["answers"].to_pylist()
    without = dataset.abilities == str(Ability.ABSTENTION)
    cases = [
        (query, n, Case(known[query], text))
        for query, n, text in zip(
            table["query"].to_pylist(),
            table["repeat"].to_pylist(),
            table["answer"].to_pylist(),
            strict=True,
        )
        # With no reference there is nothing to hold an answer to, unless there is no answer.
        if text is not None and (references[known[query]] or without[known[query]])
    ]
    if not cases:
        raise UsageError(f"{dataset.name} has no reference answers; a judge has nothing to go by")
    calls = []
    for _, _, case in cases:
        messages, params = by.prompt(case)
        for number in range(repeat):
            more = {"seed": number} if repeat > 1 else {}
            calls.append(
                Call(asker.model, tuple(dict(one) for one in messages), {**params, **more}, number)
            )
    with progress(len(calls), "judgements", by.name) as bar:
        asked = asker.all(calls, bar.update)
    rows = [
        _row(query, n, number, asked[at * repeat + number], by)
        for at, (query, n, _) in enumerate(cases)
        for number in range(repeat)
    ]
    if all(row["failed"] for row in rows):
        raise RunError(f"no judgement came, first: {rows[0]['failed']}")
    judged = pa.Table.from_pylist(rows, JUDGEMENTS)
    record = {
        "judge": f"{by.name}{f'x{repeat}' if repeat > 1 else ''}",
        "version": by.version,
        "signature": f"{by.signature}{f',repeat:{repeat}' if repeat > 1 else ''}",
        "model": asker.model,
        "endpoint": asker.address,
        "repeat": repeat,
        "answered_by": sorted({one.reply.model for one in asked if one.reply.model}),
        "used": {
            "calls": len(asked),
            "new_calls": sum(one.new for one in asked),
            "prompt_tokens": sum(one.reply.prompt_tokens or 0 for one in asked),
            "completion_tokens": sum(one.reply.completion_tokens or 0 for one in asked),
        },
    }
    return write_judgements(folder, judged, record)


def _row(query: str, repeat: int, number: int, asked: Asked, by: Judge) -> dict[str, Any]:
    reply = asked.reply
    failed = reply.refused or (
        "content filter" if reply.finish == "content_filter" and not reply.text else ""
    )
    return {
        "query": query,
        "repeat": repeat,
        "judgement": number,
        "right": None if failed else by.verdict(reply.text),
        "reply": reply.text,
        "failed": failed or None,
    }


def write_judgements(folder: AnswersFolder, judged: pa.Table, record: dict[str, Any]) -> Path:
    """Write the judgements beside the answers, whole; they say what they are judgements of."""
    import pyarrow.parquet as pq

    failed = judged.num_rows - judged["failed"].null_count
    neither = judged["right"].null_count - (judged.num_rows - judged["failed"].null_count)
    counts = {"judgements": judged.num_rows, "neither": neither, "failed": failed}
    target = folder.path / "judgements" / plain(record["signature"])
    with disk_errors(folder.path, _REMEDY), folder_aside(target) as aside:
        pq.write_table(judged, aside / "judgements.parquet", compression="zstd")
        write_sealed(
            aside / "judge.json",
            {
                **record,
                "counts": counts,
                "answers": digest(folder.path / "answers.parquet"),
                "finished": datetime.now(UTC).isoformat(timespec="milliseconds"),
                "versions": {"harness": harness.__version__},
            },
            ["judgements.parquet"],
        )
    return target


def score_folder(folder: AnswersFolder, dataset: Dataset) -> ScoreReport:
    """Score the answers of a folder, with the judgements that are of these very answers."""
    import pyarrow.parquet as pq

    table = folder.table
    verdicts = _verdicts(folder, table)
    report, per_query = score_answers(dataset, table, reader_of(folder.record), verdicts)
    report = replace(
        report,
        people=_people(dataset, table, verdicts),
        judges={name: folder.judgements(name)[0] for name in folder.judged},
    )
    buffer = io.BytesIO()
    pq.write_table(per_query, buffer)
    with disk_errors(folder.path, _REMEDY):
        write_bytes(folder.path / "scores.parquet", buffer.getvalue())
        write_scores(folder.path, report)
    return report


def _people(dataset: Dataset, answers: pa.Table, verdicts: Sequence[Verdicts]) -> dict[str, Any]:
    """Every judge beside the people who judged the same answers; empty where none did."""
    people = next((one for one in verdicts if one.name == PEOPLE), None)
    if people is None:
        return {}
    known = {name: row for row, name in enumerate(dataset.query_ids)}
    rows = np.array([known[name] for name in answers["query"].to_pylist()], np.int64)
    shares = independent(dataset)
    clusters = None if shares is None else shares[rows].astype(np.int64)
    if clusters is None and len(np.unique(rows)) < len(rows):  # several answers to one question
        clusters = rows
    found = {
        one.name: beside_people(one.right, people.right, clusters)
        for one in verdicts
        if one.name != PEOPLE
    }
    return {name: beside for name, beside in found.items() if beside is not None}


def reader_of(record: dict[str, Any]) -> str:
    """Who was asked and what was shown, for signatures: `plain/1(gpt-4o)|k:10`. What is shown of a
    system and of a control to its measure is the same kind of answer."""
    settings = record["settings"]
    if settings["arm"] in ("given", "own"):
        return "its own"  # of several systems, each its own: what differs between them
    said = f"{settings['reader']}({settings['model']})"
    if settings.get("temperature") is not None:
        said += f",temperature:{settings['temperature']:g}"
    if settings.get("repeat", 1) > 1:
        said += f",repeat:{settings['repeat']}"
    return said


def _verdicts(folder: AnswersFolder, answers: pa.Table) -> Sequence[Verdicts]:
    """What each judge said, by row of the answers; those of other answers are told and left out."""
    place = {
        key: at
        for at, key in enumerate(
            zip(answers["query"].to_pylist(), answers["repeat"].to_pylist(), strict=True)
        )
    }
    own = digest(folder.path / "answers.parquet")
    found = []
    for name in folder.judged:
        record, judged = folder.judgements(name)
        if record["answers"] != own:
            print(
                f"note: {folder.judged[name]}: judges other answers than these, and is left out; "
                "judge them again",
                file=sys.stderr,
            )
            continue
        right = judged["right"].cast(pa.float64()).to_numpy(zero_copy_only=False)
        keys = zip(judged["query"].to_pylist(), judged["repeat"].to_pylist(), strict=True)
        at = np.array([place[key] for key in keys], np.int64)
        there = ~np.isnan(right)
        counts = np.bincount(at[there], minlength=len(answers))
        sums = np.bincount(at[there], right[there], len(answers))
        values = np.full(len(answers), np.nan)
        np.divide(sums, counts, out=values, where=counts > 0)
        found.append(Verdicts(record["judge"], record["version"], record["signature"], values))
    return found
