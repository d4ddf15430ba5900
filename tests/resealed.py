"""Seals a folder again that a test has changed, as if it had been written so."""

from __future__ import annotations

from pathlib import Path

from harness.files import read_json
from harness.records.base import read_json_record
from harness.records.scores import ScoreReport
from harness.runs.answering.folder import FILES_OF_RECORD
from harness.runs.folder.run_folder import BESIDE_RUN, write_scores
from harness.seals import write_sealed


def reseal(folder: Path) -> Path:
    """The folder, of whatever is in it by now."""
    for name, beside in (("run.json", BESIDE_RUN), ("answers.json", FILES_OF_RECORD)):
        if (folder / name).is_file():
            write_sealed(folder / name, read_json(folder / name), beside)
    if (folder / "scores.json").is_file():
        write_scores(folder, read_json_record(folder / "scores.json", ScoreReport))
    return folder
