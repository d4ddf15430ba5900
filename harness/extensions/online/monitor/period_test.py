"""Tests whether a mean has become worse, by the mean of each hour, day or week.

Requests of one night or weekend are alike, so the mean of a whole period is one observation.
Against a number that was set, these means are tested as in `change.py`. If the reference is the
stream itself, each mean is ranked among those of its kind before it (Mondays among Mondays), and
bets are made on low ranks (`stats/detector.py`): a weekly cycle is no change, one odd
day says little, and the reference keeps growing. This assumes no distribution, but that the periods
of each kind are exchangeable. If one depends on the one before, as in a drift of many days, longer
periods are needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import median
from typing import Any

import numpy as np

from harness.extensions.online.monitor.change import (
    ChangeEvent,
    Description,
    MeanTest,
    Observed,
    Saved,
    Values,
    WorseTest,
)
from harness.extensions.online.monitor.records import Reference
from harness.stats.detector import STAKES, Detector, lowest_rank, part, rank_factors, signs_bound

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
        rows = new.rows if self.by_query else np.full(len(known), -1)
        columns = (numbers[known].astype(np.int64), rows[known], new.values[known])
        for number, row, value in zip(*(column.tolist() for column in columns), strict=True):
            mine = self.cells.setdefault(number, {})
            self.held += row not in mine
            first, n = mine.get(row, (value, 0))
            mine[row] = (first if self.by_query or n == 0 else first + value, n + 1)
            self.counts[number] = self.counts.get(number, 0) + 1

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


SHOWN = 3
"""An alert names the mean of so many periods; by ranks it takes no fewer to fire."""

SHORT = 0.5
"""A period with fewer requests than this share of what is usual for its kind is left out."""

_BACK = 0.5  # the mean rank of periods within their kind from which an alert ends


class RankTest(WorseTest):
    """The test of one mean a period against those of its kind before it.

    The first `learned` are not tested.
    """

    STATE = ("reference", "n", "episode", "active", "ranked", "players", "before", "recovering")

    ranked: int = 0
    players: Detector
    before: dict[int, list[float]]
    recovering: list[float]

    def __init__(self, alpha: float, drop: bool, learned: int, recovery: int) -> None:
        self.alpha, self.drop, self.learned = alpha, drop, learned
        self._recovery = recovery
        self.players = Detector(len(STAKES))
        self.before = {}
        self.recovering = []

    def update(self, value: float, kind: int) -> str | None:
        """Take in the mean of a period; returns an "alert" or "clear" event."""
        before = self.before.setdefault(kind, [])
        worth = value if self.drop else -value
        if self.active:
            return self._recover(worth, before)
        rank, n = lowest_rank(worth, before, self._draw), len(before) + 1
        before.append(worth)
        self.ranked += 1
        if self.reference is None:
            if self.ranked == self.learned:
                learned = [one for values in self.before.values() for one in values]
                mean = abs(float(np.mean(learned)))  # of a rise it is below 0
                self.reference = Reference(mean, mean, self.learned)
            return None
        self.n += 1
        wealth = self.players.take(rank_factors(rank, n))
        self.active = bool(wealth[-1] >= self.limit)
        return "alert" if self.active else None

    @property
    def evidence(self) -> float:
        """The logarithm of the wealth, as a share of that at which an alert fires."""
        return self.players.nearness(self.limit)

    def _draw(self) -> float:
        """A number by chance, of this rank's place in one stream: the same after a restart."""
        return float(np.random.Generator(np.random.PCG64(0).advance(self.ranked)).random())

    def _recover(self, worth: float, before: list[float]) -> str | None:
        """Compares a period of an active alert; it does not become part of the reference."""
        if before:
            below = np.mean([(one < worth) + (one == worth) / 2 for one in before])
            self.recovering = [*self.recovering, float(below)][-self._recovery :]
        if len(self.recovering) < self._recovery or np.mean(self.recovering) < _BACK:
            return None
        self.recovering.clear()
        self.players.again()
        self.resolve()
        return "clear"


