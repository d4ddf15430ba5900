"""The notebook in examples/ runs, and shows its results as tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from places import ROOT

pytestmark = pytest.mark.docs


def test_the_notebook_runs_and_shows_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nbformat
    from nbclient import NotebookClient

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "jupyter"))
    notebook = nbformat.read(ROOT / "examples" / "first_number.ipynb", as_version=4)
    NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [
        output["data"].get("text/html", "")
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output["output_type"] == "execute_result"
    ]
    assert "<td>0.549 [0.494, 0.604]</td>" in shown[0]
    assert "<td>-0.031 [-0.064, 0.002]</td>" in shown[-1]
