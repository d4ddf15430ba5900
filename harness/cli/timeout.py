"""A run that is ended when its time is up: `--timeout 30m`, `timeout = "30m"` in a list.

Only a process can be ended whatever it is doing: a thread that hangs in C, or at a socket that says
nothing, cannot. So a run with a timeout is made in a process of its own, which leads a group of
processes, and the group is killed. So is one on a cluster: when its head goes away, Ray ends the
process without a word.
"""

from __future__ import annotations

import os
import pickle
import re
import signal
import threading
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from harness.errors import HarnessError, RunError, TimedOutError, UsageError

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from multiprocessing.process import BaseProcess

T = TypeVar("T")

SECONDS_TO_CLOSE = 5.0
"""Seconds that a run has to close its resources after a timeout, before it is killed."""

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}
_MOST = 20 * 24 * 3600  # poll counts milliseconds in 32 bits
_TEXT = re.compile(r"(\d+(?:\.\d+)?)\s*([smh]?)")


def seconds(text: str, option: str = "timeout") -> float:
    """Converts `90`, `90s`, `30m` or `1.5h` to seconds. Raises UsageError for anything else."""
    found = _TEXT.fullmatch(text.strip())
    value = float(found[1]) * _UNITS[found[2]] if found else 0.0
    if not 0 < value <= _MOST:
        raise UsageError(
            f"{option} {text!r}: give seconds, or as 90s, 30m, 1.5h; above 0, at most 480h"
        )
    return value


def run_in_process(limit: float | None, work: Callable[..., T], *given: Any) -> T:
    """Returns the result of `work` in another process, within `limit` seconds if there is a limit.

    Raises TimedOutError if it takes longer, any error of `work`, and RunError if the process ends
    early. Then, and on Ctrl-C, the process gets SIGINT, and after SECONDS_TO_CLOSE it and its group
    are killed.
    """
    from multiprocessing import get_context

    context = get_context("spawn")  # a fork would copy threads and locks of this one
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(there, work, given))
    process.start()
    there.close()  # so that the pipe ends with the process
    try:
        if not here.poll(limit):
            raise TimedOutError(
                f"timed out after {limit:g} s; finished queries are saved: the same command with "
                "--resume continues"
            )
        answer, error = here.recv()
        process.join(SECONDS_TO_CLOSE)
    except (EOFError, ConnectionError):
        process.join()
        code = process.exitcode or 0
        how = f"was killed by signal {-code}" if code < 0 else f"ended, status {code}"
        raise RunError(
            f"the process of the run {how}; finished queries are saved: continue with --resume"
        ) from None
    finally:
        _end(process)
        here.close()
    if error is not None:
        raise error
    result: T = answer
    return result


def _end(process: BaseProcess) -> None:
    """Stops a running process, and kills what is left of its group."""
    if process.is_alive() and process.pid is not None:
        try:
            if os.name == "posix":
                os.kill(process.pid, signal.SIGINT)
                process.join(SECONDS_TO_CLOSE)
        finally:  # a second Ctrl-C does not wait
            if os.name == "posix":
                with suppress(ProcessLookupError):  # it leads no group yet: it has no children
                    os.killpg(process.pid, signal.SIGKILL)
            process.kill()
    process.join()


def _work(channel: Connection, work: Callable[..., Any], given: tuple[Any, ...]) -> None:
    """Does the work in this process, and sends its result or error."""
    if os.name == "posix":
        os.setsid()  # the parent handles Ctrl-C, and can kill the whole group
        threading.Thread(target=_end_with_parent, daemon=True).start()
    answer: Any = None
    error: BaseException | None = None
    try:
        answer = work(*given)
    except KeyboardInterrupt:
        return
    except Exception as raised:
        error = _sendable(raised)
    channel.send((answer, error))


def _sendable(error: Exception) -> Exception:
    """Returns an error that another process can raise, with the trace of an unexpected one."""
    if not isinstance(error, HarnessError):
        error.add_note(traceback.format_exc())
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # its class is unknown to the other process
        return RunError(f"{type(error).__name__}: {error}")
    return error


def _end_with_parent() -> None:
    """Kills this group as soon as the parent has ended."""
    from multiprocessing import parent_process
    from multiprocessing.connection import wait

    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.killpg(0, signal.SIGKILL)
