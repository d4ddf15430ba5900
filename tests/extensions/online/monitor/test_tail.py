"""Following a log through rotation, crashes and restarts: nothing lost, nothing twice."""

from __future__ import annotations

import gzip
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from logging.handlers import RotatingFileHandler
from pathlib import Path
from threading import Thread

import pytest
from polling import HANGS

from harness.errors import UsageError
from harness.extensions.online.monitor import AlertRules, Monitor
from harness.extensions.online.monitor.tail import LogTailer

Write = Callable[..., None]


def line(i: int) -> str:
    return json.dumps({"query": f"q{i}", "returned": ["a"], "seconds": i, "time": 1.7e9 + i}) + "\n"


def write(path: Path, first: int, last: int) -> None:
    """Append the requests first..last-1, each with its number as its seconds."""
    with open(path, "a") as file:
        file.writelines(line(i) for i in range(first, last))


def follower(path: Path, state: Path | None = None) -> LogTailer:
    return LogTailer(path, Monitor(100_000, rules=AlertRules(changes=()), state=state))


def numbers(follower: LogTailer) -> list[int]:
    """The requests that were read, in the order in which they were."""
    window = follower.monitor.window
    follower.monitor.snapshot()
    return [int(i) for i in window.columns["seconds"][: window.n]]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "app.log"


def test_a_growing_file_is_read_on(log: Path) -> None:
    write(log, 0, 10)
    one = follower(log)
    assert one.read() == 10
    assert one.read() == 0
    with open(log, "a") as file:
        file.write(line(10) + line(11)[:20])
        file.flush()
        one.read()
        assert numbers(one) == list(range(11))
        file.write(line(11)[20:])
    one.read()
    assert numbers(one) == list(range(12))


def test_a_renamed_file_is_read_to_its_end_and_the_new_one_from_its_beginning(log: Path) -> None:
    write(log, 0, 10)
    one = follower(log)
    one.read()
    write(log, 10, 20)  # not yet seen when it is renamed
    log.rename(log.with_name("app.log.1"))
    write(log, 20, 30)
    one.read()
    log.with_name("app.log.1").rename(log.with_name("app.log.2"))
    log.rename(log.with_name("app.log.1"))
    write(log, 30, 40)
    one.read()
    assert numbers(one) == list(range(40))
    assert one.notes == []


def test_what_was_rotated_between_two_runs_is_caught_up_with(log: Path, tmp_path: Path) -> None:
    write(log.with_name("app.log.1"), 900, 910)  # older than the first start: not read
    write(log, 0, 10)
    state = tmp_path / "state"
    one = follower(log, state)
    one.read()
    one.monitor.close()
    write(log, 10, 20)
    log.rename(log.with_name("app.log.3"))
    write(log.with_name("app.log.2"), 20, 30)  # came and went while nobody looked
    packed = log.with_name("app.log.3.gz")
    packed.write_bytes(gzip.compress(log.with_name("app.log.3").read_bytes()))
    log.with_name("app.log.3").unlink()
    write(log, 30, 40)
    two = follower(log, state)
    two.read()
    assert numbers(two) == list(range(40))
    assert two.notes == []


def test_a_file_that_is_copied_and_emptied(log: Path) -> None:
    write(log, 0, 50)
    one = follower(log)
    one.read()
    write(log, 50, 60)
    shutil.copy(log, log.with_name("app.log.1"))
    one.read()  # between the copy and the emptying: the copy is not read twice
    assert numbers(one) == list(range(60))
    write(log, 60, 70)
    shutil.copy(log, log.with_name("app.log.1"))
    os.truncate(log, 0)
    write(log, 70, 75)
    one.read()
    assert numbers(one) == list(range(75))


