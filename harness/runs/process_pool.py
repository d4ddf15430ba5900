"""Runs work items in several processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from harness.errors import HarnessError, ResponseMismatchError, UsageError, WorkerDiedError
from harness.io.plugins import exit_if_forked
from harness.runs.results import WorkItem, WorkResult
from harness.runs.worker import Worker

_MISPLACED = (
    "a reply came after the last one that was asked for: it may be the answer to a worker's last "
    "question, and what was taken for it another's; print what is no reply on stderr, and repeat "
    "each message's number in its reply"
)
_AHEAD = 2
"""Items that a process holds: the current one, and the next to start without delay."""


class ProcessPool:
    """Runs items in several processes of this machine, each with its own retriever."""

    def __init__(self, n: int) -> None:
        self._n = n

    def map(self, worker: Worker, items: Iterable[WorkItem]) -> Iterator[WorkResult]:
        """Yields results as they complete. The first exception of a worker ends all workers.

        Raises UsageError for a retriever that cannot be sent to another process, WorkerDiedError if
        a process dies (multiprocessing's own pools would hang).
        """
        from multiprocessing import get_context
        from multiprocessing.connection import wait

        # spawn: a retriever may hold threads or a GPU, which a fork would break.
        context = get_context("spawn")
        todo = chains(items)
        crew: dict[Connection, BaseProcess] = {}
        handed: dict[Connection, int] = {}
        begun: dict[Connection, list[WorkItem]] = {}

        def hand(channel: Connection) -> None:
            rest = begun.get(channel) or next(todo, [])
            item = rest.pop(0) if rest else None
            begun[channel] = rest
            if item is not None:
                channel.send(item)
                handed[channel] = handed.get(channel, 0) + 1

        try:
            for _ in range(self._n):
                here, there = context.Pipe()
                process: BaseProcess = context.Process(
                    target=_serve, args=(worker, there), daemon=True
                )
                _start(process)
                there.close()  # so that the pipe ends with the process
                crew[here] = process
            try:
                for channel in [*crew] * _AHEAD:
                    hand(channel)
                while handed:
                    ready = wait([*handed])
                    for channel in [c for c in handed if c in ready]:
                        answer = channel.recv()
                        if isinstance(answer, HarnessError):
                            raise answer
                        if not answer.complete:
                            yield answer
                            continue
                        handed[channel] -= 1
                        hand(channel)
                        if not handed[channel]:
                            # It now closes its retriever, which another process may wait for.
                            del handed[channel]
                            channel.close()
                        yield answer
            except (EOFError, ConnectionError):
                raise WorkerDiedError(_death([crew[channel] for channel in handed])) from None
            for channel, process in crew.items():
                channel.close()
                process.join()
                if process.exitcode == ResponseMismatchError.left_with:
                    raise ResponseMismatchError(_MISPLACED)
        finally:
            for process in crew.values():
                process.terminate()


def chains(items: Iterable[WorkItem]) -> Iterator[list[WorkItem]]:
    """Yields lists of items that one process runs in order: those of a chain, or a single item."""
    for chain, some in groupby(items, key=lambda item: item.chain):
        if chain is None:
            yield from ([item] for item in some)
        else:
            yield list(some)


def _start(process: BaseProcess) -> None:
    try:
        with _interrupts_later():
            process.start()
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UsageError(
            f"the retriever cannot be sent to other processes ({error}); name it as file.py:Class, "
            "or take one worker"
        ) from None


@contextmanager
def _interrupts_later() -> Iterator[None]:
    """Delays Ctrl-C, so that processes started meanwhile ignore it before they could get it."""
    late: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, lambda *_: late.append(1)) if is_main else None
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        if is_main:
            signal.signal(signal.SIGINT, before or signal.SIG_DFL)
    if late:
        raise KeyboardInterrupt


def _death(crew: list[BaseProcess]) -> str:
    """Describes how a worker process ended."""
    for process in crew:
        process.join(1)
        if process.exitcode is not None:
            break
    status = next((p.exitcode for p in crew if p.exitcode is not None), None)
    how = f"was killed by signal {-status}" if status and status < 0 else f"ended, status {status}"
    return f"a worker process {how}, in the midst of its work (fewer --workers need less memory)"


def _serve(worker: Worker, channel: Connection) -> None:
    """Runs items until the channel is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    _end_with_parent()
    own = os.getpid()
    while True:
        try:
            item = channel.recv()
        except (EOFError, ConnectionError):  # all done, or the parent died
            try:
                worker.close()
            except ResponseMismatchError:
                sys.exit(ResponseMismatchError.left_with)
            return
        try:
            try:
                worker.on_progress = channel.send
                for result in worker(item):
                    exit_if_forked(own)
                    channel.send(result)
            except HarnessError as error:
                if (part := worker.interrupted()) is not None:
                    channel.send(part)
                channel.send(error)
        except ConnectionError:
            return


def _end_with_parent() -> None:
    """Ends this process as soon as its parent has ended, also if that was killed: otherwise it
    could run for hours."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def wait() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=wait, daemon=True).start()