class PeriodTest(Saved):
    """A test of one metric or rate by the mean of each period; see above.

    `reference` is a number, or None for the first `learned` periods. The first period of all is
    left out, as it may not be whole; so is, of ranks, one with few requests (`short`
    counts them), as its mean is less sure than those that it would be ranked among.
    """

    STATE = ("open", "test", "begun", "short", "usual", "last")

    test: RankTest | MeanTest
    begun: bool = False
    short: int = 0
    usual: dict[int, list[int]]
    last: list[tuple[float, int]]

    def __init__(
        self,
        period: Period,
        alpha: float,
        drop: bool,
        reference: float | None = None,
        learned: int | None = None,
    ) -> None:
        self.period, self.open = period, OpenPeriods(period)
        if reference is None:
            self.test = RankTest(alpha, drop, learned or period.learned, period.recovery)
        else:
            set_ = Reference(reference, reference)
            self.test = MeanTest(alpha, drop, set_, batch=1, entry=1, recovery=period.recovery)
        self.usual = {}
        self.last = []

    @property
    def about(self) -> Description:
        """The description of the test."""
        name, test = self.period.name, self.test
        text = "" if test.reference is None else f"{test.reference.mean:.4g}"
        if not isinstance(test, RankTest):
            condition = f"if no {name} is expected to be worse, whatever came before it"
            return Description(text, condition, f"{name}s", excluded=self.excluded)
        kinds = {
            "hour": "each hour is like the same hours of the weeks before",
            "day": "each weekday is like the same weekdays before",
            "week": "each week is like those before",
        }
        return Description(
            f"{text} (the first {test.learned} {name}s)",
            f"if {kinds[name]}, but for chance",
            f"{name}s",
            min(test.ranked, test.learned),
            test.learned,
            self.excluded,
        )

    @property
    def excluded(self) -> dict[str, int]:
        """Counts of what is in no test, by reason."""
        return {
            f"{self.period.name}s with few requests": self.short,
            f"requests after the end of their {self.period.name}": self.open.late,
            UNTIMED: self.open.untimed,
        }

    def take(self, new: Observed | None, *, hold: bool = False) -> list[ChangeEvent]:
        """Adds values; returns events of the periods that are over. `hold`: see `OpenPeriods`."""
        if new is not None:
            self.open.add(new)
        found = []
        for number, cells in self.open.over(hold=hold):
            if not self.begun:  # the first of all may not be whole
                self.begun = True
                continue
            total, n = cells[-1]
            mean = round(total / n, DIGITS)
            kind = number % self.period.cycle
            if self._is_short(kind, n):
                self.short += 1
                continue
            self.last = [*self.last, (mean, n)][-SHOWN:]
            if isinstance(self.test, RankTest):
                event = self.test.update(mean, kind)
            else:
                event = next(iter(self.test.update([mean])), None)
            if event is not None:
                means, counts = zip(*self.last, strict=True)
                over = f"over the last {len(means)} {self.period.name}s"
                time = self.period.start(number + 1)
                found.append(
                    ChangeEvent(event == "alert", float(np.mean(means)), sum(counts), over, time)
                )
        return found

    def _is_short(self, kind: int, n: int) -> bool:
        """Whether a period is not to be ranked. What is usual is that of periods that were ranked.

        And of all while the reference is learned, so that one odd period does not set it.
        """
        if not isinstance(self.test, RankTest):
            return False  # of a number a mean of few is as right, if less sure
        usual = self.usual.setdefault(kind, [])
        short = bool(usual) and n < SHORT * median(usual)
        if not short or self.test.reference is None:
            usual.append(n)
        return short


REQUESTS = 1000
"""Requests of a look, where they are not taken by the calendar."""

_BACK = 0.5  # the p value from which, in two looks on half as many queries, an alert ends


class PairedTest(WorseTest):
    """A test, query by query, of one metric against a run's scores, NaN where it has none.

    A run asks each query once; in traffic some queries are frequent, and which ones changes. So the
    two means differ without a change. Instead, each query that was asked in a period has one
    difference, of its first request there from its score in the run. If the two are exchangeable,
    the difference is as likely above 0 as below, by as much, which bounds the chance of the sum of
    the signs (`stats/detector.py`). They are exchangeable if answers never change, if each
    answer is a new draw of the same chance, or if the system drew once, when it was built. The mean
    of all requests would be a better estimate, but it is not exchangeable with that of the run: of
    100 queries with a chance of 0.99, the run may have all right, and the means of many requests
    are nearly all below it.

    The differences of two days are dependent, as the run is the same, so nothing is multiplied over
    days: the r-th look has the part `detector.part(r)` of alpha. All looks together have alpha,
    however dependent they are.

    A look at each `period` that is over, or after each `size` requests. `queries` are those of the
    look at which the alert fired, `recovered_looks` those in a row since then that were as the run.
    """

    STATE = ("open", "n", "episode", "active", "evidence", "queries", "recovered_looks")

    reference: Reference
    evidence: float = 0.0
    queries: int = 0
    recovered_looks: int = 0

    def __init__(
        self, of_run: Values, alpha: float, drop: bool, period: Period | None, size: int
    ) -> None:
        self.alpha, self.drop, self.period = alpha, drop, period
        self.open = OpenPeriods(period, size, by_query=True)
        scores = of_run[~np.isnan(of_run)]
        mean = float(scores.mean())
        self.reference = Reference(mean, mean, len(scores))
        self._of_run = of_run

    @property
    def about(self) -> Description:
        """The description of the test."""
        return Description(
            reference_text=f"{self.reference.mean:.4g} (the run's {self.reference.n} queries)",
            condition="if each query, for itself, is as likely above its score in the run as "
            "below it, by as much",
            observation_unit="looks" if self.period is None else f"{self.period.name}s",
            excluded={
                "late requests": self.open.late,
                UNTIMED: self.open.untimed,
            },
        )

    def take(self, new: Observed | None, *, hold: bool = False) -> list[ChangeEvent]:
        """Adds values; returns the events of the looks that are due. `hold`: see `OpenPeriods`."""
        if new is not None:
            self.open.add(new)
        found = []
        for number, cells in self.open.over(hold=hold):
            found += self._look(cells, number)
        return found

    def _look(self, cells: Cells, number: int) -> list[ChangeEvent]:
        rows = np.array(list(cells))
        scores = np.array([score for score, _ in cells.values()])
        known = ~np.isnan(self._of_run[rows])
        rows, scores = rows[known], scores[known]
        if not len(rows):
            return []
        differences = np.round(scores - self._of_run[rows], DIGITS)
        chance = signs_bound(differences if self.drop else -differences)
        over = f"over the first request of {len(rows)} queries each, where the run has "
        over += f"{self._of_run[rows].mean():.4g}"
        if self.period is not None:
            over += f", on {self.period.format(number)}"
        time = None if self.period is None else self.period.start(number + 1)
        event = ChangeEvent(False, float(scores.mean()), len(rows), over, time)
        if self.active:
            if 2 * len(rows) >= self.queries:
                self.recovered_looks = self.recovered_looks + 1 if chance >= _BACK else 0
            if self.recovered_looks < 2:
                return []
            self.resolve()
            return [event]
        self.n += 1
        limit = float(part(self.n)) / self.limit
        self.evidence = min(1.0, float(np.log(chance) / np.log(limit)))
        if chance > limit:
            return []
        self.active, self.queries, self.recovered_looks = True, len(rows), 0
        return [event._replace(alert=True)]
