"""Executors: run the work items of a run in this process, in several, or where a package says.

A package brings one as an entry point of the group `harness.executors`: a function that takes a
`Workload` and returns a context manager, which gives the `Execution` of that workload.
"""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib.metadata import entry_points
from itertools import groupby
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Protocol

from harness.dataset.reader import Dataset
from harness.dataset.remote_store import DatasetLocation
from harness.errors import HarnessError, PluginError, ResponseMismatchError, RunError, UsageError
from harness.records.run import ClusterRecord
from harness.retrievers.contract import Retriever
from harness.retrievers.plugins import FAILURES, raised_at
from harness.retrievers.registry import RetrieverSpec
from harness.runs.processes import end_with_parent, exit_if_forked
from harness.runs.results import WorkItem, WorkResult
from harness.runs.settings import EXECUTORS, PROCESSES, Settings
from harness.runs.worker import Worker

_MISPLACED = (
    "a reply came after the last one that was asked for: it may be the answer to a worker's last "
    "question, and what was taken for it another's; print what is no reply on stderr, and repeat "
    "each message's number in its reply"
)
_AHEAD = 2
"""Items that a process has been handed: one to work at, one to go on with at once."""


class WorkerDiedError(RunError):
    """Raised when a worker process dies before it has finished its work."""


class Executor(Protocol):
    """Runs work items and yields their results, in any order."""

    def map(self, worker: Worker, items: Iterable[WorkItem]) -> Iterator[WorkResult]:
        """Yield the results of every item as soon as they are there."""
        ...


@dataclass(frozen=True)
class Workload:
    """What is to be executed: `items` over `dataset`, by retrievers that are built from `builds`.

    `built` is the retriever of this process; `batch_size` the number of queries that a retriever is
    asked at once.
    """

    dataset: Dataset
    settings: Settings
    builds: RetrieverSpec | Retriever
    built: Retriever
    batch_size: int
    items: Sequence[WorkItem]


@dataclass(frozen=True)
class Execution:
    """How a workload is executed.

    `retriever` is what workers take (a spec: each builds its own), `location` where they read the
    dataset. `batch_size`: how many queries the retriever is asked at once, whatever was chosen.
    """

    executor: Executor
    retriever: RetrieverSpec | Retriever
    location: DatasetLocation
    workers: int = 1
    cluster: ClusterRecord | None = None
    batch_size: int | None = None


ExecutorFactory = Callable[[Workload], AbstractContextManager[Execution]]


def execution_of(workload: Workload) -> AbstractContextManager[Execution]:
    """Return the execution of a workload by the executor that its settings name."""
    return find_executor(workload.settings.backend)(workload)


def find_executor(name: str) -> ExecutorFactory:
    """Return the executor of this name, which is known to be one (see Settings). Raises PluginError
    for a package that fails to import."""
    if name == PROCESSES:
        return local_processes
    (entry, *_) = entry_points(group=EXECUTORS, name=name)
    try:
        found: ExecutorFactory = entry.load()
    except FAILURES as error:
        raise PluginError(f"executor {name!r} ({entry.value}): {raised_at(error)}") from error
    return found


@contextmanager
def local_processes(workload: Workload) -> Iterator[Execution]:
    """Execute a workload in this process, or in as many as the settings say."""
    settings, location = workload.settings, DatasetLocation.of(workload.dataset)
    n = settings.workers or 1
    # In this process the retriever that was built already serves; others build their own, and so
    # does a thread in which all its calls are made.
    builds_own = n > 1 or settings.limits.in_time
    retriever = workload.builds if builds_own else workload.built
    yield Execution(Processes(n) if n > 1 else InProcess(), retriever, location, n)


class InProcess:
    """Runs one item after the other in this process."""

    def map(self, worker: Worker, items: Iterable[WorkItem]) -> Iterator[WorkResult]:
        """Yields results in the order of the items; at Ctrl-C, those of a part of an item too."""
        try:
            for item in items:
                yield from worker(item)
        except KeyboardInterrupt:
            if worker.begun is not None and worker.begun.queries:
                worker.begun.complete = False
                yield worker.begun
            raise
        finally:
            worker.close()


class Processes:
    """Several processes of this machine, each with a retriever of its own."""

    def __init__(self, n: int) -> None:
        self._n = n

    def map(self, worker: Worker, items: Iterable[WorkItem]) -> Iterator[WorkResult]:
        """Yields results as they come. The first exception of a worker ends them all.

        Raises UsageError for a retriever that cannot be sent to another process, WorkerDiedError
        when a process dies (for which multiprocessing's own pools would wait for ever).
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
                            # It closes its retriever, which another may be waiting for.
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
    """Units that one process is to run, one after the other: those of a chain, else one alone."""
    for chain, some in groupby(items, key=lambda item: item.chain):
        if chain is None:
            yield from ([item] for item in some)
        else:
            yield list(some)


def _start(process: BaseProcess) -> None:
    try:
        process.start()
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise UsageError(
            f"the retriever cannot be sent to other processes ({error}); name it as file.py:Class, "
            "or take one worker"
        ) from None


def _death(crew: list[BaseProcess]) -> str:
    """What is known of a process that went away."""
    for process in crew:
        process.join(1)
        if process.exitcode is not None:
            break
    status = next((p.exitcode for p in crew if p.exitcode is not None), None)
    how = f"was killed by signal {-status}" if status and status < 0 else f"ended, status {status}"
    return f"a worker process {how}, in the midst of its work (fewer --workers need less memory)"


def _serve(worker: Worker, channel: Connection) -> None:
    """Run items until the channel is closed."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's
    end_with_parent()
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
                worker.tell = channel.send
                for result in worker(item):
                    exit_if_forked(own)
                    channel.send(result)
            except HarnessError as error:
                channel.send(error)
        except ConnectionError:
            return
