"""Which package may import which: import-linter holds the rules, and says who broke one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from polling import HANGS

ROOT = Path(__file__).parents[1]


def lint(where: Path) -> subprocess.CompletedProcess[str]:
    code = "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports_command"
    return subprocess.run(
        [sys.executable, "-c", f"{code}; lint_imports_command(['--no-cache'])"],
        cwd=where,
        capture_output=True,
        text=True,
        timeout=HANGS,
    )


def test_imports_go_one_way_and_never_in_a_circle() -> None:
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "7 kept, 0 broken" in done.stdout


@pytest.mark.parametrize(
    ("file", "imported", "contract"),
    [
        ("scoring/ranks.py", "harness.runs.run", "Imports go down the layers"),
        pytest.param(
            "scoring/ranks.py",
            "harness.retrievers.contract",
            "Imports go down the layers",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "analysis/gate.py",
            "harness.reports.html",
            "Imports go down the layers",
            marks=pytest.mark.slow,
        ),
        ("stats/clusters.py", "harness.errors", "Statistics is pure"),
        ("datasets/registry.py", "harness.datasets.adapters.beir", "Adapters are found by"),
        ("runs/folder/run_folder.py", "harness.runs.worker", "The folder of a run"),
        ("analysis/verify/metrics.py", "harness.scoring.metrics", "Verification of"),
        ("runfiles/rankings.py", "harness.stats.clusters", "Verification of"),
        (
            "scoring/score_columns.py",
            "harness.extensions.answers.scoring.text_metrics",
            "Imports go down the layers",
        ),
        (
            "extensions/dense/ann.py",
            "harness.extensions.site.history",
            "Extensions import each other",
        ),
        ("reports/html.py", "harness.reports.report", "No files import each other in a circle"),
        pytest.param(
            "scoring/matching/words.py",
            "harness.scoring.matching.matcher",
            "No files import each other in a circle",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_an_import_against_the_direction_is_told(
    tmp_path: Path, file: str, imported: str, contract: str
) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "assets", "vendor")
    shutil.copytree(ROOT / "harness", tmp_path / "harness", ignore=ignored)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    with (tmp_path / "harness" / file).open("a") as source:
        source.write(f"\n\ndef _late() -> None:\n    import {imported}\n")
    done = lint(tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    broken = next(line for line in done.stdout.splitlines() if line.startswith(contract))
    assert broken.rstrip().endswith("ignored imports)")
    assert "BROKEN" in broken
