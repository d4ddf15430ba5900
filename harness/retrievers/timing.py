"""Measures call latency, excluding time spent waiting for locks or rate limits.

A clock measures a call. Code called within it reports its waits for rate limits and for shared
resources that another process is using.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sized
from concurrent.futures import Future
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import Any, TypeVar

T = TypeVar("T")
Many = TypeVar("Many", bound=Sized)


class Clock:
    """Measures one call, from construction to `stop`."""

    # Slots, since every question has a clock.
    __slots__ = (
        "_began",
        "_branches",
        "_ended",
        "_since",
        "_told",
        "_waited",
        "_waits",
        "given_up",
        "pending",
    )

    def __init__(self, told: Callable[[int], None] | None = None) -> None:
        """`told` is called with the number of newly ingested documents; it may raise."""
        self._told = told
        self._began = perf_counter()
        self._ended: float | None = None
        self._waited = 0.0
        self._since: float | None = None
        self._waits = 0  # under way, of concurrent tasks
        self._branches: dict[int, Clock] | None = None
        self.given_up = False  # the call exceeded its time limit and was abandoned
        # The awaited future, which can be cancelled when the call is abandoned.
        self.pending: Future[Any] | None = None

    @property
    def seconds(self) -> float:
        """Seconds until now, or until it was stopped, excluding waits."""
        end = perf_counter() if self._ended is None else self._ended
        return max(0.0, end - self._began - self.waited)

    @property
    def waited(self) -> float:
        """Seconds waited; of parallel threads, only the longest wait counts."""
        since, branches = self._since, self._branches
        if since is None and branches is None:
            return self._waited
        now = 0.0 if since is None else perf_counter() - since
        beside = max((branch.waited for branch in [*(branches or {}).values()]), default=0.0)
        return self._waited + now + beside

    def taken_in(self, documents: int) -> None:
        """Reports the number of newly ingested documents."""
        if self._told is not None:
            self._told(documents)

    def exclude(self, seconds: float) -> None:
        """Excludes elapsed seconds from the measured time."""
        self._waited += seconds

    def stop(self) -> Clock:
        """Stops the clock."""
        self._ended = perf_counter()
        return self

    @contextmanager
    def wait(self) -> Iterator[None]:
        """Counts the block as waiting; each second of overlapping blocks counts once."""
        self._since = self._since or perf_counter()
        self._waits += 1
        try:
            yield
        finally:
            self._waits -= 1
            if not self._waits:
                self._waited += perf_counter() - self._since
                self._since = None

    @contextmanager
    def in_parallel(self) -> Iterator[None]:
        """Measures the block as work of one of several parallel threads."""
        with timed(self._branch()):
            yield

    def _branch(self) -> Clock:
        with _branching:
            if self._branches is None:
                self._branches = {}
            return self._branches.setdefault(threading.get_ident(), Clock())

    def join(self) -> None:
        """Ends the parallel work and adds its longest wait."""
        branches, self._branches = self._branches or {}, None
        self._waited += max((branch.waited for branch in branches.values()), default=0.0)


_current: ContextVar[Clock | None] = ContextVar("clock", default=None)

_branching = threading.Lock()


class timed:  # noqa: N801 - a context manager; as a generator it would take twice the time
    """Makes `clock` the current one, to which code called within reports its waits."""

    __slots__ = ("_clock", "_token")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def __enter__(self) -> Clock:
        self._token = _current.set(self._clock)
        return self._clock

    def __exit__(self, *_: object) -> None:
        _current.reset(self._token)


def current() -> Clock:
    """Returns the current clock, or an unused one if there is none."""
    return _current.get() or Clock()


def is_measured() -> bool:
    """Tests whether a clock measures the calling code, as in a run."""
    return _current.get() is not None


@contextmanager
def waiting() -> Iterator[None]:
    """Excludes the time of the block from the measured time."""
    with current().wait():
        yield


def counting_iterator(documents: Iterable[T]) -> Iterator[T]:
    """Yields the documents; each counts as ingested when the next is requested."""
    clock = current()
    for document in documents:
        yield document
        clock.taken_in(1)


class Sessions(list[Many]):
    """Lists of documents; each list counts as ingested when the next is requested."""

    def __iter__(self) -> Iterator[Many]:
        clock = current()
        for documents in super().__iter__():
            yield documents
            clock.taken_in(len(documents))
