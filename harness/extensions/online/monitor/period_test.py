"""Tests whether a mean has become worse, by the mean of each hour, day or week.

Requests of one night or weekend are alike, so the mean of a whole period is one observation. Means
are tested against a given number as in `change.py`. Otherwise each is ranked among earlier means of
its kind (Mondays among Mondays), and bets are made on low ranks (`stats/detector.py`): a weekly
cycle is no change, and one unusual day has little effect. The test assumes no distribution, but
exchangeable periods of each kind. If periods are dependent, use longer ones.
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
"""Values of later periods after which a period ends, so that one wrong time does not end it."""

MOST_OPEN = 20_000
"""Maximum number of cells in open periods; beyond it the oldest period ends. Input out of order
is buffered up to this limit, 54 years of days if all requests of a day share a cell."""

DIGITS = 12
"""Decimal digits of means and differences; smaller ones depend on the order of summation."""

_DAY = 86_400


@dataclass(frozen=True)
class Period:
    """A calendar period. `cycle` periods make a week, after which the kinds repeat.

    `learned` is the default number of reference periods, `recovery` the number that ends an alert.
    """

    name: str
    seconds: int
    cycle: int
    learned: int
    recovery: int

    def number(self, times: Any) -> Any:
        """Returns the number of the period of each time; weeks begin on Monday (1970 did not)."""
        return np.floor_divide(np.asarray(times) + self._shift, self.seconds)

    def start(self, number: int) -> float:
        """Returns the start of a period, in seconds since 1970."""
        return float(number * self.seconds - self._shift)

    def format(self, number: int) -> str:
        """Formats the start of a period."""
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
"""The cells of a period. By row of the labelled queries: the first value, and their number. Or, in
row -1, the sum of all values, and their number."""


UNTIMED = "requests without a valid time"
"""The reason to exclude requests without a period."""


@dataclass
class OpenPeriods(Saved):
    """Open periods: of the calendar if `period` is set, else of `size` values each.

    `by_query`: one cell per query, see `Cells`. `late` counts values of periods that have ended,
    `untimed` those without a time.
    """

    period: Period | None = None
    size: int = 0
    by_query: bool = False
    late: int = 0
    untimed: int = 0
    last: int | None = None  # the newest period that has ended
    cells: dict[int, Cells] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)  # values of each period
    n: int = 0  # values so far, if there is no calendar period
    held: int = 0  # cells of all periods

    STATE = ("late", "untimed", "last", "cells", "counts", "n", "held")

    def add(self, new: Observed) -> None:
        """Adds values in any order."""
        known = np.ones(len(new.values), bool)
        if self.period is None:
            numbers = (self.n + np.arange(len(known))) // self.size
            self.n += len(known)
        else:
            known = ~np.isnan(new.times)
            numbers = self.period.number(new.times)
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

    def ended(self, *, hold: bool = False) -> Iterator[tuple[int, Cells]]:
        """Yields the periods that have ended, oldest first, each once.

        `hold`: values with earlier times may follow.
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
"""Number of periods in the mean that an alert reports; by ranks it takes no fewer to fire."""

SHORT = 0.5
"""A period with fewer requests than this share of its kind's median is excluded."""

_RECOVERED_RANK = 0.5  # mean rank within their kind at which an alert ends


class RankTest(WorseTest):
    """Tests one mean per period against earlier means of its kind.

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
        """Adds the mean of a period; returns an "alert" or "clear" event, or None."""
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
                mean = abs(float(np.mean(learned)))  # negative for a rise
                self.reference = Reference(mean, mean, self.learned)
            return None
        self.n += 1
        wealth = self.players.take(rank_factors(rank, n))
        self.active = bool(wealth[-1] >= self.limit)
        return "alert" if self.active else None

    @property
    def evidence(self) -> float:
        """The logarithm of the wealth over that at which an alert fires."""
        return self.players.nearness(self.limit)

    def _draw(self) -> float:
        """Returns a random number fixed by the rank's position, so the same after a restart."""
        return float(np.random.Generator(np.random.PCG64(0).advance(self.ranked)).random())

    def _recover(self, worth: float, before: list[float]) -> str | None:
        """Compares a period of an active alert; it does not become part of the reference."""
        if before:
            below = np.mean([(one < worth) + (one == worth) / 2 for one in before])
            self.recovering = [*self.recovering, float(below)][-self._recovery :]
        if len(self.recovering) < self._recovery or np.mean(self.recovering) < _RECOVERED_RANK:
            return None
        self.recovering.clear()
        self.players.again()
        self.resolve()
        return "clear"


