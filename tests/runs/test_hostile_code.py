"""Code under test that ends or doubles its process, or says what is no answer, gives no number."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from polling import HANGS

Run = Callable[..., subprocess.CompletedProcess[str]]

SYSTEM = """
import os, sys
from harness import Result

class Fine:
    def __init__(self):
        self.asked = 0
    def index(self, corpus):
        self.documents = list(corpus)
    def search(self, queries, k):
        self.asked += 1
        return [self.one() for _ in queries]
    def one(self):
        return [document.id for document in self.documents[:5]]

class ExitsWhenBuilt(Fine):
    def __init__(self):
        sys.exit(0)

class LeavesWhenIndexed(Fine):
    def index(self, corpus):
        os._exit(0)

class LeavesWhenAsked(Fine):
    def one(self):
        os._exit(0)

class Forks(Fine):
    def one(self):
        if self.asked == 1:
            os.fork()
        return super().one()

class SaysNo(Fine):
    def one(self):
        return Result(super().one(), abstain="no")

class Generates(Fine):
    def one(self):
        return Result(name for name in super().one())

class Masks(Fine):
    def one(self):
        return [True, False, True]
"""
WAYS = {"here": [], "workers": ["--workers", "2"], "isolated": ["--isolate"]}


@pytest.fixture
def run(home: Path, tmp_path: Path) -> Run:
    (tmp_path / "system.py").write_text(SYSTEM)
    (tmp_path / "exits.py").write_text("import sys\nsys.exit(3)\n")

    def call(name: str, *more: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "harness", "run", "--dataset", "sample", "--limit", "8"]
        return subprocess.run(
            [*command, "--retriever", name, "--out", "out", "--quiet", *more],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=HANGS,
        )

    return call


@pytest.mark.slow
@pytest.mark.extensions
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("ExitsWhenBuilt", "was not built: SystemExit: 0"),
        ("LeavesWhenIndexed", ""),
        ("LeavesWhenAsked", ""),
        ("SaysNo", "abstain='no'; it must be True or False"),
        ("Masks", "np.flatnonzero(mask)"),
    ],
)
def test_no_end_is_silent_and_no_odd_answer_counts(
    run: Run,
    tmp_path: Path,
    way: str,
    name: str,
    said: str,
) -> None:
    told = run(f"system.py:{name}", *WAYS[way])
    assert told.returncode == 1, told
    assert len(told.stderr.splitlines()) == 1, told.stderr
    assert said in told.stderr
    assert not list((tmp_path / "out").glob("[!.]*"))


def test_a_plugin_that_exits_as_it_is_imported_is_told(run: Run) -> None:
    for arguments in (["exits.py:X"], ["bm25", "--plugin", "exits.py"]):
        told = run(*arguments)
        assert (told.returncode, told.stdout) == (2, "")
        assert "exits.py: SystemExit: 3" in told.stderr
        assert len(told.stderr.splitlines()) == 1


@pytest.mark.slow
def test_ids_that_come_one_by_one_are_all_taken(
    run: Run,
    tmp_path: Path,
) -> None:
    for name in ("Fine", "Generates"):
        assert run(f"system.py:{name}").returncode == 0
    found = {path.read_bytes() for path in (tmp_path / "out").glob("[!.]*/rankings.parquet")}
    assert len(found) == 1


@pytest.mark.slow
@pytest.mark.extensions
@pytest.mark.parametrize("way", WAYS)
def test_a_fork_makes_no_second_harness(
    run: Run,
    tmp_path: Path,
    way: str,
) -> None:
    assert run("system.py:Fine", *WAYS[way]).returncode == 0
    (plain,) = (tmp_path / "out").glob("[!.]*/rankings.parquet")
    assert run("system.py:Forks", *WAYS[way]).returncode == 0
    found = {path.read_bytes() for path in (tmp_path / "out").glob("[!.]*/rankings.parquet")}
    assert found == {plain.read_bytes()}