def test_a_copy_that_is_seen_half_made_is_not_read_twice(log: Path) -> None:
    write(log, 0, 1_000)
    one = follower(log)
    one.read()
    copy = log.with_name("app.log.1")
    for part in (2, 1):
        copy.write_bytes(log.read_bytes()[: log.stat().st_size // part])
        one.read()
    os.truncate(log, 0)
    write(log, 1_000, 1_010)
    one.read()
    assert numbers(one) == list(range(1_010))


def test_a_packed_copy_that_is_seen_empty_is_not_read_twice_and_may_go(log: Path) -> None:
    write(log, 0, 1_000)
    one = follower(log)
    one.read()
    log.rename(log.with_name("app.log.1"))
    write(log, 1_000, 1_010)
    one.read()
    packed = log.with_name("app.log.1.gz")
    packed.touch()
    one.read()
    packed.write_bytes(gzip.compress(log.with_name("app.log.1").read_bytes()))
    log.with_name("app.log.1").unlink()
    one.read()
    assert numbers(one) == list(range(1_010))
    packed.unlink()
    one.read()
    assert one.notes == []


def test_a_file_that_is_emptied_without_a_copy_is_said(log: Path) -> None:
    write(log, 0, 10)
    one = follower(log)
    one.read()
    os.truncate(log, 0)
    write(log, 10, 12)
    one.read()
    assert numbers(one) == list(range(12))
    assert "app.log: removed or truncated after byte" in one.notes[0]
    log.unlink()
    one.read()
    write(log, 12, 14)
    one.read()
    assert numbers(one) == list(range(14))


def rotate(log: Path, kept: int) -> None:
    """As logging's handlers do it: the oldest is removed, the others get the next number."""
    for number in range(kept, 0, -1):
        older = log.with_name(f"app.log.{number}")
        newer = log.with_name(f"app.log.{number - 1}") if number > 1 else log
        older.unlink(missing_ok=True)
        if newer.exists():
            newer.rename(older)


@pytest.mark.slow
def test_a_fast_rotation_loses_nothing_or_says_so(log: Path) -> None:
    def writes() -> None:
        handler = RotatingFileHandler(log, maxBytes=30_000, backupCount=2)
        for i in range(n):
            handler.emit(logging.makeLogRecord({"msg": line(i).rstrip()}))
        handler.close()

    log.touch()
    n, one = 60_000, follower(log)
    writer = Thread(target=writes)
    writer.start()
    while writer.is_alive():
        one.read()
    writer.join()
    one.read()
    found = numbers(one)
    assert len(found) == len({*found})
    assert len(found) == n or "files removed since" in " ".join(one.notes)


def test_the_last_file_that_is_gone_at_the_next_look_is_said(log: Path) -> None:
    write(log, 0, 10)
    one = follower(log)
    one.read()
    write(log, 10, 20)
    rotate(log, 1)
    for first in (20, 30, 40):
        write(log, first, first + 10)
        rotate(log, 1)
    write(log, 50, 60)
    one.read()
    assert numbers(one) == [*range(20), *range(40, 60)]
    (note,) = one.notes
    assert "files removed since" in note


def test_an_inode_that_is_used_again_is_another_file(log: Path) -> None:
    write(log.with_name("app.log.1"), 900, 910)  # older than the first start
    write(log, 0, 10)
    one = follower(log)
    one.read()
    old = log.with_name("app.log.1")
    old.write_text("")  # the same inode, as after it was removed and a new file took it
    write(old, 10, 20)
    log.unlink()
    old.rename(log)
    one.read()
    assert numbers(one) == list(range(20))


def test_a_folder_of_logs(tmp_path: Path) -> None:
    for name, first in (("2026-01.jsonl", 0), ("2026-02.jsonl", 5)):
        write(tmp_path / name, first, first + 5)
    (tmp_path / "README.md").write_text("not a log")
    one = follower(tmp_path)
    one.read()
    assert numbers(one) == list(range(10))
    write(tmp_path / "2026-03.jsonl", 11, 15)
    write(tmp_path / "2026-02.jsonl", 10, 11)
    one.read()
    assert numbers(one) == list(range(15))


def test_lines_that_cannot_be_read_are_counted_and_named(log: Path) -> None:
    write(log, 0, 2)
    with open(log, "a") as file:
        file.write('nonsense\n{"x": 1}\n')
    write(log, 2, 4)
    one = follower(log)
    one.read()
    assert numbers(one) == [0, 1, 2, 3]
    assert one.counts.unreadable == 2
    assert one.counts.first_error.startswith(f"{log}, line 3: invalid JSON")


def test_the_state_of_another_log_is_refused(log: Path, tmp_path: Path) -> None:
    write(log, 0, 2)
    one = follower(log, tmp_path / "state")
    one.read()
    one.monitor.close()
    write(tmp_path / "other.log", 0, 2)
    with pytest.raises(UsageError, match=r"the state belongs to .*app\.log, not"):
        follower(tmp_path / "other.log", tmp_path / "state")


@pytest.mark.slow
def test_after_kill_nothing_is_lost_or_counted_twice(log: Path, tmp_path: Path) -> None:
    """The command is killed again and again while the log grows and is rotated."""
    state = tmp_path / "state"
    command = [sys.executable, "-m", "harness", "monitor", str(log), "--state", str(state)]
    command += ["--port", "0", "--window", "100000"]
    done = 0
    for round_ in range(4):
        write(log, done, done + 500)
        done += 500
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            before = state.stat().st_mtime_ns if state.exists() else 0
            # Until a state is written, while the log grows.
            while not (state.exists() and state.stat().st_mtime_ns > before):
                assert process.poll() is None
                write(log, done, done + 20)
                done += 20
                time.sleep(0.05)
            write(log, done, done + 100)
            done += 100
            process.send_signal(signal.SIGKILL)
            process.wait(timeout=HANGS)
        if round_ % 2:
            log.rename(log.with_name(f"app.log.{9 - round_}"))
            write(log, done, done + 10)
            done += 10
    last = follower(log, state)
    last.read()
    assert numbers(last) == list(range(done))
