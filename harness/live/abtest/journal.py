"""The journal of a test: JSON lines, the plan first, then one line a record.

Several processes may write to one journal: a record is one line in one write to the end of the
file, and the plan is there, whole, from the moment that the file is.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.errors import RunError, UsageError
from harness.files import disk_errors, fsync_path
from harness.live.abtest.plan import Plan

SYNC_SECONDS = 1.0  # what a crash of the machine (not of the program) may cost


class Journal:
    """A journal that is open for records. Begins the file where there is none.

    A record is in the hands of the operating system when `append` returns, so that it outlives the
    program, and on the disk at most `SYNC_SECONDS` before the next record, and on `close`. Raises
    UsageError for a file that is another test's, or whose plan differs.
    """

    def __init__(self, path: Path, plan: Plan) -> None:
        self.path = path
        with disk_errors(path.parent, "choose another journal"):
            _begin(path, plan)
            plan.same_as(read_plan(path), str(path))
            self._file = os.open(path, os.O_RDWR | os.O_APPEND)
            end = os.lseek(self._file, 0, os.SEEK_END)
            # What is left of a line that a crash cut off must not swallow the next record.
            self._torn = os.pread(self._file, 1, end - 1) != b"\n"
        self._synced = time.monotonic()

    def append(self, line: bytes) -> None:
        """Write one record, which ends with a newline. Raises RunError where that fails."""
        if self._file < 0:
            raise RunError(f"{self.path}: the test was closed; make it again to go on")
        try:
            # After a torn line the next one begins by ending it.
            whole = b"\n" + line if self._torn else line
            self._torn = (written := os.write(self._file, whole)) < len(whole)
            if self._torn:
                raise RunError(
                    f"{self.path}: the disk is full ({written} of {len(whole)} bytes of a record "
                    "were written): free space there"
                )
            if time.monotonic() - self._synced > SYNC_SECONDS:
                self.sync()
        except OSError as error:
            raise RunError(f"{self.path}: cannot be written ({error.strerror})") from None

    def sync(self) -> None:
        """Force what was written to the disk."""
        os.fsync(self._file)
        self._synced = time.monotonic()

    def close(self) -> None:
        """Force it to the disk and close it; a second call does nothing."""
        if self._file >= 0:
            os.fsync(self._file)
            os.close(self._file)
            self._file = -1


def read_plan(path: Path) -> Plan:
    """The plan of a journal. Raises UsageError for a file that has none."""
    import orjson

    try:
        with open(path, "rb") as file:
            first = file.readline()
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    try:
        record = orjson.loads(first)
    except orjson.JSONDecodeError:
        record = None
    return Plan.from_record(record, str(path))


def read_records(path: Path) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """(line number, record) of each line after the plan; None for a line that is not whole JSON."""
    import orjson

    with open(path, "rb") as file:
        next(file)
        for number, line in enumerate(file, 2):
            if line == b"\n":
                continue
            try:
                yield number, orjson.loads(line)
            except orjson.JSONDecodeError:
                yield number, None


def _begin(path: Path, plan: Plan) -> None:
    """Make the file, with its plan, unless it is there: of two processes one wins."""
    import orjson

    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        aside.write_bytes(orjson.dumps(plan.record(), option=orjson.OPT_APPEND_NEWLINE))
        fsync_path(aside)
        os.link(aside, path)  # unlike a rename, refuses where the file has come to be
        fsync_path(path.parent)
    except FileExistsError:
        pass
    finally:
        aside.unlink(missing_ok=True)
