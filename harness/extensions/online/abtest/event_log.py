"""The event log of an A/B test, and its records as columns.

The log is JSON lines, the plan first, then one line a record. Several processes may write to one: a
record is one line in one write to the end of the file, and the file is created with its plan.
"""

from __future__ import annotations

import os
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from harness.errors import RunError, UsageError, near
from harness.extensions.online.abtest.plan import ABTestPlan, Bounds, Impression, Observation
from harness.io.files import disk_errors, fsync_path
from harness.io.records import decode, encode, to_plain
from harness.stats.clusters import Ints, Values

SYNC_SECONDS = 1.0  # what a crash of the machine (not of the program) may cost

Flags = npt.NDArray[np.bool_]
R = TypeVar("R", Observation, Impression)
Lines = Iterable[tuple[int, R | None]]
"""(line number, record) of each line; None for a line that is not whole."""


class ABTestLog:
    """An event log that is open for records. Creates the file if there is none.

    A record is in the hands of the operating system when `append` returns, so that it outlives the
    program, and on the disk at most `SYNC_SECONDS` before the next record, and on `close`. Raises
    UsageError for a file that is another test's, or whose plan differs.
    """

    def __init__(self, path: Path, plan: ABTestPlan) -> None:
        self.path = path
        with disk_errors(path.parent, "choose another log"):
            _create(path, plan)
            plan.check_same(read_plan(path), str(path))
            self._file = os.open(path, os.O_RDWR | os.O_APPEND)
        self._synced = time.monotonic()

    def append(self, record: Observation | Impression) -> None:
        """Writes one record. Raises RunError if that fails."""
        line = encode(record) + b"\n"
        if self._file < 0:
            raise RunError(f"{self.path}: the test was closed; create it again to continue")
        try:
            # What is left of a line that a crash cut off, in this process or in another that writes
            # here too, must not swallow the next record: that begins by ending it.
            with _locked(self._file):
                end = os.lseek(self._file, 0, os.SEEK_END)
                torn = os.pread(self._file, 1, end - 1) != b"\n"
                whole = b"\n" + line if torn else line
                written = os.write(self._file, whole)
            if written < len(whole):
                raise RunError(
                    f"{self.path}: the disk is full ({written} of {len(whole)} bytes of a record "
                    "were written): free space there"
                )
            if time.monotonic() - self._synced > SYNC_SECONDS:
                self.sync()
        except OSError as error:
            raise RunError(f"{self.path}: cannot be written ({error.strerror})") from None

    def sync(self) -> None:
        """Forces what was written to the disk."""
        os.fsync(self._file)
        self._synced = time.monotonic()

    def close(self) -> None:
        """Forces it to the disk and closes it; a second call does nothing."""
        if self._file >= 0:
            os.fsync(self._file)
            os.close(self._file)
            self._file = -1


@contextmanager
def _locked(file: int) -> Iterator[None]:
    """Locks the file against other processes; the lock of a dead process is released."""
    try:
        import fcntl
    except ImportError:  # Windows, where a log is one process's
        yield
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


def read_plan(path: Path) -> ABTestPlan:
    """Reads the plan of an event log. Raises UsageError for a file that has none."""
    try:
        with open(path, "rb") as file:
            first = file.readline()
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except OSError as error:
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    try:
        plan = decode(first, ABTestPlan, "line 1")
    except UsageError as error:
        raise UsageError(f"{path}: not the event log of an A/B test ({error})") from None
    _refuse_duplicate_keys(first, plan, f"{path}, line 1")
    return plan


def read_records(path: Path, kind: type[R]) -> Iterator[tuple[int, R | None]]:
    """Yields (line number, record) of each line after the plan; None for a line that is not whole.

    Raises UsageError for a line that is whole and no such record.
    """
    decoder = msgspec.json.Decoder(kind)
    with open(path, "rb") as file:
        next(file)
        for number, line in enumerate(file, 2):
            if line == b"\n":
                continue
            where = f"{path}, line {number}"
            try:
                record = decoder.decode(line)
            except msgspec.DecodeError:
                if not _is_json(line):
                    yield number, None
                    continue
                record = decode(line, kind, where)  # raises, with the name of the field
            _refuse_duplicate_keys(line, record, where)
            yield number, record


def _is_json(line: bytes) -> bool:
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _refuse_duplicate_keys(
    line: bytes, record: ABTestPlan | Observation | Impression, where: str
) -> None:
    """Raises UsageError for a key that is twice in one object: one of the two would be lost."""
    from harness.runfiles.jsonl import count_keys, doubled_key

    if (name := doubled_key(line, count_keys(to_plain(record)))) is not None:
        raise UsageError(f"{where}: {name!r} is there twice; keep one")


