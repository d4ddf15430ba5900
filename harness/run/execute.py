"""Where units are run: in this process or in several. The runner knows only `Executor`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from harness.run.worker import Outcome, Unit, Worker


class Executor(Protocol):
    """Runs units and yields their outcomes, in any order. A cluster's engine can stand here."""

    def map(self, worker: Worker, units: Iterable[Unit]) -> Iterator[Outcome]:
        """Every unit's outcome, as soon as it is there."""
        ...


class InProcess:
    """One unit after the other, here."""

    def map(self, worker: Worker, units: Iterable[Unit]) -> Iterator[Outcome]:
        """Outcomes in the order of the units."""
        return (worker(unit) for unit in units)


class Processes:
    """Several processes of this machine, each with a retriever of its own."""

    def __init__(self, n: int) -> None:
        self._n = n

    def map(self, worker: Worker, units: Iterable[Unit]) -> Iterator[Outcome]:
        """Outcomes as they come. The first exception of a worker ends them all."""
        import multiprocessing

        # spawn: a retriever may hold threads or a GPU, which a fork would break.
        context = multiprocessing.get_context("spawn")
        with context.Pool(self._n, initializer=_hold, initargs=(worker,)) as pool:
            yield from pool.imap_unordered(_work, units)


_held: Worker | None = None


def _hold(worker: Worker) -> None:
    """Keep this process's worker, and leave Ctrl-C to the parent."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    global _held
    _held = worker


def _work(unit: Unit) -> Outcome:
    assert _held is not None
    return _held(unit)
