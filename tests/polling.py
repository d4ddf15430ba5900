"""Waits for what another process or thread does, with a bound that ends only a hang."""

from __future__ import annotations

import io
import socket
import subprocess
import time
from collections.abc import Callable
from typing import Any

HANGS = 300.0
"""Seconds after which a wait counts as a hang; no load of a machine makes one that long."""


def wait_until(true: Callable[[], bool], process: subprocess.Popen[Any] | None = None) -> None:
    """Returns when `true()` holds.

    Raises AssertionError where it does not within `HANGS` seconds, or where `process` ends before.
    """
    end = time.monotonic() + HANGS
    while not true():
        assert process is None or process.poll() is None or true(), "the process has ended"
        assert time.monotonic() < end, f"still not so after {HANGS:g} s"
        time.sleep(0.01)


def listens(port: int) -> bool:
    """Tells whether a server on this machine accepts connections at a port."""
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


class Watched(io.StringIO):
    """A stream that calls a function when certain words are written to it."""

    def __init__(self, words: str, call: Callable[[], object]) -> None:
        super().__init__()
        self._words, self._call = words, call

    def write(self, text: str) -> int:
        """Keeps the text."""
        if self._words in text:
            self._call()
        return super().write(text)
