"""Writes the checksums of a folder again that a test has changed."""

from __future__ import annotations

from pathlib import Path

from harness.io.checksums import write_with_checksums
from harness.io.records import read_json_record
from harness.records.answers import AnswersRecord
from harness.records.run import RunRecord
from harness.records.scores import ScoreReport
from harness.runs.folder.answers_folder import FILES_OF_RECORD
from harness.runs.folder.run_folder import write_record, write_scores


def reseal(folder: Path) -> Path:
    """The folder, of whatever is in it by now."""
    if (folder / "run.json").is_file():
        write_record(folder, read_json_record(folder / "run.json", RunRecord))
    if (folder / "answers.json").is_file():
        record = read_json_record(folder / "answers.json", AnswersRecord)
        write_with_checksums(folder / "answers.json", record, FILES_OF_RECORD)
    if (folder / "scores.json").is_file():
        write_scores(folder, read_json_record(folder / "scores.json", ScoreReport))
    return folder
