"""What an A/B test has recorded: its journal, and the records in it as columns.

The journal is JSON lines, the plan first, then one line a record. Several processes may write to
one: a record is one line in one write to the end of the file, and the plan is there, whole, from
the moment that the file is.
"""

from __future__ import annotations

import math
import os
import time
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import RunError, UsageError, near
from harness.files import disk_errors, fsync_path
from harness.live.abtest.plan import Bounds, Plan
from harness.statistics.units import Ints, Values

SYNC_SECONDS = 1.0  # what a crash of the machine (not of the program) may cost
_OTHER = {"a": "b", "b": "a"}
_OF_A_SPLIT = ("time", "unit", "arm", "metrics", "failed")
_OF_CLICKS = ("time", "unit", "clicks", "arm", "failed")
_MOST = 2**31 - 1  # clicks of one impression
EARLIEST, LATEST = -62_135_596_800, 253_402_300_799
"""The years 1 to 9999, in seconds since 1970: times outside are none."""

Flags = npt.NDArray[np.bool_]
Lines = Iterable[tuple[int, dict[str, Any] | None]]


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
        self._synced = time.monotonic()

    def append(self, line: bytes) -> None:
        """Write one record, which ends with a newline. Raises RunError where that fails."""
        if self._file < 0:
            raise RunError(f"{self.path}: the test was closed; make it again to go on")
        try:
            # What is left of a line that a crash cut off, in this process or in another that writes
            # here too, must not swallow the next record: that begins by ending it.
            with _alone(self._file):
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
        """Force what was written to the disk."""
        os.fsync(self._file)
        self._synced = time.monotonic()

    def close(self) -> None:
        """Force it to the disk and close it; a second call does nothing."""
        if self._file >= 0:
            os.fsync(self._file)
            os.close(self._file)
            self._file = -1


@contextmanager
def _alone(file: int) -> Iterator[None]:
    """No other process writes meanwhile; one that dies lets go."""
    try:
        import fcntl
    except ImportError:  # Windows, where a journal is one process's
        yield
        return
    fcntl.flock(file, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)


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
    _refuse_doubled(first, record, f"{path}, line 1")
    return Plan.from_record(record, str(path))


def read_records(path: Path) -> Iterator[tuple[int, dict[str, Any] | None]]:
    """(line number, record) of each line after the plan; None for a line that is not whole JSON.

    Raises UsageError for a key that stands twice in one object.
    """
    import orjson

    with open(path, "rb") as file:
        next(file)
        for number, line in enumerate(file, 2):
            if line == b"\n":
                continue
            try:
                record = orjson.loads(line)
            except orjson.JSONDecodeError:
                yield number, None
                continue
            _refuse_doubled(line, record, f"{path}, line {number}")
            yield number, record


def _refuse_doubled(line: bytes, record: Any, where: str) -> None:
    """Raises UsageError for a key that stands twice in one object: of the two one would be lost."""
    from harness.rankings.jsonl import count_keys, doubled_key

    if record is not None and (name := doubled_key(line, count_keys(record))) is not None:
        raise UsageError(f"{where}: {name!r} stands twice; keep one")


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


# -- Records as columns, in the order in which they were recorded ----------------------------------


@dataclass(frozen=True)
class Column:
    """The values of one metric: the record (row) that each is from, and the value."""

    rows: Ints
    values: Values


@dataclass(frozen=True)
class Records:
    """All records of a test.

    `units` are the ids, `unit` and `in_a` of shape (records,) say whose each record is and from
    which arm, and `failed` which are failures of its system; `kinds` counts those by arm and kind
    of error. `damaged` are the numbers of the journal's lines that could not be read. `first` and
    `last` are the times of the first and last record, in seconds since 1970.
    """

    units: list[str]
    unit: Ints
    in_a: Flags
    failed: Flags
    kinds: Counter[tuple[str, str]]
    metrics: dict[str, Column]
    damaged: list[int]
    first: float | None
    last: float | None

    def __len__(self) -> int:
        return len(self.unit)


@dataclass(frozen=True)
class Clicks:
    """All impressions of an interleaved test: whose each was, and the clicks on each team.

    One in which a system failed is a click on the other's team; `kinds` counts those failures, by
    arm and kind of error.
    """

    units: list[str]
    unit: Ints
    a: Ints
    b: Ints
    kinds: Counter[tuple[str, str]]
    damaged: list[int]
    first: float | None
    last: float | None

    def __len__(self) -> int:
        return len(self.unit)


