"""Calls again after failures, and waits out rate limits; waits are excluded from latencies."""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic, sleep
from typing import TypeVar

from harness.retrievers import timing

_log = logging.getLogger(__name__)

T = TypeVar("T")

LONGEST_WAIT = 900.0
"""Maximum seconds of consecutive waits for a rate limit."""

_FIRST, _LONGEST = 0.5, 60.0
"""Seconds of the first pause, and of the longest; pauses double unless Retry-After is given."""

_NOTED = 5.0
"""Longer pauses, in seconds, are logged."""


def retry(
    attempt: Callable[[], T], retries: int, may_repeat: Callable[[Exception], bool] = lambda _: True
) -> T:
    """Calls `attempt`, and again after a failure, at most `retries` times.

    Rate limits are not failures: they are waited out, for at most LONGEST_WAIT seconds.
    Waits and pauses are excluded from the measured time, failed attempts are not. Raises the last
    error.
    """
    failed, refused, since = 0, 0, 0.0
    measured = timing.current()
    while True:
        before = measured.seconds
        try:
            return attempt()
        except Exception as error:
            if measured.given_up:  # the caller has stopped waiting
                raise
            from harness.retrievers.rate_limit import rate_limit

            asked = rate_limit(error)
            if asked is None:
                if failed == retries or not may_repeat(error):
                    raise
                pause = min(_LONGEST, _FIRST * 2**failed)
                failed, refused = failed + 1, 0
            else:
                since = since if refused else monotonic()
                pause = asked or min(_LONGEST, _FIRST * 2**refused)
                refused += 1
                if monotonic() - since + pause > LONGEST_WAIT:
                    raise
                measured.exclude(measured.seconds - before)
                if pause > _NOTED:
                    _log.warning(f"note: refused for its rate; waiting {pause:.0f} s")
        with timing.waiting():
            sleep(pause)
