"""The checkpoint of a run: finished units, one JSON line each, only ever appended.

A line that was cut off (kill -9, power) is the last one; it is dropped and its unit run again.
"""

from __future__ import annotations

import os
from pathlib import Path
from time import monotonic

import orjson

from harness.runs.worker import Outcome

_SYNC_SECONDS = 1.0


class Journal:
    """Appends outcomes to a file; on the disk within a second."""

    def __init__(self, path: Path) -> None:
        self._file = open(path, "ab")  # noqa: SIM115 - closed by __exit__
        self._synced = monotonic()

    def __enter__(self) -> Journal:
        return self

    def add(self, outcome: Outcome) -> None:
        """Append one finished unit."""
        self._file.write(orjson.dumps(outcome, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n")
        self._file.flush()
        if monotonic() - self._synced > _SYNC_SECONDS:
            os.fsync(self._file.fileno())
            self._synced = monotonic()

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()


def finished(path: Path) -> list[Outcome]:
    """The outcomes in a journal; what was cut off is removed from the file."""
    if not path.is_file():
        return []
    data = path.read_bytes()
    outcomes = []
    good = 0
    for line in data.split(b"\n"):
        if good + len(line) >= len(data):  # no newline behind it: cut off, or the empty end
            break
        try:
            outcomes.append(Outcome.from_json(orjson.loads(line)))
        except (orjson.JSONDecodeError, TypeError, KeyError):
            break
        good += len(line) + 1
    if good < len(data):
        os.truncate(path, good)
    return outcomes
