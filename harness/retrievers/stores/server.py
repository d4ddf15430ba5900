"""How a plug-in comes to a server: its address, its key, and the first word with it."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar
from urllib.parse import urlsplit

from harness.errors import HarnessError, RunError, UsageError

T = TypeVar("T")


def check_address(what: str, url: str) -> None:
    """Raises UsageError for an address that may hold a secret: parameters stand in results."""
    parts = urlsplit(url)
    if parts.username or parts.password or parts.query:
        raise UsageError(
            f"{what}: the address must not hold a user or a password, nor a ?query, since results "
            "record it; give secrets by the environment"
        )


def secret(variable: str) -> str | None:
    """What stands in an environment variable; None where it is empty or not there.

    Keys come by the environment alone, so that no result can hold one.
    """
    return os.environ.get(variable) or None


def reach(what: str, url: str, ask: Callable[[], T]) -> T:
    """The server's answer to its first question. Raises RunError, with the reason, without one."""
    try:
        return ask()
    except HarnessError:
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:200] or "no reason given"
        raise RunError(f"{what}: no answer from {url}: {type(error).__name__}: {said}") from error
