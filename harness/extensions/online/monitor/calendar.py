"""Groups requests by hour, day or week (UTC), or by number, until the period is over."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import numpy as np

from harness.extensions.online.monitor.change import Observed, Values
from harness.extensions.online.monitor.saved import Saved
from harness.stats.clusters import Ints

LATER = 20
"""A period is over when so many values of later ones have come, so that no stray line ends it."""

MOST_OPEN = 20_000
"""Of more cells of periods that are not over, the oldest period ends: what is read in disorder is
held so long, 54 years of days where all requests of one are one cell."""

DIGITS = 12
"""Of means and differences: what is less comes from the order of additions, and has no rank."""

_DAY = 86_400


@dataclass(frozen=True)
class Period:
    """A stretch of the calendar. `cycle` of them make a week, after which their kinds come again.

    `learned` is the default number of the reference, `recovery` how many end an alert.
    """

    name: str
    seconds: int
    cycle: int
    learned: int
    recovery: int

    def of(self, times: Any) -> Any:
        """The number of the period that each time is in; weeks begin on Monday, as 1970 did not."""
        return np.floor_divide(np.asarray(times) + self._shift, self.seconds)

    def start(self, number: int) -> float:
        """When a period begins, in seconds since 1970."""
        return float(number * self.seconds - self._shift)

    def format(self, number: int) -> str:
        """Formats a period."""
        form = "%Y-%m-%d %H:00" if self.seconds < _DAY else "%Y-%m-%d"
        text = datetime.fromtimestamp(self.start(number), UTC).strftime(form)
        return f"the {self.name} from {text}" if self.cycle == 1 else text

    @property
    def _shift(self) -> int:
        return 3 * _DAY if self.cycle == 1 else 0


PERIODS = {
    "hour": Period("hour", 3600, 168, 672, 24),
    "day": Period("day", _DAY, 7, 28, 7),
    "week": Period("week", 7 * _DAY, 1, 8, 2),
}

Cells = dict[int, tuple[float, int]]
"""Of a period, by row of the labelled queries: the value that came first, and how many came. Or,
below the row -1, the sum of all values, and how many there are."""


UNTIMED = "requests without a time that is not in the future"
"""The reason to exclude requests without a period."""


@dataclass
class OpenPeriods(Saved):
    """Periods that are not over: a `Period` of the calendar, or `size` values each.

    `by_query`: one cell a query, see `Cells`. `late` counts values of periods that were over,
    `untimed` those without a time.
    """

    period: Period | None = None
    size: int = 0
    by_query: bool = False
    late: int = 0
    untimed: int = 0
    last: int | None = None  # the newest that is over
    cells: dict[int, Cells] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)  # values of each
    n: int = 0  # values so far, where they alone are counted
    held: int = 0  # cells of all

    STATE = ("late", "untimed", "last", "cells", "counts", "n", "held")

    def add(self, new: Observed) -> None:
        """Take in values, in whatever order they come."""
        known = np.ones(len(new.values), bool)
        if self.period is None:
            numbers = (self.n + np.arange(len(known))) // self.size
            self.n += len(known)
        else:
            known = ~np.isnan(new.times)
            numbers = self.period.of(new.times)
            late = known & (numbers <= (-np.inf if self.last is None else self.last))
            self.untimed += int((~known).sum())
            self.late += int(late.sum())
            known &= ~late
        if known.any():
            rows = new.rows if self.by_query else np.full(len(known), -1)
            self._put(numbers[known].astype(np.int64), rows[known], new.values[known])

    def _put(self, numbers: Ints, rows: Ints, values: Values) -> None:
        order = np.lexsort((rows, numbers))  # equals stay in the order in which they came
        numbers, rows, values = numbers[order], rows[order], values[order]
        other = (np.diff(numbers) != 0) | (np.diff(rows) != 0)
        at = np.r_[0, 1 + np.flatnonzero(other)]
        found = values[at] if self.by_query else np.add.reduceat(values, at)
        groups = (numbers[at], rows[at], found, np.diff(at, append=len(rows)))
        for number, row, value, n in zip(*(column.tolist() for column in groups), strict=True):
            mine = self.cells.setdefault(number, {})
            if row in mine:
                before, n_before = mine[row]
                mine[row] = (before if self.by_query else before + value, n_before + n)
            else:
                mine[row] = (value, n)
                self.held += 1
            self.counts[number] = self.counts.get(number, 0) + n

    def over(self, *, hold: bool = False) -> Iterator[tuple[int, Cells]]:
        """The periods that have come to their end, oldest first; they are given once.

        `hold`: more values are about to come, in no order that one could trust.
        """
        if hold and self.period is not None and self.held <= MOST_OPEN:
            return
        later = sum(self.counts.values())
        for number in sorted(self.cells):
            mine = self.counts[number]
            later -= mine
            if self.period is None:
                ended = mine == self.size
            else:
                ended = not hold and later >= min(LATER, (mine + 1) // 2)
            if not ended and self.held <= MOST_OPEN:
                return
            self.last = number
            del self.counts[number]
            cells = self.cells.pop(number)
            self.held -= len(cells)
            yield number, cells
