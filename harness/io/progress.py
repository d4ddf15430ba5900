"""Progress of long tasks: a bar in a terminal, occasional lines in a log."""

from __future__ import annotations

import os
import sys
from time import monotonic
from typing import Any

_FIRST, _EVERY = 20.0, 30.0
"""Seconds before the first line of a log, and between its lines."""


def progress(total: int, unit: str, what: str, *, quiet: bool = False, leave: bool = False) -> Any:
    """Returns a progress bar or log with `update(n)`, to be used in a `with` statement.

    `unit` is a plural noun; a `total` of 0 means unknown. With `leave`, a bar is shown at once and
    stays when the task is done. `quiet` and TQDM_DISABLE hide it.
    """
    if (hidden := quiet or bool(os.environ.get("TQDM_DISABLE"))) or not sys.stderr.isatty():
        return _Log(total, unit, what, hidden)
    from tqdm import tqdm

    return tqdm(
        total=total or None,
        unit=f" {unit}",
        desc=what,
        disable=False,  # else as TQDM_DISABLE was when tqdm was imported
        delay=0 if leave else 1,
        leave=leave,
        smoothing=0.1,
    )


class _Log:
    """Prints lines at intervals, and a last one at the end if any was printed."""

    def __init__(self, total: int, unit: str, what: str, hidden: bool) -> None:
        self._total, self._unit, self._what, self._hidden = total, unit, what, hidden
        self._done = self._given = 0
        self._began = self._counted_from = monotonic()
        self._first, self._beside = 0, ""
        self._next = self._began + _FIRST

    def __enter__(self) -> _Log:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is None and self._given:
            self._say(f"{self._done:,} {self._unit} in {duration(monotonic() - self._began)}")

    def set_postfix_str(self, said: str, refresh: bool = True) -> None:
        """Sets the text next to the progress; `refresh` prints a line if one is due."""
        self._beside = said
        if refresh and said and monotonic() >= self._next:
            self.update(0)

    def update(self, n: int = 1) -> None:
        """Counts n more items."""
        now = monotonic()
        if n and not self._done:
            # The time before the first item, such as indexing, does not count for the rate.
            self._counted_from, self._first = now, n
        self._done += n
        if now < self._next or self._done == self._total:
            return
        self._next = now + _EVERY
        of = f" of {self._total:,}" if self._total else ""
        line = f"{self._done:,}{of} {self._unit}"
        if self._done > self._first and now > self._counted_from:
            rate = (self._done - self._first) / (now - self._counted_from)
            line += f", {rate:,.{0 if rate >= 10 else 1}f}/s"
            if self._total:
                line += f", {duration((self._total - self._done) / rate)} left"
        if self._beside:
            line += f"; {self._beside}"
        self._say(line)

    def _say(self, line: str) -> None:
        self._given += 1
        if not self._hidden:
            print(f"{self._what}: {line}", file=sys.stderr, flush=True)


def duration(seconds: float) -> str:
    """Formats as `45 s`, `3 min 20 s` or `2 h 05 min`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02} min"
