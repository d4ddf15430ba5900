"""Seals a folder again that a test has changed, as if it had been written so."""

from __future__ import annotations

from pathlib import Path

from harness.files import read_json
from harness.records.base import read_json_record
from harness.records.run import RunRecord
from harness.runs.answering.folder import BESIDE_ANSWERS
from harness.runs.folder.run_folder import write_record, write_scores
from harness.seals import write_sealed


def reseal(folder: Path) -> Path:
    """The folder, of whatever is in it by now."""
    if (folder / "run.json").is_file():
        write_record(folder, read_json_record(folder / "run.json", RunRecord))
    if (folder / "answers.json").is_file():
        write_sealed(folder / "answers.json", read_json(folder / "answers.json"), BESIDE_ANSWERS)
    if (folder / "scores.json").is_file():
        write_scores(folder, read_json(folder / "scores.json"))
    return folder
