"""A command in a process of its own, forked from this one: killed where it is told to be."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.__main__ import main

_MARK = "HARNESS_FAULTS"
_TOUCH = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.utime"}
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


@dataclass(frozen=True)
class Ended:
    """How a command ended: its status, or below 0 the signal; what it printed; what it left."""

    status: int
    out: str
    err: str
    orphans: int

    @property
    def traceback(self) -> bool:
        """Whether it ended as no command may."""
        return "Traceback (most recent call last)" in self.err or self.status not in (0, 1, 2)


def ended(
    words: Sequence[object],
    place: Path,
    first: Callable[[], Any] | None = None,
    stdout: str = "",
    seconds: float = 120.0,
) -> Ended:
    """Run `harness WORDS` in the folder `place`, with a cache folder in it, after `first` was
    called in that process; `stdout` is a file to print to."""
    mark = uuid.uuid4().hex
    pipes = [os.pipe(), os.pipe()]  # a file would be full where a disk is
    child = os.fork()
    if not child:
        _be(words, place, mark, first, stdout, pipes[0][1], pipes[1][1])
    for _, there in pipes:
        os.close(there)
    limit = threading.Timer(seconds, os.kill, (child, signal.SIGALRM))
    limit.start()
    with ThreadPoolExecutor(2) as threads:
        said = [threads.submit(_all_of, here) for here, _ in pipes]
        _, how = os.waitpid(child, 0)
        limit.cancel()
        orphans = _left(mark)  # who would hold the pipes open
        out, err = (one.result() for one in said)
    return Ended(os.waitstatus_to_exitcode(how), out, err, orphans)


def _all_of(pipe: int) -> str:
    with open(pipe, "rb") as file:
        return file.read().decode(errors="replace")


def _be(
    words: Sequence[object],
    place: Path,
    mark: str,
    first: Callable[[], Any] | None,
    stdout: str,
    out: int,
    err: int,
) -> None:
    status = 70
    try:
        os.environ |= {_MARK: mark, "HARNESS_HOME": str(place / "home")}
        os.chdir(place)
        os.dup2(os.open(stdout, os.O_WRONLY) if stdout else out, 1)
        os.dup2(err, 2)
        sys.stdout = io.TextIOWrapper(os.fdopen(1, "wb"), "utf-8", line_buffering=False)
        sys.stderr = io.TextIOWrapper(os.fdopen(2, "wb"), "utf-8", line_buffering=True)
        if first is not None:
            first()
        try:
            status = main([str(word) for word in words])
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
            status = 1
        for stream in (sys.stdout, sys.stderr):
            if stream is not None and not stream.closed:
                stream.flush()
    except BaseException:
        if status == 0:
            status = 120  # as Python ends that cannot flush
    finally:
        os._exit(status)


def _left(mark: str) -> int:
    """Processes that were started by a command and are still there, after a moment."""
    sought = f"{_MARK}={mark}".encode()
    end = time.monotonic() + 60
    while (found := [pid for pid in _all() if sought in _environment(pid)]) and (
        time.monotonic() < end
    ):
        time.sleep(0.05)
    for pid in found:
        os.kill(pid, signal.SIGKILL)
    return len(found)


def _all() -> list[str]:
    return [name for name in os.listdir("/proc") if name.isdigit()]


def _environment(pid: Any) -> bytes:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return file.read()
    except OSError:
        return b""


# -- Where it is killed ----------------------------------------------------------------------------


def counted(place: Path, at: int, told: Path | None = None) -> Callable[[], None]:
    """Kills the process at the `at`-th time that it makes, renames or removes a file below
    `place`; at 0 never, and how often it did so is written to `told`."""

    def first() -> None:
        seen, root = 0, str(place)

        def hook(event: str, given: tuple[Any, ...]) -> None:
            nonlocal seen
            writes = event == "open" and isinstance(given[2], int) and given[2] & _WRITES
            if (writes or event in _TOUCH) and root in os.path.abspath(str(given[0])):
                seen += 1
                if seen == at:
                    os.kill(os.getpid(), signal.SIGKILL)
                if told is not None and str(told) != str(given[0]):
                    with open(told, "w") as file:
                        file.write(str(seen))

        sys.addaudithook(hook)

    return first


def timed(seconds: float) -> Callable[[], None]:
    """Kills the process after so many seconds."""

    def first() -> None:
        threading.Timer(seconds, os.kill, (os.getpid(), signal.SIGKILL)).start()

    return first
