"""The folder of answers: who asked what of whom, every answer, and what was judged of it.

| file | what |
|---|---|
| answers.json | dataset, system, what was shown, reader, model, counts, cost, versions |
| answers.parquet | a row an answer: query, repeat, answer, documents shown, tokens |
| judgements/NAME/judge.json | judge, model, counts, cost |
| judgements/NAME/judgements.parquet | a row a judgement: query, repeat, judgement, right, reply |
| scores.json, scores.parquet | as of a run: values by query, cells with intervals and signatures |

Answers hold texts of a model, which may repeat what it was shown; a board takes numbers alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.dataset.manifest import IDS_ONLY
from harness.dataset.reader import Dataset
from harness.errors import UsageError
from harness.files import disk_errors, file_aside
from harness.masking import record_masked
from harness.rankings.arrow import read_parquet
from harness.records.base import convert
from harness.records.run import DatasetRef
from harness.seals import check_file, read_sealed

ANSWERS_VERSION = 1
RECORD = "answers.json"
PEOPLE = "people"
"""What the judgements of people are called, beside those of judges."""

BESIDE_ANSWERS = ("answers.parquet",)
"""What answers.json is sealed with."""
_AGAIN = "give the command that made the folder again: no reply is paid twice"

OURS = frozenset({RECORD, "answers.parquet", "judgements", "scores.json", "scores.parquet"})

ANSWERS = pa.schema(
    [
        ("query", pa.string()),
        ("repeat", pa.int32()),
        ("answer", pa.string()),  # null where none came
        ("documents", pa.list_(pa.string())),  # null where nobody says what was shown
        ("things", pa.int32()),  # how many things were shown, texts of a system's own included
        ("unresolved", pa.int32()),  # of these, texts that no document was found for
        ("tokens", pa.int32()),  # what was shown, words+marks
        ("prompt_tokens", pa.int32()),
        ("completion_tokens", pa.int32()),
        ("finish", pa.string()),
        ("failed", pa.string()),  # why no answer came
    ]
)
JUDGEMENTS = pa.schema(
    [
        ("query", pa.string()),
        ("repeat", pa.int32()),  # of the answer
        ("judgement", pa.int32()),  # which of several judgements of it
        ("right", pa.bool_()),  # null where the reply was neither yes nor no, or none came
        ("reply", pa.string()),
        ("failed", pa.string()),
    ]
)


@dataclass(frozen=True)
class AnswersFolder:
    """Answers on disk."""

    path: Path

    @cached_property
    def record(self) -> dict[str, Any]:
        """answers.json, with secrets masked as in RunFolder.record. Raises UsageError for a folder
        that holds no answers of this version."""
        if not (self.path / RECORD).is_file():
            what = "a folder without answers" if self.path.is_dir() else "not there"
            raise UsageError(f"{self.path}: {what}; `harness answer RUN` makes one")
        record: dict[str, Any] = record_masked(read_sealed(self.path / RECORD, _AGAIN, must=True))
        if record.get("answers_version") != ANSWERS_VERSION:
            raise UsageError(f"{self.path}: not answers of this version of the harness")
        return record

    @property
    def table(self) -> pa.Table:
        """answers.parquet. Raises UsageError where it cannot be read, or is of another time."""
        return read_parquet(check_file(self.path / "answers.parquet", self.record, _AGAIN))

    @property
    def judged(self) -> dict[str, Path]:
        """The folders of its judgements, by name. Raises UsageError for one whose judge.json is
        gone."""
        parts = (self.path / "judgements").glob("*/judge*")
        found = sorted({path.parent for path in parts})
        for folder in found:
            if not (folder / "judge.json").is_file():
                raise UsageError(f"{folder / 'judge.json'}: is missing; {_judge(folder)}")
        return {folder.name: folder for folder in found}

    def judgements(self, name: str) -> tuple[dict[str, Any], pa.Table]:
        """judge.json and the judgements of one judge. Raises UsageError as `table`."""
        folder = self.judged[name]
        again = _judge(folder)
        record = read_sealed(folder / "judge.json", again, must=True)
        return record, read_parquet(check_file(folder / "judgements.parquet", record, again))


def _judge(folder: Path) -> str:
    return f"remove {folder}, and judge again: no reply is paid twice"


def require_texts(dataset: Dataset) -> None:
    """Raises UsageError for a dataset of ids alone, whose questions nobody can read."""
    if dataset.manifest.text == IDS_ONLY:
        raise UsageError(
            f"{dataset.name}: holds ids alone, no texts, so there is nothing to ask or to show; "
            "the whole dataset is needed"
        )


def names_of(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """What to call answers that stand beside each other: their system's or control's name, and by
    what measure it was shown where two have one name."""
    names = [str(record["name"]) for record in records]
    return [
        f"{name}, {measure}" if names.count(name) > 1 and (measure := _measure(record)) else name
        for name, record in zip(names, records, strict=True)
    ]


def _measure(record: Mapping[str, Any]) -> str:
    settings = record["settings"]
    if settings.get("budget") is not None:
        return f"{settings['budget']:,} tokens"
    return f"top {settings['k']}" if settings.get("k") is not None else ""


def is_answers(folder: Path) -> bool:
    """Whether a folder is one of answers."""
    return (folder / RECORD).is_file()


def dataset_of_answers(folder: AnswersFolder, source: str | None = None) -> Dataset:
    """The dataset whose questions were answered. Raises UsageError as `dataset_of_run`."""
    from harness.runs.folder.run_folder import dataset_of_record

    made = convert(folder.record["dataset"], DatasetRef, str(folder.path / RECORD))
    return dataset_of_record(folder.path, made, source=source)


def dataset_of_all(folders: Sequence[AnswersFolder], source: str | None = None) -> Dataset:
    """The one dataset of several folders. Raises UsageError where there are two."""
    if len({one.record["dataset"]["fingerprint"] for one in folders}) > 1:
        raise UsageError("these answers are of several datasets; name those of one at a time")
    return dataset_of_answers(folders[0], source)


def export_hypotheses(folder: Path, out: Path) -> int:
    """Write answers as lines of question_id and hypothesis, as LongMemEval's evaluate_qa.py reads
    them; of several repetitions the first. Returns how many questions have no answer.

    The file appears whole or not at all. Raises UsageError for a folder without answers, and for a
    file that is there already.
    """
    import orjson

    answers = AnswersFolder(folder)
    name = answers.record["dataset"]["name"]
    if name.partition("/")[0] != "longmemeval":
        raise UsageError(f"{folder}: answers questions of {name}, not of LongMemEval")
    if out.exists():
        raise UsageError(f"{out}: exists; name a new file")
    first = [row for row in answers.table.to_pylist() if row["repeat"] == 0]
    came = [row for row in first if row["answer"] is not None]
    with disk_errors(out.parent, "name another place with --out"), file_aside(out) as aside:
        aside.write_bytes(
            b"".join(
                orjson.dumps({"question_id": row["query"], "hypothesis": row["answer"]}) + b"\n"
                for row in came
            )
        )
    return len(first) - len(came)


def plain(name: str) -> str:
    """A name as part of that of a folder."""
    return re.sub(r"[^\w.\-]+", "-", name).strip("-") or "x"
