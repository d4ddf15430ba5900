"""A deterministic retriever leaves the same bytes whatever the process around it is like."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.files import digest

LEXICAL = ("bm25", "tfidf")
OTHERS = ("bm25-okapi", "minilm", "oracle", "random", "recency", "recency-weighted")
HYBRID = "hybrid --param retrievers=bm25,tfidf"
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


@pytest.mark.parametrize("retriever", LEXICAL)
def test_hash_seeds_locales_and_time_zones_change_no_byte(
    retriever: str, home: Path, tmp_path: Path
) -> None:
    all_alike(retriever, tmp_path, [(PLAIN, ()), (ODD, ("--workers", "2", "--batch-size", "7"))])


@pytest.mark.slow
@pytest.mark.parametrize("retriever", [*OTHERS, HYBRID])
def test_no_retriever_of_the_package_depends_on_what_is_around_it(
    retriever: str, home: Path, tmp_path: Path
) -> None:
    ways: list[tuple[dict[str, str], tuple[str, ...]]] = [(PLAIN, ()), (ODD, ())]
    ways.append(({"PYTHONHASHSEED": "5"}, ("--workers", "2")))
    if retriever != "minilm":  # whose batches decide the last digits of scores
        ways.append((PLAIN, ("--batch-size", "7")))
    all_alike(retriever, tmp_path, ways)
