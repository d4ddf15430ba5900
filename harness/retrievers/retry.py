"""Calls again after failures, and waits out rate limits; waits are excluded from latencies."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from time import monotonic, sleep
from typing import Any, TypeVar

from harness.retrievers import timing

_log = logging.getLogger(__name__)

T = TypeVar("T")

LONGEST_WAIT = 900.0
"""Seconds that a rate limit is waited for in a row, with ever longer pauses where it says none."""

_FIRST, _LONGEST = 0.5, 60.0
"""Seconds of the first pause, doubled up to the longest."""

_NOTED = 5.0
"""Seconds of a pause from which on it is noted in the log."""


def retry(
    attempt: Callable[[], T], retries: int, may_repeat: Callable[[Exception], bool] = lambda _: True
) -> T:
    """Calls `attempt`, and again after a failure, at most `retries` times.

    A refusal for a rate limit is no failure: it is waited out, for at most LONGEST_WAIT seconds.
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
            if measured.given_up:  # nobody waits for the answer any more
                raise
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


def rate_limit(error: BaseException) -> float | None:
    """Seconds to wait, where too much was asked, 0 where it does not say; None for other errors.

    It is told by the status 429 that the clients of HTTP and of language models give their errors,
    of the error or of what it came of. A quota that is used up has that status too, and is none.
    """
    for one in _causes(error):
        response = getattr(one, "response", None)
        if getattr(one, "code", None) == "insufficient_quota":
            return None
        if 429 in (*_statuses(one), *_statuses(response)):
            headers = getattr(one, "headers", None) or getattr(response, "headers", None)
            return retry_after(headers) or 0.0
    return None


def retry_after(headers: Any) -> float | None:
    """What Retry-After asks for, in seconds from now; None where it is not there or unreadable."""
    if not isinstance(headers, Mapping) and not hasattr(headers, "get"):
        return None
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    said = headers.get("Retry-After") or headers.get("retry-after")
    seconds = _number(said)
    if seconds is not None or said is None:
        return seconds
    try:
        moment = parsedate_to_datetime(str(said))
        wait = (moment - datetime.now(moment.tzinfo)).total_seconds()
    except (TypeError, ValueError, OverflowError):
        return None
    return max(0.0, wait)


def _number(said: Any) -> float | None:
    try:
        value = float(said)
    except (TypeError, ValueError):
        return None
    return max(0.0, value) if math.isfinite(value) else None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The error, what it was raised from, and so on."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


def _statuses(one: Any) -> list[Any]:
    return [getattr(one, name, None) for name in ("status_code", "status", "code")]
