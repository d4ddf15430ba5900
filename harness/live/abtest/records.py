"""What was recorded, as columns, in the order in which it was recorded."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError
from harness.live.abtest.journal import read_records
from harness.statistics.units import Ints, Values

Flags = npt.NDArray[np.bool_]
Lines = Iterable[tuple[int, dict[str, Any] | None]]


@dataclass(frozen=True)
class Column:
    """The values of one metric: the record (row) that each is from, and the value."""

    rows: Ints
    values: Values


@dataclass(frozen=True)
class Records:
    """All records of a test.

    `units` are the ids, `unit` and `in_a` of shape (records,) say whose each record is and from
    which arm. `damaged` are the numbers of the journal's lines that could not be read. `first` and
    `last` are the times of the first and last record, in seconds since 1970.
    """

    units: list[str]
    unit: Ints
    in_a: Flags
    metrics: dict[str, Column]
    damaged: list[int]
    first: float | None
    last: float | None

    def __len__(self) -> int:
        return len(self.unit)


@dataclass(frozen=True)
class Clicks:
    """All impressions of an interleaved test: whose each was, and the clicks on each team."""

    units: list[str]
    unit: Ints
    a: Ints
    b: Ints
    damaged: list[int]
    first: float | None
    last: float | None

    def __len__(self) -> int:
        return len(self.unit)


def journal_lines(path: Path) -> Lines:
    """The records of a journal file."""
    return read_records(path)


def gather(lines: Lines, where: str) -> Records:
    """Columns of the records of split traffic. Raises UsageError for a record that is none."""
    codes: dict[str, int] = {}
    unit: list[int] = []
    in_a: list[bool] = []
    found: dict[str, tuple[list[int], list[float]]] = {}
    damaged: list[int] = []
    times: list[float] = []
    for number, record in lines:
        if record is None:
            damaged.append(number)
            continue
        try:
            arm, values = record["arm"], record["metrics"].items()
            if arm not in ("a", "b"):
                raise ValueError(f"arm {arm!r}")
            times = _times(times, record["time"])
            row = len(unit)
            unit.append(codes.setdefault(_text(record["unit"]), len(codes)))
            in_a.append(arm == "a")
            for name, value in values:
                if name not in found:
                    found[name] = ([], [])
                rows, column = found[name]
                rows.append(row)
                column.append(value + 0.0)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise _not_a_record(where, number, error) from None
    metrics = {
        name: Column(np.array(rows, np.int64), _finite(values, name, where))
        for name, (rows, values) in found.items()
    }
    return Records(
        list(codes), np.array(unit, np.int64), np.array(in_a, bool), metrics, damaged, *_span(times)
    )


def gather_clicks(lines: Lines, where: str) -> Clicks:
    """Columns of the impressions of an interleaved test. Raises UsageError."""
    codes: dict[str, int] = {}
    unit: list[int] = []
    clicks: list[tuple[int, int]] = []
    damaged: list[int] = []
    times: list[float] = []
    for number, record in lines:
        if record is None:
            damaged.append(number)
            continue
        try:
            a, b = record["clicks"]["a"], record["clicks"]["b"]
            if type(a) is not int or type(b) is not int or min(a, b) < 0:
                raise ValueError(f"clicks {a!r} and {b!r}")
            times = _times(times, record["time"])
            unit.append(codes.setdefault(_text(record["unit"]), len(codes)))
            clicks.append((a, b))
        except (KeyError, TypeError, ValueError) as error:
            raise _not_a_record(where, number, error) from None
    counts = np.array(clicks, np.int64).reshape(-1, 2)
    codes_of = np.array(unit, np.int64)
    return Clicks(list(codes), codes_of, counts[:, 0], counts[:, 1], damaged, *_span(times))


def _times(times: list[float], time: Any) -> list[float]:
    """The first time and the last one so far."""
    seconds = time + 0.0
    return [times[0], seconds] if times else [seconds]


def _span(times: list[float]) -> tuple[float | None, float | None]:
    return (times[0], times[-1]) if times else (None, None)


def _text(unit: Any) -> str:
    if not isinstance(unit, str):
        raise TypeError(f"unit {unit!r}")
    return unit


def _finite(values: list[float], name: str, where: str) -> Values:
    column = np.array(values, np.float64)
    if not math.isfinite(column.sum()) and not np.isfinite(column).all():
        raise UsageError(f"{where}: metric {name!r} has a value that is no finite number")
    return column


def _not_a_record(where: str, number: int, error: Exception) -> UsageError:
    said = f"no field {error}" if isinstance(error, KeyError) else str(error)
    return UsageError(f"{where}, line {number}: not a record of this test ({said})")
