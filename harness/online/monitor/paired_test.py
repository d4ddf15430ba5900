"""Are requests worse than a run was? Query by query, for a run asks each once and traffic does not.

The mean over a run's queries and the mean over requests are means of different things: what is
asked often weighs more in the second, and what is asked often changes. So each query that was
asked in a period has one difference, of its first request there from its score in the run, and
counts once. If the two might as well be exchanged, the difference is as likely above 0 as below, by
as much, and the sum's chance has a bound by signs (`statistics/signs_and_ranks.py`). That is so
where a query is answered alike at any time, where each answer is a draw of one chance, and where
the system drew anew when it was built and answers alike since. The mean of all requests is nearer to
the truth, but cannot be exchanged with the one of the run: of 100 queries with a chance of 0.99,
the run may have all right, and the means of many requests are below it nearly all.

The differences of two days hang together, as the run is the same; so nothing is multiplied over
days: the r-th look has the part `detector.part(r)` of alpha, and all of them together have alpha,
however they hang together.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from harness.online.monitor.calendar import DIGITS, UNTIMED, Cells, OpenPeriods, Period
from harness.online.monitor.change import ChangeEvent, Observed, Reference, TestDescription, Values
from harness.statistics.detector import part
from harness.statistics.signs_and_ranks import signs_bound

RECALLS = 1000
"""Requests of a look, where they are not taken by the calendar."""

_BACK = 0.5  # a chance from which on, in two looks on half as many queries, an alarm ends


class PairedTest:
    """A test of one metric against a run's scores of the labelled queries, NaN where it has none.

    A look at each `period` that is over, or after each `size` requests.
    """

    def __init__(
        self, of_run: Values, alpha: float, drop: bool, period: Period | None, size: int
    ) -> None:
        self.alpha, self.drop, self.period = alpha, drop, period
        self.open = OpenPeriods(period, size, by_query=True)
        scores = of_run[~np.isnan(of_run)]
        mean = float(scores.mean())
        self.reference = Reference(mean, mean, len(scores))
        self.n, self.episode, self.alarmed = 0, 1, False
        self.evidence = 0.0
        self._of_run = of_run
        self._queries = 0  # in the look that raised the alarm
        self._well = 0  # looks in a row since then that were as the run

    @property
    def testable(self) -> bool:
        """False where the run is so bad that nothing can be worse."""
        return self.reference.mean != (0 if self.drop else 1)

    @property
    def about(self) -> TestDescription:
        """What is said of it."""
        return TestDescription(
            held_to=f"{self.reference.mean:.4g} (the run's {self.reference.n} queries)",
            condition="if each query, for itself, is as likely above its score in the run as "
            "below it, by as much",
            unit="looks" if self.period is None else f"{self.period.name}s",
            left_out={
                "requests that came too late": self.open.late,
                UNTIMED: self.open.untimed,
            },
        )

    def take(self, new: Observed | None, *, hold: bool = False) -> list[ChangeEvent]:
        """Take in values; gives what the looks that are due bring about. `hold`: see `OpenPeriods`."""
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
        held = f"over the first request of {len(rows)} queries each, where the run has "
        held += f"{self._of_run[rows].mean():.4g}"
        if self.period is not None:
            held += f", on {self.period.told(number)}"
        time = None if self.period is None else self.period.start(number + 1)
        event = ChangeEvent(False, float(scores.mean()), len(rows), held, time)
        if self.alarmed:
            if 2 * len(rows) >= self._queries:
                self._well = self._well + 1 if chance >= _BACK else 0
            if self._well < 2:
                return []
            self.alarmed, self.n, self.episode = False, 0, self.episode + 1
            return [event]
        self.n += 1
        limit = self.alpha / (self.episode * (self.episode + 1)) * float(part(self.n))
        self.evidence = min(1.0, np.log(chance) / np.log(limit))
        if chance > limit:
            return []
        self.alarmed, self._queries, self._well = True, len(rows), 0
        return [event._replace(alarm=True)]

    def state(self) -> dict[str, Any]:
        """JSON for `resume`."""
        return {
            "open": self.open.state(),
            "n": [self.n, self.episode, self._queries, self._well],
            "alarmed": self.alarmed,
            "evidence": self.evidence,
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Take up where `state` left."""
        self.open.resume(state["open"])
        self.n, self.episode, self._queries, self._well = state["n"]
        self.alarmed, self.evidence = state["alarmed"], state["evidence"]
