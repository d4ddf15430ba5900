"""Exports for trackers and metadata formats, read by the packages themselves: -m systems."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from places import ROOT

from harness.datasets.export import export
from harness.datasets.registry import open_dataset
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run

pytestmark = pytest.mark.systems

PAGE = (ROOT / "docs" / "how-to" / "use-with-other-tools.md").read_text()


def log_sample(script: str, folder: Path) -> dict[str, float]:
    """Logs a run of the sample by a script of the page; returns the first protocol's means."""
    dataset = open_dataset("sample")
    made = run(dataset, "bm25", out=folder / "results")
    scores = score_run(made, dataset)
    (code,) = re.findall(rf'```python title="{script}"\n(.*?)```', PAGE, re.S)
    done = subprocess.run(
        [sys.executable, "-c", code, made],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return {name: scores[name] for name in scores.metrics}


@pytest.mark.parametrize("format", ["jsonl", "beir"])
def test_mlcroissant_reads_every_record_of_an_export(
    home: Path, tmp_path: Path, format: str
) -> None:
    import mlcroissant

    dataset = open_dataset("sample")
    export(dataset, tmp_path / "out", format)
    described = mlcroissant.Dataset(tmp_path / "out" / "croissant.json")
    assert not described.metadata.issues.errors
    queries = list(described.records("queries"))
    key = "queries/id" if format == "jsonl" else "queries/_id"
    assert [query[key].decode() for query in queries] == dataset.query_ids
    assert queries[0]["queries/text"].decode() == dataset.query(0).text
    documents = "documents" if format == "jsonl" else "corpus"
    assert len(list(described.records(documents))) == len(dataset.documents)


def test_the_page_s_lines_log_every_score_to_mlflow(home: Path, tmp_path: Path) -> None:
    import mlflow

    store = {
        "MLFLOW_ALLOW_FILE_STORE": "true",  # a test needs no server
        "MLFLOW_TRACKING_URI": (tmp_path / "mlruns").as_uri(),
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in store.items():
            patch.setenv(name, value)
        means = log_sample("to_mlflow.py", tmp_path)
        (logged,) = mlflow.search_runs(search_all_experiments=True, output_format="list")
        assert logged.data.metrics == {
            name.replace("@", "_"): pytest.approx(value, abs=1e-12) for name, value in means.items()
        }
        assert logged.data.params["k1"] == "1.2"
        assert "protocol:memory/1" in logged.data.tags["signature"]


def test_the_page_s_lines_log_every_score_to_wandb_offline(home: Path, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WANDB_MODE", "offline")
        means = log_sample("to_wandb.py", tmp_path)
    (file,) = (tmp_path / "wandb").glob("offline-run-*/*.wandb")
    logged = file.read_bytes()
    for name, value in means.items():
        assert name.encode() in logged
        assert repr(value).encode() in logged
    assert b"protocol:memory/1" in logged
