"""Has something changed, at a moment that nobody knows? Players who enter one after another.

A player bets that from now on things are worse; a bet multiplies money by a factor that is 0 or
more and, where nothing has changed, 1 or less in expectation, given what came before. A change may
come at any time, so new players enter all the time, the j-th with a part w_j of the money; the
parts sum to 1, so all players together (with what is not handed out yet) are a nonnegative
supermartingale that starts at 1, and by Ville's inequality the chance that they *ever* hold
1 / alpha is at most alpha, however often one looks. This is the Shiryaev-Roberts e-detector of
Shin, Ramdas & Rinaldo (2024, New England Journal of Statistics in Data Science 2) with weights that
sum to 1, which turns its guarantee on the average run length into one on the chance of any false
alarm; the price is a delay that grows with the logarithm of how long nothing happened.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from harness.stats.clusters import Values

_NORMALISER = 2.10974280123689  # the sum over j >= 1 of 1 / ((j + 1) log(j + 1)^2)
_TOGETHER = 64  # rows taken in one step; products of so many factors stay far from the limits


def part(j: npt.ArrayLike) -> Values:
    """The part of the whole that is the j-th one's, j from 1; all of them sum to 1."""
    after = np.asarray(j, np.float64) + 1
    return np.asarray(1 / (_NORMALISER * after * np.log(after) ** 2))


@dataclass
class Detector:
    """The money of players of `kinds` ways to bet; one of each kind enters every `entry` steps."""

    kinds: int
    entry: int = 1
    step: int = 0
    money: list[float] = field(default_factory=list)

    def take(self, factors: Values) -> Values:
        """What all hold after each step; `factors` of shape (steps, kinds)."""
        found = [
            self._take(factors[at : at + _TOGETHER]) for at in range(0, len(factors), _TOGETHER)
        ]
        return np.concatenate([np.zeros(0), *found])

    def nearness(self, limit: float) -> float:
        """How far they are to `limit`, from 0 to 1, on a scale of logarithms."""
        held = float(np.mean(self.money)) if self.money else 0.0
        return min(1.0, max(0.0, math.log(max(held, 1.0)) / math.log(limit)))

    def again(self) -> None:
        """Begin anew."""
        self.step, self.money = 0, []

    def _take(self, factors: Values) -> Values:
        grown = factors.cumprod(axis=0)
        steps = self.step + np.arange(len(factors))
        new = np.where(steps % self.entry == 0, part(steps // self.entry + 1), 0.0)
        before = np.vstack([np.ones(self.kinds), grown[:-1]])
        money = np.array(self.money or [0.0] * self.kinds)
        held = grown * (money + (new[:, None] / before).cumsum(axis=0))
        self.money = held[-1].tolist()
        self.step += len(factors)
        return np.asarray(held.mean(axis=1))
