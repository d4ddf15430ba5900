"""Pipes, devices, folders that may not be read or are gone: each is one line, and none hangs."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.__main__ import main
from harness.datasets.registry import open_dataset
from harness.errors import UsageError
from harness.io.files import disk_errors
from harness.runfiles.raw import read_bytes
from harness.runs.folder.listing import list_runs


@pytest.mark.parametrize("device", ["/dev/zero", "fifo"])
def test_pipes_and_devices_are_refused_and_not_read_to_their_end(
    device: str, tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(device)
    if device == "fifo":
        path = tmp_path / "a.trec"
        os.mkfifo(path)
    (tmp_path / "qrels").write_text("q 0 d 1\n")
    qrels = str(tmp_path / "qrels")
    for command in (["score", str(path), "--qrels", qrels], ["run", "--config", str(path)]):
        assert main(command) == 2
        assert f"{path}: is a pipe or a device; save what it gives" in capsys.readouterr().err
    with pytest.raises(UsageError, match="is a pipe or a device"):
        read_bytes(path)
    folder = tmp_path / "mine"
    (folder / "qrels").mkdir(parents=True)
    for name in ("documents", "queries"):
        (folder / f"{name}.jsonl").write_text('{"id": "a", "text": "b"}\n')
    os.symlink(path, folder / "qrels" / "test.tsv")
    with pytest.raises(UsageError, match="is a pipe or a device"):
        open_dataset("labelled", source=folder)


_RUN = "run --dataset sample --retriever bm25"


@contextmanager
def _somebody() -> Iterator[Path]:
    """A folder of somebody who is not root, whom permissions do not bind."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o755)
        user = os.geteuid()
        (Path(name) / "runs").mkdir()
        try:
            if user == 0:
                os.seteuid(65534)
            yield Path(name) / "runs"
        finally:
            os.seteuid(user)


def test_results_that_may_not_be_read_are_never_said_to_hold_no_run() -> None:
    with _somebody() as results:
        user = os.geteuid()
        os.seteuid(os.getuid())
        (results / "some-run").mkdir()
        (results / "some-run" / "run.json").write_text("{}")
        (results / "some-run").chmod(0)
        os.seteuid(user)
        assert [(run.name, run.state) for run in list_runs(results)] == [("some-run", "broken")]
        os.seteuid(os.getuid())
        results.chmod(0)
        os.seteuid(user)
        with pytest.raises(UsageError, match="runs: may not be read"):
            list_runs(results)
        os.seteuid(os.getuid())
        results.chmod(0o755)
        (results / "some-run").chmod(0o755)


def test_a_working_directory_that_was_removed_is_said(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["sh", "-c", f'rmdir "{gone}"; exec "{sys.executable}" -m harness runs'],
        cwd=gone,
        capture_output=True,
        text=True,
        check=False,
    )
    said = "harness: the working directory was removed; change to another one\n"
    assert (done.returncode, done.stderr.splitlines(keepends=True)[-1:]) == (2, [said])


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="has no ulimit")
@pytest.mark.parametrize(("limit", "status"), [(900_000, 2), (1_048_576, 0)])
def test_a_limit_of_addresses_never_lets_a_run_hang(
    tmp_path: Path, limit: int, status: int
) -> None:
    done = subprocess.run(
        ["sh", "-c", f'ulimit -v {limit}; exec "{sys.executable}" -m harness {_RUN}'],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == status, done.stderr
    if status:
        (line,) = done.stderr.splitlines()
        assert line.startswith("harness: ulimit -v is 900,000, too low for SciPy and Arrow")


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_a_file_system_without_locks_is_one_line(tmp_path: Path, number: int) -> None:
    with (
        pytest.raises(UsageError, match=f"{tmp_path}: cannot be written .*set HARNESS_HOME"),
        disk_errors(tmp_path, "set HARNESS_HOME"),
    ):
        raise OSError(number, os.strerror(number))


def test_a_worker_that_is_stopped_while_it_starts_prints_no_trace(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import time\nclass Slow:\n def index(self, corpus): pass\n"
        " def search(self, queries, k):\n  time.sleep(1)\n  return [[] for _ in queries]\n"
    )
    command = ["run", "--dataset", "sample", "--retriever", "slow.py:Slow", "--workers", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "harness", *command],
        cwd=tmp_path,
        env={**os.environ, "HARNESS_HOME": str(tmp_path / "home")},
        start_new_session=True,
        stderr=subprocess.PIPE,
        text=True,
    )
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while process.poll() is None and len(children.read_text().split()) < 2:
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=30)[1]
    assert process.returncode == 130
    assert "Traceback" not in said
