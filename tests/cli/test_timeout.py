"""A run that hangs is ended when its time is up, whatever it hangs in; nothing of it is left."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from polling import HANGS, wait_until

PLUGIN = """
import os, socket, subprocess, sys, time
from pathlib import Path

class Here:
    def index(self, corpus):
        self.n = len(corpus)

    def search(self, queries, k):
        return [list(range(min(k, self.n))) for _ in queries]

class Asleep(Here):
    def search(self, queries, k):
        time.sleep(1000)

class AtASocket(Here):
    def index(self, corpus):
        a, b = socket.socketpair()
        a.recv(1)

class Stubborn(Here):
    # Started something, and does not end when it is asked to.
    def index(self, corpus):
        more = [sys.executable, "-c", "import time; time.sleep(1000)"]
        Path("mine").write_text(f"{os.getpid()} {subprocess.Popen(more).pid}")
        while True:
            try:
                time.sleep(1000)
            except BaseException:
                pass

class Once(Here):
    # Hangs at the second of two haystacks until a file is there.
    def index(self, corpus):
        super().index(corpus)
        Path("indexed").open("a").write("x")
        if Path("indexed").stat().st_size == 2:
            time.sleep(1000)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with retrievers that hang, and two haystacks to hang at."""
    (tmp_path / "hangs.py").write_text(PLUGIN)
    files = tmp_path / "files"
    files.mkdir()
    for name, lines in (
        ("documents", [{"id": f"d{i}", "text": "a note", "haystack": f"h{i}"} for i in (0, 1)]),
        ("queries", [{"id": f"q{i}", "text": "which?", "haystack": f"h{i}"} for i in (0, 1)]),
        ("qrels", [{"query": f"q{i}", "document": f"d{i}"} for i in (0, 1)]),
    ):
        (files / f"{name}.jsonl").write_bytes(b"\n".join(map(orjson.dumps, lines)))
    return tmp_path


def a_run(retriever: str, *more: str) -> tuple[str, ...]:
    data = ("--dataset", "labelled", "--source", "files")
    return ("run", *data, "--retriever", f"hangs.py:{retriever}", *more)


def runs(pid: str) -> bool:
    """Tells whether a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_until_gone(place: Path) -> None:
    """Waits until the stubborn system and what it started run no more."""
    wait_until(lambda: not any(map(runs, (place / "mine").read_text().split())))


@pytest.mark.parametrize(
    ("retriever", "more"),
    [("AtASocket", ()), ("Asleep", ("--workers", "2"))],
)
def test_a_run_that_hangs_ends_with_status_1(
    place: Path, harness: Callable[..., Any], retriever: str, more: tuple[str, ...]
) -> None:
    told = harness(*a_run(retriever, "--timeout", "1.5", *more))
    assert (told.status, told.out) == (1, "")
    assert "timed out after 1.5 s; finished queries are saved" in told.err
    assert not list((place / "results").glob("*/run.json"))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_does_not_stop_is_killed_and_all_that_it_started(
    place: Path, harness: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.cli.timeout.SECONDS_TO_CLOSE", 0.2)
    for limit in ("20", "80", "320"):  # until the system is started in time
        assert harness(*a_run("Stubborn", "--timeout", limit)).status == 1
        if (place / "mine").exists():
            break
    wait_until_gone(place)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_where_the_command_is_stopped_or_killed(
    place: Path, how: signal.Signals
) -> None:
    command = [sys.executable, "-m", "harness", *a_run("Stubborn", "--timeout", "10m")]
    process = subprocess.Popen(command, cwd=place, stderr=subprocess.PIPE, text=True)
    mine = place / "mine"
    wait_until(lambda: mine.exists() and " " in mine.read_text(), process)
    os.kill(process.pid, how)
    if how is signal.SIGINT:
        time.sleep(0.2)
        os.kill(process.pid, how)  # somebody is impatient
    assert process.wait(HANGS) == (130 if how is signal.SIGINT else -how)
    wait_until_gone(place)


@pytest.mark.slow
def test_what_was_finished_is_kept_for_resume(place: Path, harness: Callable[..., Any]) -> None:
    for limit in ("20", "80", "320"):  # until the second haystack is reached in time
        assert harness(*a_run("Once", "--timeout", limit)).status == 1
        if (place / "indexed").exists() and (place / "indexed").read_text() == "xx":
            break
        (place / "indexed").unlink(missing_ok=True)
        shutil.rmtree(place / "results", ignore_errors=True)
    assert harness(*a_run("Once", "--timeout", "5m", "--resume", "--quiet")).status == 0
    (record,) = (place / "results").glob("*/run.json")
    assert orjson.loads(record.read_bytes())["resumed_queries"] == 1
    assert (place / "indexed").read_text() == "xxx"


def test_a_run_in_time_is_the_same_as_without_a_timeout(
    place: Path, harness: Callable[..., Any]
) -> None:
    for out, more in (("a", ()), ("b", ("--timeout", "1h"))):
        assert harness(*a_run("Here", "--quiet", "--out", out, *more)).status == 0
    (a,), (b,) = ((place / out).glob("*/rankings.parquet") for out in "ab")
    assert a.parent.name == b.parent.name
    assert a.read_bytes() == b.read_bytes()


@pytest.mark.parametrize("time", ["0", "-3", "30x", "soon", "1000h"])
def test_a_timeout_that_is_none_is_refused(harness: Callable[..., Any], time: str) -> None:
    told = harness("run", "--dataset", "sample", "--retriever", "bm25", f"--timeout={time}")
    assert (told.status, told.err.count("\n")) == (2, 1)
    assert "give seconds, or as 90s, 30m, 1.5h" in told.err


@pytest.mark.slow
@pytest.mark.extensions
def test_a_missing_plug_in_and_a_run_that_hangs_cost_themselves_alone(
    place: Path, harness: Callable[..., Any]
) -> None:
    (place / "list.toml").write_text(
        """
        out = "runs"
        timeout = "1h"
        [nightly]
        [[datasets]]
        dataset = "labelled"
        source = "files"
        [[retrievers]]
        retriever = "gone.py:Mine"
        [[retrievers]]
        retriever = "hangs.py:Asleep"
        timeout = 1.5
        [[retrievers]]
        retriever = "bm25"
        """
    )
    told = harness("run", "--config", "list.toml")
    assert told.status == 1
    found = orjson.loads((place / "runs" / "summary.json").read_bytes())
    assert [run["state"] for run in found["runs"]] == ["failed", "failed", "ok"]
    missing, hung = (one["reason"] for one in found["failed"])
    assert "gone.py: no such Python file" in missing
    assert "timed out after 1.5 s" in hung
    lines = [orjson.loads(line) for line in (place / "runs" / "history.jsonl").open("rb")]
    assert [line.get("error") for line in lines] == ["PluginError", "TimedOutError", None]
