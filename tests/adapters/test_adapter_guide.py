"""The adapter of the guide is real: it is taken from the page and used."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from places import ROOT

from harness.datasets.registry import open_dataset

GUIDE = ROOT / "docs" / "how-to" / "write-an-adapter.md"


def block(language: str) -> str:
    found = re.search(rf"^```{language} .*?\n(.*?)^```", GUIDE.read_text(), re.S | re.M)
    assert found is not None
    return found[1]


def test_the_adapter_of_the_guide_works_and_has_30_lines(home: Path, tmp_path: Path) -> None:
    code = block("python")
    assert len([line for line in code.splitlines() if line.strip()]) <= 30
    (tmp_path / "notes_adapter.py").write_text(code)
    (tmp_path / "notes.json").write_text(block("json"))
    runpy.run_path(str(tmp_path / "notes_adapter.py"))
    dataset = open_dataset("notes", source=tmp_path)
    assert [document.text for document in dataset.documents] == ["The dentist moved me to Friday."]
    assert dataset.query(0).haystack == "ann"
    assert dataset.qrels().document.tolist() == [0]
    assert open_dataset("notes", source=tmp_path / "notes.json").fingerprint == dataset.fingerprint
