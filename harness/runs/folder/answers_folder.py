"""The folder of answers: their dataset and system, every answer, and its judgements.

| file | contents |
|---|---|
| answers.json | dataset, system, settings, counts, cost, versions (`AnswersRecord`) |
| answers.parquet | a row per answer (`ANSWERS`) |
| judgements/NAME/judge.json | judge, counts, cost (`JudgeRecord`) |
| judgements/NAME/judgements.parquet | a row per judgement (`JUDGEMENTS`) |
| scores.json, scores.parquet | values by query, metrics with intervals and signatures |

Answers are texts of a model, which may repeat what it was shown; a board publishes numbers only.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from glob import escape
from pathlib import Path

import pyarrow as pa

from harness.datasets.manifest import IDS_ONLY
from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.io.checksums import check_file, read_with_checksums, write_with_checksums
from harness.io.files import disk_errors, file_aside, folder_aside
from harness.io.masking import redact_in
from harness.io.records import Record, convert, encode, to_plain
from harness.records.answers import AnswersRecord, JudgeRecord
from harness.runfiles.arrow import read_parquet

ANSWERS_VERSION = 1
RECORD = "answers.json"
HUMAN = "human"
"""The protocol of human labels, in addition to those of judges."""

FILES_OF_RECORD = ("answers.parquet",)
"""The files whose checksums answers.json holds."""
_REMEDY = "run the command that made the folder again: replies are cached"

OURS = frozenset({RECORD, "answers.parquet", "judgements", "scores.json", "scores.parquet"})

ANSWERS = pa.schema(
    [
        ("query", pa.string()),
        ("repeat", pa.int32()),
        ("answer", pa.string()),  # null if it failed
        ("documents", pa.list_(pa.string())),  # ids in the context; null if unknown
        ("items", pa.int32()),  # texts in the context
        ("unresolved_items", pa.int32()),  # of these, texts that match no document
        ("context_tokens", pa.int32()),  # words+marks/2
        ("prompt_tokens", pa.int32()),
        ("completion_tokens", pa.int32()),
        ("finish_reason", pa.string()),
        ("error", pa.string()),  # why there is no answer
    ]
)
JUDGEMENTS = pa.schema(
    [
        ("query", pa.string()),
        ("repeat", pa.int32()),  # of the answer
        ("judgement", pa.int32()),  # number of the judgement of this answer
        ("correct", pa.bool_()),  # null if undecided or failed
        ("reply", pa.string()),
        ("error", pa.string()),  # why there is no reply
    ]
)


class Hypothesis(Record):
    """A line that LongMemEval's evaluate_qa.py reads."""

    question_id: str
    hypothesis: str


@dataclass(frozen=True)
class AnswersFolder:
    """Answers on disk."""

    path: Path

    @cached_property
    def record(self) -> AnswersRecord:
        """answers.json, with secrets masked as in RunFolder.record. Raises UsageError for a folder
        without answers of this version."""
        path = self.path / RECORD
        if not path.is_file():
            what = "a folder without answers" if self.path.is_dir() else "no such folder of answers"
            raise UsageError(f"{self.path}: {what}; `harness answer RUN` makes one")
        record = read_with_checksums(path, AnswersRecord, _REMEDY, required=True)
        if record.answers_version != ANSWERS_VERSION:
            raise UsageError(f"{self.path}: not answers of this version of the harness")
        return convert(redact_in(to_plain(record)), AnswersRecord, str(path))

    @property
    def table(self) -> pa.Table:
        """answers.parquet. Raises UsageError if it cannot be read or was changed."""
        return read_parquet(check_file(self.path / "answers.parquet", self.record, _REMEDY))

    @property
    def judge_folders(self) -> dict[str, Path]:
        """The folders of its judgements, by name. Raises UsageError for one without judge.json."""
        parts = (self.path / "judgements").glob("*/judge*")
        found = sorted({path.parent for path in parts})
        for folder in found:
            if not (folder / "judge.json").is_file():
                raise UsageError(f"{folder / 'judge.json'}: is missing; {_judge_again(folder)}")
        return {folder.name: folder for folder in found}

    def judgements(self, name: str) -> tuple[JudgeRecord, pa.Table]:
        """Reads the record and the judgements of one judge. Raises UsageError as `table`."""
        folder = self.judge_folders[name]
        remedy = _judge_again(folder)
        record = read_with_checksums(folder / "judge.json", JudgeRecord, remedy, required=True)
        return record, read_parquet(check_file(folder / "judgements.parquet", record, remedy))


