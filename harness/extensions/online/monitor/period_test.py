"""Tests whether a mean has become worse, by the mean of each hour, day or week.

Requests of one night or weekend are alike, so the mean of a whole period is one observation.
Against a number that was set, these means are tested as in `change.py`. If the reference is the
stream itself, each mean is ranked among those of its kind before it (Mondays among Mondays), and
bets are made on low ranks (`stats/signs_and_ranks.py`): a weekly cycle is no change, one odd
day says little, and the reference keeps growing. This assumes no distribution, but that the periods
of each kind are exchangeable. If one depends on the one before, as in a drift of many days, longer
periods are needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import numpy as np

from harness.extensions.online.monitor.calendar import DIGITS, UNTIMED, Cells, OpenPeriods, Period
from harness.extensions.online.monitor.change import ChangeEvent, Description, MeanTest, Observed
from harness.extensions.online.monitor.records import Reference
from harness.extensions.online.monitor.saved import Saved
from harness.stats.detector import Detector
from harness.stats.signs_and_ranks import STAKES, lowest_rank, rank_factors

SHOWN = 3
"""An alert names the mean of so many periods; by ranks it takes no fewer to fire."""

SHORT = 0.5
"""A period with fewer requests than this share of what is usual for its kind is left out."""

_BACK = 0.5  # the mean rank of periods within their kind from which an alert ends


class RankTest(Saved):
    """The test of one mean a period against those of its kind before it, with `MeanTest`'s face.

    `alpha` is the chance of any false alarm, ever; the first `learned` are not tested.
    """

    STATE = ("reference", "n", "episode", "active", "ranked", "players", "before", "recovering")

    n: int = 0
    episode: int = 1
    active: bool = False
    ranked: int = 0
    reference: Reference | None = None
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
        self.active = bool(wealth[-1] >= self._limit())
        return "alert" if self.active else None

    @property
    def testable(self) -> bool:
        """False where the reference is so bad that nothing can be worse."""
        return self.reference is None or self.reference.mean != (0 if self.drop else 1)

    @property
    def learning(self) -> int:
        """How many periods of the reference there are."""
        return min(self.ranked, self.learned)

    @property
    def evidence(self) -> float:
        """The logarithm of the wealth, as a share of that at which an alert fires."""
        return self.players.nearness(self._limit())

    def _limit(self) -> float:
        return self.episode * (self.episode + 1) / self.alpha

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
        self.active, self.n, self.episode = False, 0, self.episode + 1
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
    def reference(self) -> Reference | None:
        """What is worse than this is a change; None while it is being learned."""
        return self.test.reference

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
            test.learning,
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
        for number, cells in self._whole(hold):
            total, n = cells[-1]
            mean = round(total / n, DIGITS)
            kind = number % self.period.cycle
            if self._is_short(kind, n):
                self.short += 1
                continue
            self.last = [*self.last, (mean, n)][-SHOWN:]
            if event := self._tested(mean, kind):
                found.append(self._event(event, number))
        return found

    def _whole(self, hold: bool) -> Iterator[tuple[int, Cells]]:
        """The periods that are over, but for the first of all."""
        for number, cells in self.open.over(hold=hold):
            if self.begun:
                yield number, cells
            self.begun = True

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

    def _tested(self, mean: float, kind: int) -> str | None:
        if isinstance(self.test, RankTest):
            return self.test.update(mean, kind)
        return next(iter(self.test.update([mean])), None)

    def _event(self, event: str, number: int) -> ChangeEvent:
        means, counts = zip(*self.last, strict=True)
        over = f"over the last {len(means)} {self.period.name}s"
        return ChangeEvent(
            event == "alert",
            float(np.mean(means)),
            sum(counts),
            over,
            self.period.start(number + 1),
        )
