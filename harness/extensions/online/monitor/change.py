"""Tests whether the mean of an endless stream is worse than a reference, valid at any time.

Null hypothesis: given all values before it, the next value has a mean no worse than the reference
m. Bets on worse values multiply a wealth of 1 by 1 + c ((1 - x) / (1 - m) - 1), for values x in
[0, 1] and shares c (`stats/betting.py`). New bets start continually, as the time of a change is
unknown. The probability of any false alarm, ever, is at most alpha (`stats/detector.py`).

Half of alpha covers the uncertainty of a measured reference: m is the end of its betting interval.
After an alert is resolved, episode r gets the share 1 / (r (r + 1)) of alpha; all shares sum to 1.

If values are dependent in runs (ten hard questions of one user, a night), there are more false
alarms. So means over `batch` values are tested, and `batch` must cover such a run; `period_test.py`
handles calendar effects. `tests/benchmarks/change_detection.md` has the false-alarm rates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, NamedTuple, get_type_hints

import msgspec
import numpy as np
import numpy.typing as npt

from harness.extensions.online.monitor.records import Reference
from harness.stats.betting import SHARES, betting_interval
from harness.stats.detector import Detector


class Saved:
    """A part of a monitor with the attributes `STATE` in the state file, converted by type."""

    STATE: ClassVar[tuple[str, ...]] = ()

    def state(self) -> dict[str, Any]:
        """Returns the attributes to encode, with the states of nested parts."""
        values = {name: getattr(self, name) for name in self.STATE}
        return {n: v.state() if isinstance(v, Saved) else v for n, v in values.items()}

    def resume(self, state: Mapping[str, Any]) -> None:
        """Restores a decoded state."""
        kinds = get_type_hints(type(self))
        for name in self.STATE:
            mine = getattr(self, name)
            if isinstance(mine, Saved):
                mine.resume(state[name])
            else:
                setattr(self, name, msgspec.convert(state[name], kinds[name], str_keys=True))


ENTRY = 10
"""Batches between new players: a larger number detects late, a smaller one splits the wealth."""

RECOVERY = 500
"""Values after an alert; if their mean is no worse than the reference, the alert is cleared."""

_TOGETHER = 64  # batches between two checks for an alert
_NEAREST = 1e-4  # minimum distance of a reference from 0 and 1, where bets are unbounded

Values = npt.NDArray[np.float64]


class Observed(NamedTuple):
    """New values of one metric or rate, in the order of their requests.

    `times` in seconds since 1970, NaN if unknown; `rows` of labelled queries, else -1.
    """

    values: Values
    times: Values
    rows: npt.NDArray[np.int64]


class ChangeEvent(NamedTuple):
    """The start or the end of an alert of a test. `value` None: use the window's current value.

    `over` describes the `n` requests that `value` is a mean of; `time` is when it happened.
    """

    alert: bool
    value: float | None = None
    n: int = 0
    over: str = ""
    time: float | None = None


@dataclass(frozen=True)
class Description:
    """The description of a change test.

    `reference_text`: what it compares with; `condition`: when the false-alarm rate holds;
    `observation_unit`: what is tested. While the reference is measured, `learned` of `to_learn`
    values are available. `excluded` counts requests or periods that are not tested, by reason.
    """

    reference_text: str
    condition: str
    observation_unit: str
    learned: int | None = None
    to_learn: int | None = None
    excluded: dict[str, int] = field(default_factory=dict)


def measure_reference(values: npt.ArrayLike, alpha: float, *, drop: bool) -> Reference:
    """Measures a reference on `values` in [0, 1]; `alpha` covers its uncertainty."""
    x = np.asarray(values, np.float64)
    low, high = betting_interval(x, level=1 - 2 * alpha)
    return Reference(float(x.mean()), low if drop else high, len(x))


class WorseTest(Saved):
    """Base class of tests: an alert, and a new episode with less alpha after it is resolved.

    `alpha` bounds the probability of any false alarm, ever. `drop`: worse is lower. `n` counts
    values tested since the start or the last resolved alert. `reference` None: not yet measured.
    """

    alpha: float
    drop: bool
    reference: Reference | None = None
    n: int = 0
    episode: int = 1
    active: bool = False

    @property
    def testable(self) -> bool:
        """False if the reference is so bad that nothing can be worse."""
        return self.reference is None or self.reference.bound != (0 if self.drop else 1)

    @property
    def limit(self) -> float:
        """The wealth at which an alert fires."""
        return self.episode * (self.episode + 1) / self.alpha

    def resolve(self) -> None:
        """Ends an alert."""
        self.active, self.n, self.episode = False, 0, self.episode + 1


@dataclass
class MeanTest(WorseTest):
    """The test of one mean.

    `reference` None: the mean of the first `first` values, which are not tested. `batch`: the test
    uses means over this many values; a player enters every `entry` batches. An alert ends after
    `recovery` values with a mean no worse than the reference.
    """

    alpha: float = 0.05
    drop: bool = True
    reference: Reference | None = None
    first: int = 2000
    batch: int = 10
    entry: int = ENTRY
    recovery: int = RECOVERY
    pending: list[float] = field(default_factory=list)  # of a reference, batch or recovery
    players: Detector = field(init=False)

    STATE = ("reference", "n", "episode", "active", "pending", "players")

    def __post_init__(self) -> None:
        self.players = Detector(len(SHARES), self.entry)

    def take(self, new: Observed | None, *, hold: bool = False) -> list[ChangeEvent]:
        """Adds values in the order of the requests; `hold` has no effect."""
        return [] if new is None else [ChangeEvent(one == "alert") for one in self.update(new[0])]

    @property
    def about(self) -> Description:
        """The description of the test."""
        reference = self.reference
        n = "" if reference is None or reference.n is None else f" (n {reference.n})"
        return Description(
            reference_text="" if reference is None else f"{reference.mean:.4g}{n}",
            condition=f"assuming that no {self.batch} consecutive requests are expected to be "
            "worse than the reference",
            observation_unit="requests",
            learned=len(self.pending) if reference is None else self.first,
            to_learn=self.first,
        )

    def update(self, values: npt.ArrayLike) -> list[str]:
        """Adds values in [0, 1]; returns "alert" and "clear" events, in order."""
        events: list[str] = []
        rest = np.asarray(values, np.float64).tolist()
        while rest:
            if self.reference is None:
                rest = self._learn(rest)
            elif self.active:
                rest = self._recover(rest, self.reference, events)
            else:
                rest = self._test(rest, self.reference, events)
        return events

    @property
    def limit(self) -> float:
        """The wealth at which an alert fires; half of alpha covers a measured reference."""
        measured = self.reference is not None and self.reference.n is not None
        return super().limit * (2 if measured else 1)

    @property
    def evidence(self) -> float:
        """The logarithm of the wealth over that at which an alert fires."""
        return self.players.nearness(self.limit)

    def _worth(self, value: float) -> float:
        """Maps a value to a scale on which lower is worse."""
        return value if self.drop else 1 - value

    def _learn(self, rest: list[float]) -> list[float]:
        room = self.first - len(self.pending)
        self.pending += rest[:room]
        if len(self.pending) == self.first:
            whole = self.first // self.batch * self.batch
            means = np.reshape(self.pending[:whole], (-1, self.batch)).mean(axis=1)
            self.reference = measure_reference(means, self.alpha / 2, drop=self.drop)
            self.reference = replace(self.reference, n=whole)
            self.pending = []
        return rest[room:]

    def _test(self, rest: list[float], reference: Reference, events: list[str]) -> list[float]:
        if not self.testable:
            return []
        waiting = self.pending + rest
        whole = len(waiting) // self.batch * self.batch
        values = np.reshape(waiting[:whole], (-1, self.batch)).mean(axis=1)
        self.pending = waiting[whole:]
        bound = min(self._worth(reference.bound), 1 - _NEAREST)
        x = values if self.drop else 1 - values
        for start in range(0, len(x), _TOGETHER):
            odds = (1 - x[start : start + _TOGETHER]) / (1 - bound)
            held = self.players.take(1 + SHARES * (odds - 1)[:, None])
            over = np.flatnonzero(held >= self.limit)
            if len(over):
                used = start + int(over[0]) + 1
                self.n += used * self.batch
                self.active = True
                events.append("alert")
                left = np.repeat(values[used:], self.batch).tolist() + self.pending
                self.pending = []
                return left
        self.n += len(x) * self.batch
        return []

    def _recover(self, rest: list[float], reference: Reference, events: list[str]) -> list[float]:
        room = self.recovery - len(self.pending)
        self.pending += rest[:room]
        if len(self.pending) == self.recovery:
            mean = sum(self.pending) / self.recovery
            self.pending = []
            if self._worth(mean) >= self._worth(reference.bound):
                self.resolve()
                self.players.again()
                events.append("clear")
        return rest[room:]
