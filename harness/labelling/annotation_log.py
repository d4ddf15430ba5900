"""Append-only log of one annotator's annotations, safe for several processes and crashes."""

from __future__ import annotations

import logging
import os
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from harness.errors import UsageError
from harness.files import fsync_path
from harness.labelling.annotations import Annotation, Annotations
from harness.labelling.records import encode_lines
from harness.records.base import decode

_log = logging.getLogger(__name__)


class AnnotationLog:
    """The annotations in one file, a JSON line each. The file need not exist yet.

    A line is on the disk before it counts. Several processes may write the file (a page and a
    terminal, two pages): each line is written under a lock. A crash can cut off the last line only,
    which was never acknowledged; it is dropped with a note. A damaged line elsewhere is an error.

    `current` are the annotations after all lines; `append` and `refresh` include the lines of other
    processes.
    """

    current: Annotations
    lines: list[Annotation]
    _read: int  # bytes that were read
    _number: int  # lines that were read
    _open_end: bool  # the last of them has no line end yet
    _torn: bool  # a line after them was cut off

    def __init__(self, path: Path) -> None:
        """Reads the file. Raises UsageError, naming the line, for a damaged one."""
        self.path = path
        self._reset()
        self.refresh()
        if self._torn:
            _log.warning(f"note: {path}: its last line was cut off and is dropped")

    def append(self, *lines: Annotation) -> None:
        """Adds lines, with the time, and forces them to the disk. Raises OSError."""
        from filelock import FileLock

        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = not self.path.exists()
        with FileLock(self.path.with_name(f".{self.path.name}.lock")):
            self.refresh()
            time = datetime.now(UTC).isoformat(timespec="milliseconds")
            data = encode_lines(msgspec.structs.replace(line, time=time) for line in lines)
            with open(self.path, "r+b" if self.path.exists() else "xb") as file:
                file.truncate(self._read)  # removes a line that was cut off
                file.seek(self._read)
                file.write(b"\n" + data if self._open_end else data)
                file.flush()
                os.fsync(file.fileno())
            if new:
                fsync_path(self.path.parent)
            self.refresh()

    def refresh(self) -> None:
        """Reads the lines that this process or another one added."""
        try:
            size = self.path.stat().st_size
        except FileNotFoundError:
            size = 0
        if size < self._read:  # somebody edited the file
            self._reset()
        if size == self._read:
            return
        with open(self.path, "rb") as file:
            file.seek(self._read)
            data = file.read()
        *whole, rest = data.split(b"\n")
        for line in whole:
            if line or not self._open_end:  # else it is the end of a line that was read before
                self._add(line)
            self._read += len(line) + 1
            self._open_end = False
        self._torn = bool(rest) and not self._add_rest(rest)

    def _add(self, data: bytes) -> None:
        self._number += 1
        if not data.strip():
            return
        where = f"{self.path}, line {self._number}"
        line = decode(data, Annotation, where, "correct the line or delete it")
        self.current.add(line)
        self.lines.append(line)

    def _add_rest(self, data: bytes) -> bool:
        """Adds the text after the last line end, if it is a whole line that lacks only its end."""
        try:
            decode(data, Annotation, str(self.path))
        except UsageError:
            return False
        self._add(data)
        self._read += len(data)
        self._open_end = True
        return True

    def _reset(self) -> None:
        self.current, self.lines = Annotations(), []
        self._read, self._number = 0, 0
        self._open_end, self._torn = False, False
