"""Waiting for another process: told after a while, and nobody's time."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

from harness.retrievers.timing import waiting

_log = logging.getLogger(__name__)

_mine: set[Path] = set()
"""What this process holds."""


@contextmanager
def locked(path: Path, note: Callable[[], str], silent: float = 5.0) -> Iterator[None]:
    """Hold the lock of a file; `note` is told after `silent` seconds of waiting for it."""
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    # What a call that was left behind holds is no other's, and is not waited for for ever.
    with nullcontext() if path in _mine else waiting():
        try:
            lock.acquire(timeout=silent)
        except Timeout:
            _log.warning(f"note: {note()}")
            lock.acquire()
    _mine.add(path)
    try:
        yield
    finally:
        _mine.discard(path)
        lock.release()


@contextmanager
def in_turn(path: Path, what: str) -> Iterator[None]:
    """Hold the lock of a file that several want again and again, each in turn.

    Who wants it waits at a gate, and keeps that closed until it has the lock: so who has just let
    the lock go comes after. While it waits, it is told for which process and `what` that does.
    """
    holder = path.with_suffix(".by")

    def note() -> str:
        try:
            process = f"process {int(holder.read_text())}"
        except (OSError, ValueError):
            process = "another process"
        return f"waiting for {process}, which {what}"

    with ExitStack() as mine:
        with locked(path.with_suffix(".gate"), note):
            mine.enter_context(locked(path, note))
        holder.write_text(str(os.getpid()))
        yield
