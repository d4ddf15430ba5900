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

Bets by ranks and bounds by signs are right whatever the distribution of the values. A rank asks:
how low does the newest value stand among all of its kind so far? Where these come in any order
alike (exchangeable), the rank is 1 to n with equal chances, and independent of all ranks before it,
also of those of other kinds (Renyi 1962; Vovk, Gammerman & Shafer 2005, Algorithmic Learning in a
Random World, for kinds: Mondrian conformal predictors). So bets on low ranks are fair, and there is
no reference whose uncertainty would have to be bounded. Equal values are put in an order at random,
which their ranks need to be independent. A sign asks: is each difference as likely above 0 as
below, by as much?
"""

from __future__ import annotations

import math
from collections.abc import Callable
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


# -- Bets and bounds by signs and ranks ------------------------------------------------------------


LOWEST = np.repeat([1 / 2, 1 / 4, 1 / 8, 1 / 16], 3)
STAKES = np.tile([0.3, 0.6, 0.95], 4)
"""A way to bet: a share of the money on the rank being among so many of the lowest."""

_SLOPES = np.geomspace(0.01, 300, 80)


def lowest_rank(value: float, earlier: npt.ArrayLike, draw: Callable[[], float]) -> int:
    """The rank of a value among itself and `earlier` ones, 1 the lowest.

    `draw` gives a number from [0, 1) by chance, which puts it among equals.
    """
    others = np.asarray(earlier, np.float64)
    below, equal = int((others < value).sum()), int((others == value).sum())
    return below + 1 + (int(draw() * (equal + 1)) if equal else 0)


def rank_factors(rank: npt.ArrayLike, n: npt.ArrayLike) -> Values:
    """What each way to bet multiplies its money by, of shape (ranks, ways): fair if all are equal.

    `rank` is from 1, the lowest, to `n`. A bet of c on the s lowest of n gives 1 + c (n / s - 1)
    where it is won, else 1 - c; s is a share of n, rounded, and 1 at least.
    """
    ranks, sizes = (np.asarray(given, np.float64).reshape(-1, 1) for given in (rank, n))
    low = np.maximum(1, np.floor(LOWEST * sizes + 0.5))
    return np.asarray(np.where(ranks <= low, 1 + STAKES * (sizes / low - 1), 1 - STAKES))


def signs_bound(differences: npt.ArrayLike) -> float:
    """A bound of the chance that a sum of `differences` is as low, if every sign were a fair coin.

    Chernoff's: min over t of exp(t sum d) prod cosh(t d), for any n and any tail, where drawn signs
    could not show small chances. 1 where the sum is 0 or more, and for no differences. All n equal
    and below 0: 2^-n, to the digits of the largest t.
    """
    d = np.asarray(differences, np.float64)
    total, largest = float(d.sum()), float(np.abs(d).max(initial=0.0))
    if total >= 0:
        return 1.0
    scaled = np.abs(d / largest)
    # log cosh without overflow: |x| + log((1 + exp(-2 |x|)) / 2)
    x = _SLOPES[:, None] * scaled
    logs = (x + np.log1p(np.exp(-2 * x)) - np.log(2)).sum(axis=1)
    return float(min(1.0, np.exp((logs + _SLOPES * total / largest).min())))
