"""Addresses of servers, and the first call of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from urllib.parse import SplitResult, urlsplit

from harness.errors import HarnessError, RunError
from harness.io.masking import refuse_address

T = TypeVar("T")


def check_url(what: str, url: str, secret: str = "") -> SplitResult:
    """Return the parts of an address of HTTP; `secret` is the variable that may hold a secret.

    Raises ValueError for another address, UsageError for one with a user or a password.
    """
    refuse_address(f"{what}: url", url, *([f"give a secret as {secret}"] if secret else []))
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"url must begin with http:// or https://, not {url!r}")
    return parts


def reach(what: str, url: str, ask: Callable[[], T]) -> T:
    """Return the server's answer to its first call. Raises RunError, with the reason, if none."""
    try:
        return ask()
    except HarnessError:
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:200] or "no reason given"
        raise RunError(f"{what}: no answer from {url}: {type(error).__name__}: {said}") from error
