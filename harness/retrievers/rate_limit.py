"""Tells a refusal for a rate limit from other errors, and how long it asks to wait."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any


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
