"""The first word of a plug-in with its server."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from harness.errors import HarnessError, RunError

T = TypeVar("T")


def reach(what: str, url: str, ask: Callable[[], T]) -> T:
    """The server's answer to its first question. Raises RunError, with the reason, without one."""
    try:
        return ask()
    except HarnessError:
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:200] or "no reason given"
        raise RunError(f"{what}: no answer from {url}: {type(error).__name__}: {said}") from error
