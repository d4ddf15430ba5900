"""Detection of a change at an unknown time, by players who enter one after another.

A player bets that values are worse from now on. A bet multiplies its money by a factor of 0 or
more, with a conditional expectation of at most 1 if nothing has changed. New players enter all the
time, the j-th with a part w_j of the money; the parts sum to 1. So the money of all players,
including those still to come, is a nonnegative supermartingale that starts at 1, and by Ville's
inequality the probability that it *ever* reaches 1 / alpha is at most alpha. This is the
Shiryaev-Roberts e-detector of Shin, Ramdas & Rinaldo (2024, New England Journal of Statistics in
Data Science 2) with weights that sum to 1: it bounds the probability of any false alarm in place of
the average run length, with a delay that grows with the logarithm of the time before the change.

Bets by ranks and bounds by signs are valid for any distribution. The rank of the newest value among
all earlier ones of its kind is uniform from 1 to n if the values are exchangeable, and independent
of all earlier ranks, also of other kinds (Renyi 1962; Vovk, Gammerman & Shafer 2005, Algorithmic
Learning in a Random World, Mondrian conformal predictors). So bets on low ranks are fair, without a
reference to estimate. Ties are broken at random, which keeps ranks independent. A bound by signs
assumes that each difference is as likely above 0 as below, by as much.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from harness.stats.clusters import Values

_NORMALISER = 2.10974280123689  # the sum over j >= 1 of 1 / ((j + 1) log(j + 1)^2)
_TOGETHER = 64  # rows per step; products of so many factors do not overflow


def part(j: npt.ArrayLike) -> Values:
    """Initial money of the j-th player, j from 1; the sum over all players is 1."""
    after = np.asarray(j, np.float64) + 1
    return np.asarray(1 / (_NORMALISER * after * np.log(after) ** 2))


@dataclass
class Detector:
    """Money of players with `kinds` ways to bet; one of each kind enters every `entry` steps."""

    kinds: int
    entry: int = 1
    step: int = 0
    money: list[float] = field(default_factory=list)

    def take(self, factors: Values) -> Values:
        """Money of all players after each step; `factors` has the shape (steps, kinds)."""
        found = [
            self._take(factors[at : at + _TOGETHER]) for at in range(0, len(factors), _TOGETHER)
        ]
        return np.concatenate([np.zeros(0), *found])

    def nearness(self, limit: float) -> float:
        """Logarithm of the money over that of `limit`, from 0 to 1."""
        held = float(np.mean(self.money)) if self.money else 0.0
        return min(1.0, max(0.0, math.log(max(held, 1.0)) / math.log(limit)))

    def again(self) -> None:
        """Restart without money."""
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
"""Each way to bet stakes a share of the money on a rank among this share of the lowest ranks."""

_SLOPES = np.geomspace(0.01, 300, 80)


def lowest_rank(value: float, earlier: npt.ArrayLike, draw: Callable[[], float]) -> int:
    """The rank of a value among `earlier` ones, 1 the lowest.

    `draw` returns a random number in [0, 1), which breaks ties.
    """
    others = np.asarray(earlier, np.float64)
    below, equal = int((others < value).sum()), int((others == value).sum())
    return below + 1 + (int(draw() * (equal + 1)) if equal else 0)


def rank_factors(rank: npt.ArrayLike, n: npt.ArrayLike) -> Values:
    """Factors of the money, of shape (ranks, ways to bet); fair if all ranks are equally likely.

    `rank` is from 1, the lowest, to `n`. A bet of c on the s lowest of n returns 1 + c (n / s - 1)
    if it wins, else 1 - c; s is a share of n, rounded, and at least 1.
    """
    ranks, sizes = (np.asarray(given, np.float64).reshape(-1, 1) for given in (rank, n))
    low = np.maximum(1, np.floor(LOWEST * sizes + 0.5))
    return np.asarray(np.where(ranks <= low, 1 + STAKES * (sizes / low - 1), 1 - STAKES))


def signs_bound(differences: npt.ArrayLike) -> float:
    """Upper bound of the probability that random signs give a sum of `differences` as low.

    Chernoff's: min over t of exp(t sum d) prod cosh(t d), also for small probabilities, which
    sampled signs cannot show. 1 if the sum is 0 or more, or without differences; 2^-n, within the
    precision of the largest t, if all n are equal and below 0.
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
