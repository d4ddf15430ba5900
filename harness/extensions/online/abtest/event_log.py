"""Event log of an A/B test, and its records as columns.

The log is a JSON Lines file: the plan, then one record per line. Several processes may append to
it: each record is written by one write call, and the file is created together with its plan.
"""

from __future__ import annotations

import os
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from harness.errors import RunError, UsageError
from harness.extensions.online.abtest.plan import ABTestPlan, Impression, Observation
from harness.io.files import disk_errors, fsync_path
from harness.io.records import decode, encode
from harness.stats.clusters import Ints, Values

SYNC_SECONDS = 1.0  # records at risk if the machine crashes

Flags = npt.NDArray[np.bool_]
Lines = Iterable[tuple[int, Observation | Impression | None]]
"""(line number, record) of each line; None for an incomplete line."""


class ABTestLog:
    """An event log open for writing. Creates the file if it does not exist.

    When `append` returns, the operating system has the record, so it survives a crash of the
    program. Records are synced to disk on `close`, and by `append` if the last sync is more than
    `SYNC_SECONDS` old. Raises UsageError for a file of another test or with a different plan.
    """

    def __init__(self, path: Path, plan: ABTestPlan) -> None:
        self.path = path
        with disk_errors(path.parent, "choose another log"):
            _create(path, plan)
            plan.check_same(read_plan(path), str(path))
            self._file = os.open(path, os.O_RDWR | os.O_APPEND)
        self._synced = time.monotonic()

    def append(self, record: Observation | Impression) -> None:
        """Writes one record. Raises RunError on failure."""
        line = encode(record) + b"\n"
        if self._file < 0:
            raise RunError(f"{self.path}: the test is closed; create it again to continue")
        try:
            # A crash of this or another process may have left an incomplete line; end it first,
            # so that it does not corrupt this record.
            with _locked(self._file):
                end = os.lseek(self._file, 0, os.SEEK_END)
                torn = os.pread(self._file, 1, end - 1) != b"\n"
                whole = b"\n" + line if torn else line
                written = os.write(self._file, whole)
            if written < len(whole):
                raise RunError(
                    f"{self.path}: the disk is full ({written} of {len(whole)} bytes of a record "
                    "were written); free space there"
                )
            if time.monotonic() - self._synced > SYNC_SECONDS:
                os.fsync(self._file)
                self._synced = time.monotonic()
        except OSError as error:
            raise RunError(f"{self.path}: cannot be written ({error.strerror})") from None

    def close(self) -> None:
        """Syncs the file to disk and closes it; a second call has no effect."""
        if self._file >= 0:
            os.fsync(self._file)
            os.close(self._file)
            self._file = -1


@contextmanager
def _locked(file: int) -> Iterator[None]:
    """Locks the file against other processes; the lock of a dead process is released."""
    try:
        import fcntl
    except ImportError:  # Windows: only one process may write
        yield
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def _create(path: Path, plan: ABTestPlan) -> None:
    """Creates the file with its plan unless it exists; safe for concurrent processes."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        aside.write_bytes(encode(plan) + b"\n")
        fsync_path(aside)
        os.link(aside, path)  # unlike a rename, fails if the file exists
        fsync_path(path.parent)
    except FileExistsError:
        pass
    finally:
        aside.unlink(missing_ok=True)


def read_plan(path: Path) -> ABTestPlan:
    """Reads the plan of an event log. Raises UsageError for a file without a plan."""
    try:
        with open(path, "rb") as file:
            first = file.readline()
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    if not first:
        raise UsageError(f"{path}: not the event log of an A/B test (the file is empty)")
    try:
        return decode(first, ABTestPlan, "line 1")
    except UsageError as error:
        raise UsageError(f"{path}: not the event log of an A/B test ({error})") from None


def read_records(path: Path, plan: ABTestPlan) -> Lines:
    """Yields (line number, record) of each line after the plan; None for an incomplete line.

    Raises UsageError for a complete line that is not a record of this kind of test.
    """
    kind = plan.record_type
    decoder = msgspec.json.Decoder(kind)
    with open(path, "rb") as file:
        next(file)
        for number, line in enumerate(file, 2):
            if line == b"\n":
                continue
            try:
                yield number, decoder.decode(line)
            except msgspec.ValidationError:
                decode(line, kind, f"{path}, line {number}")  # raises, naming the field
            except msgspec.DecodeError:
                yield number, None


@dataclass
class RecordColumns:
    """Records of a test as columns, in the order of recording.

    `unit` is the index of each record's unit in `unit_ids`. `errors` counts failures by arm and
    kind. `damaged` and `duplicates` are line numbers, `first` and `last` times in seconds since
    1970. Split traffic has the flags `in_a` and `failed`, and the rows and values of each of the
    `metrics`; an interleaved test has the clicks on each team, shape (impressions, 2).
    """

    unit_ids: list[str]
    unit: Ints
    errors: Counter[tuple[str, str]]
    damaged: list[int]
    duplicates: list[int]
    first: float | None
    last: float | None
    in_a: Flags
    failed: Flags
    metrics: dict[str, tuple[Ints, Values]]
    clicks: Ints

    def __len__(self) -> int:
        return len(self.unit)


def read_columns(lines: Lines, where: str, plan: ABTestPlan) -> RecordColumns:
    """Converts records to columns. Raises UsageError for a value that violates the plan."""
    codes: dict[str, int] = {}
    errors: Counter[tuple[str, str]] = Counter()
    damaged: list[int] = []
    duplicates: list[int] = []
    seen: set[int] = set()
    unit: list[int] = []
    first: float | None = None
    last: float | None = None
    flags: list[tuple[bool, bool]] = []
    clicks: list[tuple[int, int]] = []
    columns: dict[str, tuple[list[int], list[float]]] = {}
    for number, record in lines:
        if record is None:
            damaged.append(number)
            continue
        if (key := hash(encode(record))) in seen:
            duplicates.append(number)
            continue
        seen.add(key)
        if isinstance(record, Impression):
            clicks.append((record.credit.a, record.credit.b))
        else:
            for name, value in record.metrics.items():
                try:
                    plan.check_value(name, value)
                except UsageError as error:
                    raise UsageError(f"{where}, line {number}: {error}") from None
                rows, values = columns.setdefault(name, ([], []))
                rows.append(len(unit))
                values.append(value)
        flags.append((record.arm == "a", record.error is not None))
        if record.arm is not None and record.error is not None:
            errors[record.arm, record.error] += 1
        unit.append(codes.setdefault(record.unit_id, len(codes)))
        first, last = record.time if first is None else first, record.time
    in_a, failed = np.array(flags, bool).reshape(-1, 2).T
    return RecordColumns(
        unit_ids=list(codes),
        unit=np.array(unit, np.int64),
        errors=errors,
        damaged=damaged,
        duplicates=duplicates,
        first=first,
        last=last,
        in_a=in_a,
        failed=failed,
        metrics={
            name: (np.array(rows, np.int64), np.array(values, np.float64))
            for name, (rows, values) in columns.items()
        },
        clicks=np.array(clicks, np.int64).reshape(-1, 2),
    )