def _create(path: Path, plan: ABTestPlan) -> None:
    """Creates the file, with its plan, unless it exists: of two processes one wins."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        aside.write_bytes(encode(plan) + b"\n")
        fsync_path(aside)
        os.link(aside, path)  # unlike a rename, refuses where the file has come to be
        fsync_path(path.parent)
    except FileExistsError:
        pass
    finally:
        aside.unlink(missing_ok=True)


# -- Records as columns, in the order in which they were recorded ----------------------------------


@dataclass(frozen=True)
class MetricColumn:
    """The values of one metric, and the record (row) of each."""

    rows: Ints
    values: Values


@dataclass
class RecordColumns:
    """Records of a test: the unit of each (its place in `unit_ids`), and what all kinds have.

    `errors` counts failures by arm and kind of error. `damaged` are the numbers of the lines that
    could not be read. `first` and `last` are the times of the first and last record, in seconds
    since 1970.
    """

    unit_ids: list[str] = field(default_factory=list)
    unit: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    errors: Counter[tuple[str, str]] = field(default_factory=Counter)
    damaged: list[int] = field(default_factory=list)
    first: float | None = None
    last: float | None = None

    def __len__(self) -> int:
        return len(self.unit)

    def read(self, lines: Lines[R]) -> Iterator[tuple[int, R]]:
        """Adds what all kinds of records have; yields each that is whole, with its line number."""
        codes: dict[str, int] = {}
        unit: list[int] = []
        for number, record in lines:
            if record is None:
                self.damaged.append(number)
                continue
            self.first = record.time if self.first is None else self.first
            self.last = record.time
            if record.arm is not None and record.error is not None:
                self.errors[record.arm, record.error] += 1
            unit.append(codes.setdefault(record.unit_id, len(codes)))
            yield number, record
        self.unit_ids, self.unit = list(codes), np.array(unit, np.int64)


@dataclass
class Observations(RecordColumns):
    """All observations of a test with split traffic, of which some are failures."""

    in_a: Flags = field(default_factory=lambda: np.zeros(0, bool))
    failed: Flags = field(default_factory=lambda: np.zeros(0, bool))
    metrics: dict[str, MetricColumn] = field(default_factory=dict)


@dataclass
class Impressions(RecordColumns):
    """All impressions of an interleaved test: the clicks on each team.

    An impression in which a system failed is a click on the other team.
    """

    a: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    b: Ints = field(default_factory=lambda: np.zeros(0, np.int64))


def gather_observations(lines: Lines[Observation], where: str, plan: ABTestPlan) -> Observations:
    """Converts observations to columns. Raises UsageError for a metric that the plan does not have,
    and for a value outside the bounds that the plan gives its metric."""
    found = Observations()
    flags: list[tuple[bool, bool]] = []
    columns: dict[str, tuple[list[int], list[float]]] = {}
    for number, record in found.read(lines):
        for name, value in record.metrics.items():
            if name not in columns:
                if plan.metrics and name not in plan.metrics:
                    raise UsageError(
                        f"{where}, line {number}: metric {name!r} is not in the plan"
                        + near(name, list(plan.metrics))
                    )
                columns[name] = ([], [])
            rows, values = columns[name]
            rows.append(len(flags))
            values.append(value)
        flags.append((record.arm == "a", record.error is not None))
    found.in_a, found.failed = np.array(flags, bool).reshape(-1, 2).T
    found.metrics = {
        name: MetricColumn(
            np.array(rows, np.int64), _within_bounds(values, name, where, plan.bounds(name))
        )
        for name, (rows, values) in columns.items()
    }
    return found


def gather_impressions(lines: Lines[Impression]) -> Impressions:
    """Converts impressions to columns."""
    found = Impressions()
    clicks = [(record.credit.a, record.credit.b) for _, record in found.read(lines)]
    found.a, found.b = np.array(clicks, np.int64).reshape(-1, 2).T
    return found


def _within_bounds(values: list[float], name: str, where: str, bounds: Bounds) -> Values:
    column = np.array(values, np.float64)
    if bounds is not None and len(column):
        low, high = column.min(), column.max()
        if low < bounds[0] or high > bounds[1]:
            raise UsageError(
                f"{where}: metric {name!r} has the value {low if low < bounds[0] else high:g}, "
                f"outside its bounds {bounds[0]:g} to {bounds[1]:g}; the harness never writes such "
                "a line: remove it"
            )
    return column
