"""Guards between processes: forks of code under test, and workers whose parent was killed."""

from __future__ import annotations

import multiprocessing
import os
import threading

from harness.errors import RunError


class WorkerDiedError(RunError):
    """Raised when a worker process dies before it has finished its work."""


def exit_if_forked(own: int) -> None:
    """End this process if it is not `own`: code under test forked, and the child goes on too."""
    if os.getpid() != own:
        os._exit(1)


def end_with_parent() -> None:
    """From now on, end this process when the one that started it is gone, however it went: who
    works for a process that was killed would work on for hours."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