class PeriodTest(Saved):
    """A test of one metric or rate by the mean of each period; see the module.

    `reference` is a number, or None for the first `learned` periods. The first period is excluded,
    as it may be incomplete. A test by ranks also excludes a period with few requests (counted in
    `short`), as its mean is less precise than those that it would be ranked among.
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
            condition = f"assuming that no {name} is expected to be worse than the reference"
            return Description(text, condition, f"{name}s", excluded=self.excluded)
        kinds = {
            "hour": "stable hours of the week",
            "day": "stable weekdays",
            "week": "stable weeks",
        }
        return Description(
            f"{text} (first {test.learned} {name}s)",
            f"assuming {kinds[name]}",
            f"{name}s",
            min(test.ranked, test.learned),
            test.learned,
            self.excluded,
        )

    @property
    def excluded(self) -> dict[str, int]:
        """Counts what is not tested, by reason."""
        return {
            f"{self.period.name}s with few requests": self.short,
            f"requests after the end of their {self.period.name}": self.open.late,
            UNTIMED: self.open.untimed,
        }

    def take(self, new: Observed | None, *, hold: bool = False) -> list[ChangeEvent]:
        """Adds values; returns events of the periods that have ended. `hold`: see `OpenPeriods`."""
        if new is not None:
            self.open.add(new)
        found = []
        for number, cells in self.open.ended(hold=hold):
            if not self.begun:  # the first period may be incomplete
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
                over = f"last {len(means)} {self.period.name}s"
                time = self.period.start(number + 1)
                found.append(
                    ChangeEvent(event == "alert", float(np.mean(means)), sum(counts), over, time)
                )
        return found

    def _is_short(self, kind: int, n: int) -> bool:
        """Tests whether a period has too few requests to be ranked, compared with its kind.

        The median is of ranked periods; while the reference is learned, of all, to be robust.
        """
        if not isinstance(self.test, RankTest):
            return False  # against a number, a mean of few is unbiased
        usual = self.usual.setdefault(kind, [])
        short = bool(usual) and n < SHORT * median(usual)
        if not short or self.test.reference is None:
            usual.append(n)
        return short


REQUESTS = 1000
"""Requests per look, if looks are not by the calendar."""

_RECOVERED_P = 0.5  # p value of two looks, each on half as many queries, that ends an alert


class PairedTest(WorseTest):
    """Tests one metric query by query against a run's scores, NaN for queries without a score.

    In traffic some queries are frequent, and which ones changes, so the means of traffic and run
    differ even without a change. Instead, each query of a period has one difference: its first
    request from its score in the run. If the two are exchangeable (fixed or redrawn results), the
    sign of the difference is random, which bounds the p value of the sum (`stats/detector.py`). The
    mean of all requests of a query is not exchangeable with a single result.

    All looks share one run and are dependent, so the r-th look has the share `detector.part(r)` of
    alpha: all looks together have alpha, under any dependence. There is a look for each finished
    `period`, or after each `size` requests. `queries` counts the queries at the alert,
    `recovered_looks` the consecutive looks since then that match the run.
    """

    STATE = ("open", "n", "episode", "active", "evidence", "queries", "recovered_looks")

    reference: Reference
    evidence: float = 0.0
    queries: int = 0
    recovered_looks: int = 0

    def __init__(
        self, run_scores: Values, alpha: float, drop: bool, period: Period | None, size: int
    ) -> None:
        self.alpha, self.drop, self.period = alpha, drop, period
        self.open = OpenPeriods(period, size, by_query=True)
        scores = run_scores[~np.isnan(run_scores)]
        mean = float(scores.mean())
        self.reference = Reference(mean, mean, len(scores))
        self._run_scores = run_scores

    @property
    def about(self) -> Description:
        """The description of the test."""
        return Description(
            reference_text=f"{self.reference.mean:.4g} (the run's {self.reference.n} queries)",
            condition="assuming that each query is as likely above its score in the run as below "
            "it, by as much",
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
        for number, cells in self.open.ended(hold=hold):
            found += self._look(cells, number)
        return found

    def _look(self, cells: Cells, number: int) -> list[ChangeEvent]:
        rows = np.array(list(cells))
        scores = np.array([score for score, _ in cells.values()])
        known = ~np.isnan(self._run_scores[rows])
        rows, scores = rows[known], scores[known]
        if not len(rows):
            return []
        differences = np.round(scores - self._run_scores[rows], DIGITS)
        chance = signs_bound(differences if self.drop else -differences)
        over = f"first requests of {len(rows)} queries"
        if self.period is not None:
            over += f" on {self.period.format(number)}"
        over += f"; the run has {self._run_scores[rows].mean():.4g} on them"
        time = None if self.period is None else self.period.start(number + 1)
        event = ChangeEvent(False, float(scores.mean()), len(rows), over, time)
        if self.active:
            if 2 * len(rows) >= self.queries:
                self.recovered_looks = self.recovered_looks + 1 if chance >= _RECOVERED_P else 0
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
