"""Has a mean over an endless stream become worse than a reference? A test to look at at all times.

The null is that the coming value, given all before it, has a mean no worse than the reference. Who
doubts it bets on each value being worse: a share c of a capital of 1 becomes
prod(1 + c ((1 - x) / (1 - m) - 1)) for values x in [0, 1], a reference m and worse meaning lower.
Under the null this is a nonnegative supermartingale. As a change may come at any time, a new player
enters every `ENTRY` batches, with a part w_j of the money; the parts sum to 1, so all players
together (with what is not handed out yet) are such a process too, and by Ville's inequality the
chance that they *ever* hold 1 / alpha is at most alpha: over the whole stream, however often one
looks. This is the Shiryaev-Roberts e-detector of Shin, Ramdas & Rinaldo (2024, New England Journal
of Statistics in Data Science 2) with weights that sum to 1, which turns its guarantee on the
average run length into one on the chance of any false alarm; the price is a delay that grows with
the logarithm of how long the stream has run. Players spread their money over the shares of
`statistics/betting.py`.

A reference that was measured is not known exactly. Half of alpha is for it: m is the end of the
betting interval of its batches, so a true mean worse than m has at most that chance, and the other
half is for the stream. After an alarm that was cleared the test begins again with less alpha:
episode r has 1 / (r (r + 1)) of it, which sums to 1 over all.

What it cannot tell: why. Harder questions make a mean fall as a broken index does (see drift). And
the null is about every next value, given those before: where values come in bouts (one user's ten
hard questions in a row) it does not hold value by value, and alpha is exceeded by far. So means
over `batch` values are tested, and `batch` has to be as long as the bouts are
(`tests/benchmarks/monitor.md` has the rates of false alarms).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.statistics.betting import SHARES, betting_interval

ENTRY = 10
"""A new player enters every so many batches: fewer would notice late, more have less money each."""

RECOVERY = 500
"""So many values after an alarm must together be no worse than the reference to clear it."""

_NORMALISER = 2.10974280123689  # the sum over j >= 1 of 1 / ((j + 1) log(j + 1)^2)
_TOGETHER = 64  # values taken in one step; products of so many factors stay far from the limits
_NEAREST = 1e-4  # of a reference to 0 and 1: bets there would have no limit

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Reference:
    """What a mean is held against: `mean` of `n` values, and `bound`, how bad it may really be.

    `n` None: a number that somebody set, which has no uncertainty.
    """

    mean: float
    bound: float
    n: int | None = None


def reference_of(values: npt.ArrayLike, alpha: float, *, drop: bool) -> Reference:
    """The reference that was measured on `values` in [0, 1]; `alpha` is for its uncertainty."""
    x = np.asarray(values, np.float64)
    low, high = betting_interval(x, level=1 - 2 * alpha)
    return Reference(float(x.mean()), low if drop else high, len(x))


@dataclass
class Change:
    """The test of one mean. Plain numbers: `state()` is JSON, `resume` takes it up again.

    `alpha` is the chance of any false alarm, ever. `drop`: worse is lower. `reference` is a number,
    or None: then the mean of the first `first` values, which are not tested. `batch`: means over so
    many values are tested instead of each.
    """

    alpha: float = 0.05
    drop: bool = True
    reference: Reference | None = None
    first: int = 2000
    batch: int = 10
    n: int = 0  # values tested since the test began (anew)
    episode: int = 1
    alarmed: bool = False
    _money: Values = field(default_factory=lambda: np.zeros(len(SHARES)))
    _step: int = 0
    _pending: list[float] = field(default_factory=list)  # of the reference, a batch or a recovery

    def update(self, values: npt.ArrayLike) -> list[str]:
        """Take in values in [0, 1]; gives "alarm" and "clear" as they came about, in order."""
        said: list[str] = []
        rest = np.asarray(values, np.float64).tolist()
        while rest:
            if self.reference is None:
                rest = self._learn(rest)
            elif self.alarmed:
                rest = self._recover(rest, said)
            else:
                rest = self._test(rest, said)
        return said

    @property
    def testable(self) -> bool:
        """False where the reference is so bad that nothing can be shown to be worse."""
        return self.reference is None or self._worth(self.reference.bound) > 0

    @property
    def evidence(self) -> float:
        """How far the money is to an alarm, from 0 to 1, on a scale of logarithms; 1 is there."""
        held = float(self._money.mean())
        return min(1.0, max(0.0, math.log(max(held, 1.0)) / math.log(self._limit())))

    def _worth(self, value: float) -> float:
        """On the scale where lower is worse."""
        return value if self.drop else 1 - value

    def _learn(self, rest: list[float]) -> list[float]:
        room = self.first - len(self._pending)
        self._pending += rest[:room]
        if len(self._pending) == self.first:
            whole = len(self._pending) // self.batch * self.batch
            means = np.reshape(self._pending[:whole], (-1, self.batch)).mean(axis=1)
            self.reference = reference_of(means, self.alpha / 2, drop=self.drop)
            self.reference = replace(self.reference, n=whole)
            self._pending = []
        return rest[room:]

    def _limit(self) -> float:
        share = 1.0 if self.reference is None or self.reference.n is None else 0.5
        return self.episode * (self.episode + 1) / (self.alpha * share)

    def _test(self, rest: list[float], said: list[str]) -> list[float]:
        if not self.testable:
            return []
        if self.batch > 1:
            values, rest = self._batched(rest)
        else:
            values, rest = rest[:_TOGETHER], rest[_TOGETHER:]
        assert self.reference is not None
        bound = min(self._worth(self.reference.bound), 1 - _NEAREST)
        x = np.array([self._worth(value) for value in values])
        for start in range(0, len(x), _TOGETHER):
            held = self._bet(x[start : start + _TOGETHER], bound)
            over = np.flatnonzero(held >= self._limit())
            if len(over):
                used = start + int(over[0]) + 1
                self.n += used * self.batch
                self.alarmed = True
                said.append("alarm")
                left = [one for one in values[used:] for _ in range(self.batch)] + self._pending
                self._pending = []
                return left + rest
        self.n += len(x) * self.batch
        return rest

    def _batched(self, rest: list[float]) -> tuple[list[float], list[float]]:
        """Means of whole batches; what is left of them waits."""
        all_ = self._pending + rest
        whole = len(all_) // self.batch * self.batch
        self._pending = all_[whole:]
        return np.reshape(all_[:whole], (-1, self.batch)).mean(axis=1).tolist(), []

    def _bet(self, x: Values, bound: float) -> Values:
        """The money of all players after each of at most `_TOGETHER` values."""
        if not len(x):
            return np.zeros(0)
        factors = 1 + SHARES * (((1 - x) / (1 - bound) - 1)[:, None])
        grown = factors.cumprod(axis=0)
        steps = self._step + np.arange(len(x))
        enters = steps % ENTRY == 0
        j = steps // ENTRY + 1
        money = np.where(enters, 1 / (_NORMALISER * (j + 1) * np.log(j + 1) ** 2), 0.0)
        before = np.vstack([np.ones_like(SHARES), grown[:-1]])
        held = grown * (self._money + (money[:, None] / before).cumsum(axis=0))
        self._money = held[-1]
        self._step += len(x)
        return np.asarray(held.mean(axis=1))

    def _recover(self, rest: list[float], said: list[str]) -> list[float]:
        room = RECOVERY - len(self._pending)
        self._pending += rest[:room]
        if len(self._pending) == RECOVERY:
            assert self.reference is not None
            mean = sum(self._pending) / RECOVERY
            self._pending = []
            if self._worth(mean) >= self._worth(self.reference.bound):
                self._again()
                said.append("clear")
        return rest[room:]

    def _again(self) -> None:
        self.alarmed, self.n, self._step = False, 0, 0
        self.episode += 1
        self._money = np.zeros(len(SHARES))
        self._pending = []

    def state(self) -> dict[str, Any]:
        """Everything that is to survive a restart."""
        reference = self.reference
        return {
            "reference": reference and [reference.mean, reference.bound, reference.n],
            "n": self.n,
            "episode": self.episode,
            "alarmed": self.alarmed,
            "money": self._money.tolist(),
            "step": self._step,
            "pending": self._pending,
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Take up a test where `state` left it."""
        given = state["reference"]
        self.reference = None if given is None else Reference(*given)
        self.n, self.episode = state["n"], state["episode"]
        self.alarmed, self._step = state["alarmed"], state["step"]
        self._money, self._pending = np.array(state["money"]), list(state["pending"])
