"""Tests query by query whether requests have lower scores than a run.

A run asks each query once; in traffic some queries are frequent, and which ones changes. So the two
means differ without a change. Instead, each query that was asked in a period has one difference, of
its first request there from its score in the run. If the two are exchangeable, the difference is as
likely above 0 as below, by as much, which bounds the chance of the sum of the signs
(`stats/signs_and_ranks.py`). They are exchangeable if answers never change, if each answer is
a new draw of the same chance, or if the system drew once, when it was built. The mean of all
requests would be a better estimate, but it is not exchangeable with that of the run: of 100 queries
with a chance of 0.99, the run may have all right, and the means of many requests are nearly all
below it.

The differences of two days are dependent, as the run is the same, so nothing is multiplied over
days: the r-th look has the part `detector.part(r)` of alpha. All looks together have alpha, however
dependent they are.
"""

from __future__ import annotations

import numpy as np

from harness.extensions.online.monitor.calendar import DIGITS, UNTIMED, Cells, OpenPeriods, Period
from harness.extensions.online.monitor.change import ChangeEvent, Description, Observed, Values
from harness.extensions.online.monitor.records import Reference
from harness.extensions.online.monitor.saved import Saved
from harness.stats.detector import part
from harness.stats.signs_and_ranks import signs_bound

REQUESTS = 1000
"""Requests of a look, where they are not taken by the calendar."""

_BACK = 0.5  # the p value from which, in two looks on half as many queries, an alert ends


class PairedTest(Saved):
    """A test of one metric against a run's scores of the labelled queries, NaN where it has none.

    A look at each `period` that is over, or after each `size` requests. `queries` are those of the
    look at which the alert fired, `recovered_looks` those in a row since then that were as the run.
    """

    STATE = ("open", "n", "episode", "active", "evidence", "queries", "recovered_looks")

    n: int = 0
    episode: int = 1
    active: bool = False
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
    def testable(self) -> bool:
        """False where the run is so bad that nothing can be worse."""
        return self.reference.mean != (0 if self.drop else 1)

    @property
    def about(self) -> Description:
        """The description of the test."""
        return Description(
            reference=f"{self.reference.mean:.4g} (the run's {self.reference.n} queries)",
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
            self.active, self.n, self.episode = False, 0, self.episode + 1
            return [event]
        self.n += 1
        limit = self.alpha / (self.episode * (self.episode + 1)) * float(part(self.n))
        self.evidence = min(1.0, float(np.log(chance) / np.log(limit)))
        if chance > limit:
            return []
        self.active, self.queries, self.recovered_looks = True, len(rows), 0
        return [event._replace(alert=True)]
