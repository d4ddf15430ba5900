"""Human labels of answers, stored beside the judgements of models."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from harness.errors import UsageError
from harness.extensions.answers.answering.judging import write_judgements
from harness.io.files import digest
from harness.io.records import decode
from harness.records.answers import HumanLabel, HumanLabelSource, JudgeIdentity
from harness.runfiles.raw import read_lines
from harness.runs.folder.answers_folder import HUMAN, JUDGEMENTS, AnswersFolder

_log = logging.getLogger(__name__)

Labels = Mapping[tuple[str, int], bool]
"""Whether an answer is correct, by question and repetition."""


def read_human_labels(path: Path, folder: AnswersFolder) -> tuple[Labels, HumanLabelSource]:
    """Reads a file with one HumanLabel a line.

    Failed answers are wrong: a line can say so, and they are added where all others have a label,
    so that the labels are of no sample. Raises UsageError for an invalid line, for a label of an
    unknown answer, for a failed one that is labelled correct, and for two labels that contradict
    each other.
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
    """Returns whether each answer failed, by question and repetition."""
    columns = (folder.table[name].to_pylist() for name in ("query", "repeat", "answer"))
    return {(query, repeat): answer is None for query, repeat, answer in zip(*columns, strict=True)}


def write_human_labels(folder: AnswersFolder, labels: Labels, source: HumanLabelSource) -> Path:
    """Writes human labels beside the judgements, in place of earlier ones; notes on stderr if they
    hold none of the failed answers."""
    failed = [key for key, one in failed_answers(folder).items() if one]
    if failed and not any(key in labels for key in failed):
        _log.warning(
            f"note: {folder.path}: {len(failed)} answers failed, and the human labels hold none of "
            "them: their accuracy is that of the answered questions"
        )
    rows = [
        {"query": query, "repeat": repeat, "judgement": 0, "correct": correct}
        for (query, repeat), correct in labels.items()
    ]
    judge = JudgeIdentity(name=HUMAN, version=1, signature=HUMAN, model=HUMAN)
    table = pa.Table.from_pylist(rows, JUDGEMENTS)
    return write_judgements(folder, table, judge, human_labels=source)
