"""Calls again after failures, and waits out rate limits; waits are excluded from latencies."""

from __future__ import annotations

import asyncio
import inspect
import logging
import random
from collections.abc import Callable
from functools import partial, wraps
from time import monotonic, sleep
from typing import Any, TypeVar, overload

from harness.retrievers import timing

_log = logging.getLogger(__name__)

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])

LONGEST_WAIT = 900.0
"""Maximum seconds of consecutive waits for a rate limit."""

_FIRST, _LONGEST = 0.5, 60.0
"""Seconds of the first pause, and of the longest; pauses double unless Retry-After is given."""

_NOTED = 5.0
"""Longer pauses, in seconds, are logged."""

_TEMPORARY = frozenset({408, 425, 500, 502, 503, 504, 529})
"""Statuses of failures that `is_temporary` repeats."""

_LOST = frozenset(
    {"TransportError", "ProtocolError", "TimeoutError", "NewConnectionError", "MaxRetryError"}
    | {"ClientConnectionError"}
)
"""Classes of lost connections in httpx, urllib3 and aiohttp that are no OSError."""


def retry(
    attempt: Callable[[], T], retries: int, may_repeat: Callable[[Exception], bool] = lambda _: True
) -> T:
    """Calls `attempt`, and again after a failure, at most `retries` times.

    Rate limits are not failures: they are waited out, for at most LONGEST_WAIT seconds.
    Waits and pauses are excluded from the measured time, failed attempts are not. Raises the last
    error.
    """
    pauses = _Pauses(retries, may_repeat)
    while True:
        before = pauses.measured.seconds
        try:
            return attempt()
        except Exception as error:
            pause = pauses.after(error)
            if pauses.refused:
                pauses.measured.exclude(pauses.measured.seconds - before)
        with timing.waiting():
            sleep(pause)


class _Pauses:
    """Decides whether a call is repeated, and after how long."""

    def __init__(self, retries: int, may_repeat: Callable[[Exception], bool]) -> None:
        self._retries, self._may_repeat = retries, may_repeat
        self._failed, self._since = 0, 0.0
        self.refused = 0  # consecutive rate limits
        self.measured = timing.current()

    def after(self, error: Exception) -> float:
        """Returns the seconds to wait before the next attempt. Raises `error` if there is none.

        Half of a pause that no service requested is random: clients must not return together.
        """
        from harness.retrievers.rate_limit import rate_limit

        if self.measured.given_up:  # the caller has stopped waiting
            raise error
        asked = rate_limit(error)
        if asked is None:
            if self._failed == self._retries or not self._may_repeat(error):
                raise error
            pause = _pause(self._failed)
            self._failed, self.refused = self._failed + 1, 0
            return pause
        self._since = self._since if self.refused else monotonic()
        pause = asked or _pause(self.refused)
        self.refused += 1
        if monotonic() - self._since + pause > LONGEST_WAIT:
            raise error
        if pause > _NOTED:
            _log.warning(f"note: refused for its rate; waiting {pause:.0f} s")
        return pause


def _pause(earlier: int) -> float:
    return min(_LONGEST, _FIRST * 2.0**earlier) * random.uniform(0.5, 1)


def is_temporary(error: Exception) -> bool:
    """Tests whether a failure may be temporary: a lost connection, a timeout, or a status of 500,
    502, 503, 504, 529, 408 or 425."""
    from harness.retrievers.rate_limit import causes, statuses

    for one in causes(error):
        found = [s for s in statuses(one, getattr(one, "response", None)) if isinstance(s, int)]
        if found:
            return not _TEMPORARY.isdisjoint(found)
    return any(
        isinstance(one, OSError) or not _LOST.isdisjoint(c.__name__ for c in type(one).__mro__)
        for one in causes(error)
    )


@overload
def with_retries(function: F) -> F: ...
@overload
def with_retries(
    *, retries: int = 5, may_repeat: Callable[[Exception], bool] = is_temporary
) -> Callable[[F], F]: ...
def with_retries(
    function: Any = None,
    *,
    retries: int = 5,
    may_repeat: Callable[[Exception], bool] = is_temporary,
) -> Any:
    """Decorates a function, plain or asynchronous, that calls a service and raises its errors.

    Errors with status 429 are waited out: for the time in Retry-After, else 0.5, 1, 2 ... up to 60
    seconds (half of it random), at most 15 minutes in a row. Other errors that `may_repeat` accepts
    are repeated `retries` times. Waits are not part of the measured time. A call whose reply was
    lost may have been processed: give such a function `retries=0`, or make it idempotent.
    """
    if function is None:
        return partial(with_retries, retries=retries, may_repeat=may_repeat)
    if not inspect.iscoroutinefunction(function):

        @wraps(function)
        def repeated(*args: Any, **kwargs: Any) -> Any:
            return retry(partial(function, *args, **kwargs), retries, may_repeat)

        return repeated

    @wraps(function)
    async def repeated_async(*args: Any, **kwargs: Any) -> Any:
        pauses = _Pauses(retries, may_repeat)
        while True:
            try:
                return await function(*args, **kwargs)
            except Exception as error:
                pause = pauses.after(error)
            with timing.waiting():
                await asyncio.sleep(pause)

    return repeated_async