def _judge_again(folder: Path) -> str:
    return f"remove {folder}, and judge again: replies are cached"


def write_answers(folder: Path, record: AnswersRecord, table: pa.Table) -> None:
    """Writes a folder of answers, complete or not at all; its judgements stay."""
    import pyarrow.parquet as pq

    remedy = "name another folder with --out"
    with (
        disk_errors(folder.parent, remedy),
        folder_aside(folder, ours=OURS - {"judgements"}) as aside,
    ):
        pq.write_table(table, aside / "answers.parquet", compression="zstd")
        write_with_checksums(aside / RECORD, record, FILES_OF_RECORD)


def require_texts(dataset: Dataset) -> None:
    """Raises UsageError for a dataset of ids without texts."""
    if dataset.manifest.text == IDS_ONLY:
        raise UsageError(
            f"{dataset.name}: holds ids alone, no texts, so there is nothing to ask or to show; "
            "the whole dataset is needed"
        )


def display_names(records: Sequence[AnswersRecord]) -> list[str]:
    """Returns the names of systems and baselines, with the size of the context for equal names."""
    names = [record.name for record in records]
    return [
        f"{name}, {size}" if names.count(name) > 1 and (size := _context_size(record)) else name
        for name, record in zip(names, records, strict=True)
    ]


def _context_size(record: AnswersRecord) -> str:
    settings = record.settings
    if settings.budget is not None:
        return f"{settings.budget:,} tokens"
    return f"top {settings.k}" if settings.k is not None else ""


def is_answers(folder: Path) -> bool:
    """Tests whether a folder holds answers."""
    return (folder / RECORD).is_file()


def dataset_of_answers(folder: AnswersFolder, source: str | None = None) -> Dataset:
    """Opens the dataset of the answered questions. Raises UsageError as `dataset_of_record`."""
    from harness.runs.folder.run_dataset import dataset_of_record

    return dataset_of_record(folder.path, folder.record.dataset, source=source)


def dataset_of_all(folders: Sequence[AnswersFolder], source: str | None = None) -> Dataset:
    """Opens the dataset of several folders. Raises UsageError if their datasets differ."""
    if len({one.record.dataset.fingerprint for one in folders}) > 1:
        raise UsageError("these answers are of several datasets; name those of one at a time")
    return dataset_of_answers(folders[0], source)


def complete_name(path: Path) -> Path:
    """Returns the only folder of a run or of answers whose path begins so, or else the path."""
    found = [] if path.exists() else path.parent.glob(f"{escape(path.name)}*")
    folders = [one for one in found if one.is_dir() and one.suffix != ".previous"]
    return folders[0] if len(folders) == 1 else path


def answers_folders(paths: Sequence[str]) -> list[AnswersFolder]:
    """Returns the folders of answers that paths name: themselves, or those directly below them."""
    found = []
    for path in (complete_name(Path(one).expanduser()) for one in paths):
        below = [] if is_answers(path) else sorted(path.glob(f"*.answers/{RECORD}"))
        found += [one.parent for one in below] or [path]
    return [AnswersFolder(path) for path in dict.fromkeys(found)]


def export_hypotheses(folder: Path, out: Path) -> int:
    """Writes the first answer to each question as a line for LongMemEval's evaluate_qa.py; returns
    the number of questions without an answer.

    The file is written complete or not at all. Raises UsageError for a folder without answers, and
    for a file that exists.
    """
    answers = AnswersFolder(folder)
    name = answers.record.dataset.name
    if name.partition("/")[0] != "longmemeval":
        raise UsageError(f"{folder}: answers questions of {name}, not of LongMemEval")
    if out.exists():
        raise UsageError(f"{out}: exists; name a new file")
    first = [row for row in answers.table.to_pylist() if row["repeat"] == 0]
    lines = [
        encode(Hypothesis(question_id=row["query"], hypothesis=row["answer"])) + b"\n"
        for row in first
        if row["answer"] is not None
    ]
    with disk_errors(out.parent, "name another file with --out"), file_aside(out) as aside:
        aside.write_bytes(b"".join(lines))
    return len(first) - len(lines)


def file_name(name: str) -> str:
    """Returns a name that can be part of a folder's name."""
    return re.sub(r"[^\w.\-]+", "-", name).strip("-") or "x"
