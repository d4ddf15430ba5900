"""Executors of the work items of a run: this process, several, or the backend of a package.

A package adds an executor as an entry point of the group `harness.executors`: a function from a
`RunRequest` to a context manager that yields its `Execution`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from harness.datasets.reader import Dataset
from harness.errors import HarnessError
from harness.io import plugins
from harness.records.run import ClusterRecord
from harness.retrievers.contract import Retriever
from harness.retrievers.registry import RetrieverSpec
from harness.runs.request import RunRequest
from harness.runs.results import WorkItem, WorkResult
from harness.runs.settings import EXECUTORS, PROCESSES
from harness.runs.worker import Location, Worker


class Executor(Protocol):
    """Runs work items and yields their results, in any order."""

    def map(self, worker: Worker, items: Iterable[WorkItem]) -> Iterator[WorkResult]:
        """Yields the results of every item as soon as they are available."""
        ...


@dataclass(frozen=True)
class Execution:
    """How the work items of a run are executed.

    `retriever` is passed to the workers (each builds its own from a spec), `location` is where they
    read the dataset. `batch_size` overrides the number of queries per search call.
    """

    executor: Executor
    retriever: RetrieverSpec | Retriever
    location: Location
    workers: int = 1
    cluster: ClusterRecord | None = None
    batch_size: int | None = None


@dataclass(frozen=True)
class OpenedDataset:
    """Location of a dataset that this process has already opened."""

    dataset: Dataset

    def open(self) -> Dataset:
        """Returns the dataset."""
        return self.dataset


ExecutorFactory = Callable[[RunRequest], AbstractContextManager[Execution]]


def execution_of(request: RunRequest) -> AbstractContextManager[Execution]:
    """Returns the execution of a run by the executor that its settings name.

    Raises PluginError for a package that fails to import.
    """
    backend = request.settings.backend
    if backend == PROCESSES:
        return local_processes(request)
    entry = plugins.find(EXECUTORS, backend)
    assert entry is not None, "settings refuse other names"
    executor: ExecutorFactory = plugins.load(entry, "executor")
    return executor(request)


@contextmanager
def local_processes(request: RunRequest) -> Iterator[Execution]:
    """Executes a run in this process, or in several if `workers` is above 1."""
    settings, n = request.settings, request.settings.workers or 1
    # This process uses the retriever that is already built. Other processes build their own, and
    # so does a thread for calls with time limits.
    builds_own = n > 1 or settings.limits.in_time
    retriever = request.builds if builds_own else request.built
    if n == 1:
        yield Execution(InProcess(), retriever, OpenedDataset(request.dataset))
        return
    from harness.datasets.remote_store import DatasetLocation
    from harness.runs.process_pool import ProcessPool

    yield Execution(ProcessPool(n), retriever, DatasetLocation.of(request.dataset), n)


class InProcess:
    """Runs one item after the other in this process."""

    def map(self, worker: Worker, items: Iterable[WorkItem]) -> Iterator[WorkResult]:
        """Yields results in the order of the items; after Ctrl-C or an error, a partial one too."""
        try:
            for item in items:
                yield from worker(item)
        except (KeyboardInterrupt, HarnessError):
            if (part := worker.interrupted()) is not None:
                yield part
            raise
        finally:
            worker.close()
