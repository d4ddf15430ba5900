"""Detects rate limits in errors, and reads the requested wait."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Any


def rate_limit(error: BaseException) -> float | None:
    """Returns the seconds to wait for a rate limit, 0 if unspecified; None for other errors.

    Clients of HTTP and of language models give rate limits the status 429, on the error or one of
    its causes. An exhausted quota has that status too, but is not a rate limit.
    """
    for one in causes(error):
        response = getattr(one, "response", None)
        if getattr(one, "code", None) == "insufficient_quota":
            return None
        if 429 in statuses(one, response):
            headers = getattr(one, "headers", None) or getattr(response, "headers", None)
            return retry_after(headers) or 0.0
    return None


def retry_after(headers: Any) -> float | None:
    """Returns Retry-After in seconds from now; None if it is missing or invalid."""
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


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yields the error and its chain of causes."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__


def statuses(*things: Any) -> list[Any]:
    """Returns the values of the attributes that may hold an HTTP status."""
    names = ("status_code", "status", "code")
    return [getattr(one, name, None) for one in things for name in names]
