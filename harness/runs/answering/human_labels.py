"""Human labels of answers, stored beside the judgements of models."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from harness.errors import UsageError
from harness.files import digest
from harness.rankings.raw import read_lines
from harness.records.base import decode
from harness.runs.answering.folder import HUMAN, JUDGEMENTS, AnswersFolder
from harness.runs.answering.judging import write_judgements
from harness.runs.answering.records import HumanLabel, HumanLabelSource, JudgeIdentity

Labels = Mapping[tuple[str, int], bool]
"""Whether an answer is correct, by question and repetition."""


def read_human_labels(path: Path, folder: AnswersFolder) -> tuple[Labels, HumanLabelSource]:
    """Reads a file with one HumanLabel a line.

    Raises UsageError for an invalid line, for a label of an unknown answer, and for two labels
    that contradict each other.
    """
    answered = {
        (query, repeat)
        for query, repeat, answer in zip(
            *(folder.table[name].to_pylist() for name in ("query", "repeat", "answer")),
            strict=True,
        )
        if answer is not None
    }
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
        if key not in answered:
            raise UsageError(f"{where}: {folder.path} has no answer to {key[0]!r}")
        if labels.setdefault(key, label.correct) != label.correct:
            raise UsageError(f"{where}: {key[0]!r} has contradictory labels; keep one line")
    if not labels:
        raise UsageError(f"{path}: labels no answer yet: every `correct` is null")
    return labels, HumanLabelSource(file=path.name, sha256=digest(path))


def write_human_labels(folder: AnswersFolder, labels: Labels, source: HumanLabelSource) -> Path:
    """Writes human labels beside the judgements, in place of earlier ones."""
    rows = [
        {"query": query, "repeat": repeat, "judgement": 0, "correct": correct}
        for (query, repeat), correct in labels.items()
    ]
    judge = JudgeIdentity(name=HUMAN, version=1, signature=HUMAN, model=HUMAN)
    table = pa.Table.from_pylist(rows, JUDGEMENTS)
    return write_judgements(folder, table, judge, human_labels=source)
