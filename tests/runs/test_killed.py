"""What a killed process leaves: no process that works on, and nothing that the next one keeps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from polling import wait_until

import harness as package_itself
from harness.io.files import folder_aside, lock_of, sweep, write_bytes

SLOW = """
import os, time
from pathlib import Path

class Slow:
    def index(self, corpus):
        Path(f"pid-{os.getpid()}").touch()
        time.sleep(3600)
    def search(self, queries, k):
        return [[] for _ in queries]
"""
DEAF = """
import os, subprocess, sys, time
from pathlib import Path
Path(f"pid-{os.getpid()}").touch()
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"])
Path(f"pid-{child.pid}").touch()
time.sleep(3600)
"""


def pids(folder: Path) -> list[int]:
    return [int(path.name.removeprefix("pid-")) for path in folder.glob("pid-*")]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "n"),
    [
        (["--retriever", "slow.py:Slow", "--workers", "2"], 2),
        (["--retriever", "slow.py:Slow", "--timeout", "10m"], 1),
        (["--retriever", "command", "--param", f"run={sys.executable} deaf.py"], 2),
        (["--retriever", "command", "--param", f"run={sys.executable} deaf.py", "--workers=2"], 4),
    ],
    ids=["workers", "timeout", "command", "commands of workers"],
)
def test_nothing_works_on_for_a_process_that_was_killed(
    options: list[str], n: int, tmp_path: Path
) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    (tmp_path / "deaf.py").write_text(DEAF)
    command = [sys.executable, "-m", "harness", "run", "--dataset", "sample", *options]
    process = subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: len(pids(tmp_path)) == n, process)
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: not any(map(alive, pids(tmp_path))))


def dies_in(folder: Path, code: str) -> None:
    """Run code in a process that is killed at its end."""
    whole = (
        "import os, signal\nfrom pathlib import Path\n"
        "from harness.io.files import file_aside, folder_aside\nfrom harness.io import files\n"
        f"folder = Path({str(folder)!r})\ndef die(*_): os.kill(os.getpid(), signal.SIGKILL)\n{code}"
    )
    done = subprocess.run([sys.executable, "-c", whole], check=False)
    assert done.returncode == -signal.SIGKILL


def test_the_next_command_removes_what_killed_ones_left_half_made(
    tmp_path: Path, harness: Callable[..., Any]
) -> None:
    results = tmp_path / "results"
    (results / "kept").mkdir(parents=True)
    (results / "kept" / "mine.txt").write_text("mine")
    dies_in(results, "with file_aside(folder / 'a.json') as p: p.write_bytes(b'half'); die()")
    dies_in(results, "with folder_aside(folder / 'b') as p: (p / 'f').touch(); die()")
    # The old folder was put aside, and the new one is not there yet.
    dies_in(
        results,
        "rename = os.rename\n"
        "def once(a, b): rename(a, b); die()\n"
        "files.os.rename = once\n"
        "with folder_aside(folder / 'kept') as p: (p / 'f').touch()",
    )
    assert len(list(results.iterdir())) == 2  # what was left before is gone by now
    dies_in(results / "other", "with file_aside(folder / 'a.json') as p: p.touch(); die()")
    assert not (results / "kept").exists()
    mine = results / ".d.0123abcd.new"
    mine.mkdir()
    theirs = results / ".hidden.new"
    theirs.mkdir()
    with lock_of(mine):
        assert harness("runs", "--results", results).status == 0
    left = {path.name for path in results.iterdir()}
    assert left == {"kept", "other", mine.name, ".hidden.new"}
    assert (results / "kept" / "mine.txt").read_text() == "mine"


def test_a_folder_is_looked_through_once_and_writers_of_one_process_are_left(
    tmp_path: Path,
) -> None:
    with folder_aside(tmp_path / "a") as aside:
        (aside / "f").touch()
        write_bytes(tmp_path / "b", b"whole")
        sweep(tmp_path, again=True)
        assert aside.is_dir()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_a_run_that_was_killed_before_its_first_answer_leaves_nothing(
    tmp_path: Path, harness: Callable[..., Any]
) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    command = [sys.executable, "-m", "harness", "run", "--dataset", "sample"]
    process = subprocess.Popen([*command, "--retriever", "slow.py:Slow"], cwd=tmp_path)
    wait_until(lambda: bool(pids(tmp_path)), process)
    (partial,) = (tmp_path / "results").glob(".*.tmp")
    os.utime(partial, (1, 1))
    assert harness("runs").status == 0
    assert partial.exists()  # a process is at it
    process.kill()
    process.wait()
    assert harness("runs").status == 0
    assert list((tmp_path / "results").iterdir()) == []


def test_every_temporary_folder_of_the_package_is_locked_by_its_process() -> None:
    package = Path(package_itself.__file__).parent
    raw = [
        f"{path.relative_to(package)}: {line.strip()}"
        for path in sorted(package.rglob("*.py"))
        for line in path.read_text().splitlines()
        if "TemporaryDirectory(" in line or "mkdtemp(" in line
        if "dir=self._home.name" not in line
    ]
    assert raw == []


def test_what_a_killed_submission_leaves_is_swept(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; "
        "from harness.io.files import TemporaryFolder; "
        "made = TemporaryFolder('add', Path(sys.argv[1])); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path], check=False)
    assert len([*tmp_path.iterdir()]) == 1
    sweep(tmp_path)
    assert [*tmp_path.iterdir()] == []
