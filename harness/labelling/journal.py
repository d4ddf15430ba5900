"""A journal of judgements: one JSON line each, only ever appended, on the disk before it counts.

Several processes may write one (a page and a terminal, two pages): a lock is held for each line.
A line that was cut off by a crash is the last one and was never acknowledged; it is dropped, and
said. A broken line elsewhere is no crash's work, and is refused.
"""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path

import orjson

from harness.errors import UsageError
from harness.files import fsync_path
from harness.labelling.records import Judgements, Line, check


class Journal:
    """The lines of one file, and what they come to. The file need not be there yet.

    `held` is what the lines come to; after `append` and `refresh` it is that of all processes.
    """

    held: Judgements
    lines: list[Line]
    _read: int  # bytes that were taken in
    _number: int  # lines that were taken in
    _open_end: bool  # the last of them wants its line end
    _torn: bool  # what stands behind them was cut off

    def __init__(self, path: Path) -> None:
        """Reads the file. Raises UsageError, naming the line, for one that is no judgement."""
        self.path = path
        self._start_over()
        self.refresh()
        if self._torn:
            print(f"note: {path}: its last line was cut off and is dropped", file=sys.stderr)

    def append(self, *lines: Line) -> None:
        """Add lines, with the time, and force them to the disk. Raises ValueError and OSError."""
        for line in lines:
            check(line)
        from filelock import FileLock

        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = not self.path.exists()
        with FileLock(self.path.with_name(f".{self.path.name}.lock")):
            self.refresh()
            time = datetime.now(UTC).isoformat(timespec="milliseconds")
            data = b"".join(
                orjson.dumps({**line, "time": time}, option=orjson.OPT_APPEND_NEWLINE)
                for line in lines
            )
            with open(self.path, "r+b" if self.path.exists() else "xb") as file:
                file.truncate(self._read)  # what was cut off ends here
                file.seek(self._read)
                file.write(b"\n" + data if self._open_end else data)
                file.flush()
                os.fsync(file.fileno())
            if new:
                fsync_path(self.path.parent)
            self.refresh()

    def refresh(self) -> None:
        """Take in what was added since, by this process or another."""
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            size = 0
        if size < self._read:  # somebody mended it by hand
            self._start_over()
        if size == self._read:
            return
        with open(self.path, "rb") as file:
            file.seek(self._read)
            data = file.read()
        *whole, rest = data.split(b"\n")
        for line in whole:
            if line or not self._open_end:  # else it is the end of a line that was taken in
                self._take(line)
            self._read += len(line) + 1
            self._open_end = False
        self._torn = bool(rest) and not self._take_rest(rest)

    def _take(self, data: bytes) -> None:
        self._number += 1
        if not data.strip():
            return
        try:
            line = orjson.loads(data)
            self.held.add(line)
        except ValueError as error:
            raise UsageError(
                f"{self.path}, line {self._number}: is no judgement ({error}); mend the line or "
                "take it out"
            ) from None
        self.lines.append(line)

    def _take_rest(self, data: bytes) -> bool:
        """Take in what stands behind the last line end, if it is whole and wants its end only."""
        try:
            check(orjson.loads(data))
        except ValueError:
            return False
        self._take(data)
        self._read += len(data)
        self._open_end = True
        return True

    def _start_over(self) -> None:
        self.held, self.lines = Judgements(), []
        self._read, self._number = 0, 0
        self._open_end, self._torn = False, False
