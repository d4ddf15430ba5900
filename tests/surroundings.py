"""What a retriever ranks in processes of different surroundings, to be held against each other."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.io.files import digest

PLAIN: dict[str, str] = {"PYTHONHASHSEED": "0"}
ODD = {
    "PYTHONHASHSEED": "77",
    "LC_ALL": "tr_TR.UTF-8",
    "TZ": "Pacific/Chatham",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONOPTIMIZE": "1",
}


def rankings(retriever: str, out: Path, around: dict[str, str], *more: str) -> str:
    """The sha256 of what a process with these variables ranks."""
    name, *params = retriever.split()
    command = [sys.executable, "-m", "harness", "run", "--dataset", "sample", "--retriever", name]
    told = subprocess.run(
        [*command, *params, *more, "--out", out, "--quiet"],
        env=os.environ | around,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    (found,) = out.glob("*/rankings.parquet")
    return digest(found)


def all_alike(
    retriever: str, tmp_path: Path, ways: Sequence[tuple[dict[str, str], tuple[str, ...]]]
) -> None:
    """Every way gives the bytes of the first."""
    found = [
        rankings(retriever, tmp_path / str(number), around, *more)
        for number, (around, more) in enumerate(ways)
    ]
    assert len(set(found)) == 1, [*zip(ways, found, strict=True)]