def gather(lines: Lines, where: str, plan: Plan) -> Records:
    """Columns of the records of split traffic. Raises UsageError for a record that is none, and for
    a value outside the bounds that the plan gives its metric."""
    codes: dict[str, int] = {}
    unit: list[int] = []
    in_a: list[bool] = []
    failed: list[bool] = []
    kinds: Counter[tuple[str, str]] = Counter()
    found: dict[str, tuple[list[int], list[float]]] = {}
    damaged: list[int] = []
    times: list[float] = []
    for number, record in _whole(lines, damaged):
        try:
            _known(record, _OF_A_SPLIT)
            arm, values = record["arm"], record["metrics"].items()
            if arm not in ("a", "b"):
                raise ValueError(f"arm {arm!r}")
            times = _times(times, record["time"])
            row = len(unit)
            unit.append(codes.setdefault(_text(record["unit"]), len(codes)))
            in_a.append(arm == "a")
            failed.append("failed" in record)
            if failed[-1]:
                kinds[arm, _text(record["failed"])] += 1
            for name, value in values:
                if name not in found:
                    if plan.metrics and name not in plan.metrics:
                        named = near(name, list(plan.metrics))
                        raise ValueError(f"metric {name!r} is not in the plan{named}")
                    found[name] = ([], [])
                rows, column = found[name]
                rows.append(row)
                column.append(_number(value, name))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _not_a_record(where, number, error) from None
    metrics = {
        name: Column(np.array(rows, np.int64), _within(values, name, where, plan.bounds(name)))
        for name, (rows, values) in found.items()
    }
    columns = np.array(unit, np.int64), np.array(in_a, bool), np.array(failed, bool)
    return Records(list(codes), *columns, kinds, metrics, damaged, *_span(times))


def gather_clicks(lines: Lines, where: str) -> Clicks:
    """Columns of the impressions of an interleaved test. Raises UsageError."""
    codes: dict[str, int] = {}
    unit: list[int] = []
    clicks: list[tuple[int, int]] = []
    kinds: Counter[tuple[str, str]] = Counter()
    damaged: list[int] = []
    times: list[float] = []
    for number, record in _whole(lines, damaged):
        try:
            _known(record, _OF_CLICKS)
            if "failed" in record:  # lost by who failed: the reader had nothing of it to click
                if record["arm"] not in _OTHER:
                    raise ValueError(f"arm {record['arm']!r}")
                kinds[record["arm"], _text(record["failed"])] += 1
                record = {**record, "clicks": {"a": 0, "b": 0, _OTHER[record["arm"]]: 1}}
            a, b = record["clicks"]["a"], record["clicks"]["b"]
            if type(a) is not int or type(b) is not int or not 0 <= min(a, b) <= max(a, b) <= _MOST:
                raise ValueError(f"clicks {a!r} and {b!r}")
            _known(record["clicks"], ("a", "b"))
            times = _times(times, record["time"])
            unit.append(codes.setdefault(_text(record["unit"]), len(codes)))
            clicks.append((a, b))
        except (KeyError, TypeError, ValueError) as error:
            raise _not_a_record(where, number, error) from None
    counts = np.array(clicks, np.int64).reshape(-1, 2)
    codes_of = np.array(unit, np.int64)
    return Clicks(list(codes), codes_of, counts[:, 0], counts[:, 1], kinds, damaged, *_span(times))


def _whole(lines: Lines, damaged: list[int]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records that could be read; the numbers of the other lines go to `damaged`."""
    for number, record in lines:
        if record is None:
            damaged.append(number)
        else:
            yield number, record


def _times(times: list[float], time: Any) -> list[float]:
    """The first time and the last one so far."""
    seconds = _number(time, "time")
    if not EARLIEST <= seconds <= LATEST:
        raise ValueError(f"time {seconds:g} is not in seconds since 1970")
    return [times[0], seconds] if times else [seconds]


def _known(record: dict[str, Any], fields: Sequence[str]) -> None:
    """Raises TypeError for what is no object, ValueError for one with a field that none has."""
    if not isinstance(record, dict):
        raise TypeError("no JSON object")
    for name in record:
        if name not in fields:
            raise ValueError(f"unknown field {name!r}{near(name, list(fields))}")


def _number(value: Any, name: str) -> float:
    if type(value) is not float and type(value) is not int:  # a bool is neither
        raise TypeError(f"{name} must be a number, not {value!r:.60}")
    return float(value)


def _span(times: list[float]) -> tuple[float | None, float | None]:
    return (times[0], times[-1]) if times else (None, None)


def _text(unit: Any) -> str:
    if not isinstance(unit, str):
        raise TypeError(f"unit {unit!r}")
    return unit


def _within(values: list[float], name: str, where: str, bounds: Bounds) -> Values:
    column = np.array(values, np.float64)
    if not math.isfinite(column.sum()) and not np.isfinite(column).all():
        raise UsageError(f"{where}: metric {name!r} has a value that is no finite number")
    if bounds is not None and len(column):
        low, high = column.min(), column.max()
        if low < bounds[0] or high > bounds[1]:
            raise UsageError(
                f"{where}: metric {name!r} has the value {low if low < bounds[0] else high:g}, "
                f"outside its bounds {bounds[0]:g} to {bounds[1]:g}: nothing that records through "
                "the harness writes that; take the line out"
            )
    return column


def _not_a_record(where: str, number: int, error: Exception) -> UsageError:
    said = f"no field {error}" if isinstance(error, KeyError) else str(error)
    return UsageError(f"{where}, line {number}: not a record of this test ({said})")
