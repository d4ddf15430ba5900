"""A run loads of scoring only what its dataset needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from polling import HANGS

CODE = """
import sys
from harness.__main__ import main
status = main()
print(*sorted(name for name in sys.modules if name.startswith("harness.")), file=sys.stderr)
sys.exit(status)
"""
UNUSED = (
    "harness.extensions.answers.scoring",  # no reference answers are scored
    "harness.scoring.changes",  # the dataset has none
    "harness.scoring.evaluate",
    "harness.scoring.matching.matcher",  # no texts of the system's own
    "harness.scoring.metrics.described",
    "harness.extensions.answers.semantic",
    "harness.runfiles.trec",
    "harness.stats.paired",
)


def test_scoring_of_rankings_alone_loads_no_extension(tmp_path: Path) -> None:
    arguments = ["run", "--dataset", "sample", "--retriever", "bm25", "--quiet"]
    done = subprocess.run(
        [sys.executable, "-c", CODE, *arguments, "--out", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=HANGS,
        env={"HOME": str(tmp_path), "HARNESS_HOME": str(tmp_path / "home"), "PATH": ""},
    )
    assert done.returncode == 0, done.stderr
    loaded = done.stderr.split()
    assert "harness.scoring.score" in loaded
    assert [name for name in loaded if name.startswith(UNUSED)] == []
