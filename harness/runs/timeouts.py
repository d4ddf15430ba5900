"""Timeouts of calls to retrievers, made in a thread that can be abandoned.

A hanging thread cannot be ended. So a retriever with time limits has a separate thread that builds
it and makes all its calls. A call that takes too long is a failure, and no other call is made until
it has returned. A call that never returns is abandoned with its retriever.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextvars import copy_context
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from harness.errors import CallTimeoutError
from harness.retrievers.timing import current

T = TypeVar("T")
P = TypeVar("P")

_SECONDS_TO_CANCEL = 1.0
"""Seconds that a cancelled call has to end."""


class CallThread:
    """Makes calls in a separate thread, one after the other."""

    def __init__(self) -> None:
        self._last: Future[Any] | None = None
        self._given_up: Future[Any] | None = None
        self._late = 0.0
        work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._work = work
        threading.Thread(target=_serve, args=(work,), name="harness-calls", daemon=True).start()
        weakref.finalize(self, work.put, None)

    @property
    def stuck(self) -> bool:
        """Whether the last call has not returned."""
        return self._last is not None and not self._last.done()

    def wait(self) -> None:
        """Waits for a late call, once, for as long as its time limit."""
        if self._last is not None and self.stuck and self._last is not self._given_up:
            self._given_up = self._last
            with current().wait():
                wait([self._last], self._late)

    def __call__(self, work: Callable[[], T], limit: float | None = None) -> T:
        """Returns the result of `work`. Raises CallTimeoutError after `limit` seconds of the clock.

        First waits for the previous call if that is late. Raises CallTimeoutError if it still has
        not returned.
        """
        clock = current()
        self.wait()
        if self.stuck:
            raise CallTimeoutError("an earlier call timed out and is still running")
        context, coming = copy_context(), Future[T]()
        self._last = coming
        self._work.put(partial(context.run, _fulfil, coming, work))
        if limit is None:
            return coming.result()
        until = clock.seconds + limit
        while not coming.done() and (left := until - clock.seconds) > 0:
            wait([coming], left)  # again if part of it was waiting time, which does not count
        if coming.done():
            return coming.result()
        self._late, clock.given_up = limit, True
        if clock.pending is not None:
            clock.pending.cancel()
            wait([coming], _SECONDS_TO_CANCEL)
        raise CallTimeoutError(f"it took longer than {limit:g} s")


def _fulfil(coming: Future[T], work: Callable[[], T]) -> None:
    try:
        coming.set_result(work())
    except BaseException as error:
        coming.set_exception(error)


def side_by_side(work: Callable[[P], T], parts: Sequence[P], n: int) -> Iterator[T]:
    """Yields the results of `work` for each part as they complete; raises what it raises.

    The next part starts when the consumer requests another result: a consumer that stops, at a
    spending limit or Ctrl-C, leaves at most n calls under way.
    """
    todo: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
    done: SimpleQueue[Future[T]] = SimpleQueue()

    def put(part: P) -> None:
        future = Future[T]()
        future.add_done_callback(done.put)
        todo.put(partial(_fulfil, future, partial(work, part)))

    for part in parts[:n]:
        put(part)
        threading.Thread(target=_serve, args=(todo,), name="harness-calls", daemon=True).start()
    try:
        for started in range(n, len(parts) + n):
            yield done.get().result()
            if started < len(parts):
                put(parts[started])
    finally:
        for _ in range(n):
            todo.put(None)


def _serve(todo: SimpleQueue[Callable[[], None] | None]) -> None:
    while (work := todo.get()) is not None:
        work()
