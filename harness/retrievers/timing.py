"""Measures call latency, excluding time spent waiting for locks or rate limits.

A call is measured by a clock. Code called within it reports waits: for another process that uses a
shared resource, or for a rate limit.
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
    """Measures one call, from now until it is stopped."""

    # Every question has one.
    __slots__ = (
        "_began",
        "_branches",
        "_ended",
        "_since",
        "_told",
        "_waited",
        "given_up",
        "pending",
    )

    def __init__(self, told: Callable[[int], None] | None = None) -> None:
        """`told` is called with how many more documents were taken in; it may raise."""
        self._told = told
        self._began = perf_counter()
        self._ended: float | None = None
        self._waited = 0.0
        self._since: float | None = None
        self._branches: dict[int, Clock] | None = None
        self.given_up = False  # the call took too long, and was left to itself
        # What the call awaits, for who does not want to wait for it any longer.
        self.pending: Future[Any] | None = None

    @property
    def seconds(self) -> float:
        """So far, or until it was stopped, without what was waited."""
        end = perf_counter() if self._ended is None else self._ended
        return max(0.0, end - self._began - self.waited)

    @property
    def waited(self) -> float:
        """Seconds; of threads that work at the same time those of the one that waited longest."""
        since, branches = self._since, self._branches
        if since is None and branches is None:
            return self._waited
        now = 0.0 if since is None else perf_counter() - since
        beside = max((branch.waited for branch in [*(branches or {}).values()]), default=0.0)
        return self._waited + now + beside

    def taken_in(self, documents: int) -> None:
        """So many more documents are taken in."""
        if self._told is not None:
            self._told(documents)

    def exclude(self, seconds: float) -> None:
        """Excludes seconds that have passed from the measured time."""
        self._waited += seconds

    def stop(self) -> Clock:
        """The call is over."""
        self._ended = perf_counter()
        return self

    @contextmanager
    def wait(self) -> Iterator[None]:
        """What is done within is waiting. It does not nest."""
        self._since = began = perf_counter()
        try:
            yield
        finally:
            self._since = None
            self._waited += perf_counter() - began

    @contextmanager
    def in_parallel(self) -> Iterator[None]:
        """What this thread does within is done in others at the same time."""
        with timed(self._branch()):
            yield

    def _branch(self) -> Clock:
        with _branching:
            if self._branches is None:
                self._branches = {}
            return self._branches.setdefault(threading.get_ident(), Clock())

    def join(self) -> None:
        """What was done in parallel is done."""
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
    """The clock that measures this; where none does, one that nobody looks at."""
    return _current.get() or Clock()


def is_measured() -> bool:
    """Whether a clock measures this, as in a run."""
    return _current.get() is not None


@contextmanager
def waiting() -> Iterator[None]:
    """Excludes the time of the block from the measured time."""
    with current().wait():
        yield


def counting_iterator(documents: Iterable[T]) -> Iterator[T]:
    """Yields the documents; each counts as ingested when the next is asked for."""
    clock = current()
    for document in documents:
        yield document
        clock.taken_in(1)


class Sessions(list[Many]):
    """Lists of documents; each list is taken in when the next is asked for."""

    def __iter__(self) -> Iterator[Many]:
        clock = current()
        for documents in super().__iter__():
            yield documents
            clock.taken_in(len(documents))
