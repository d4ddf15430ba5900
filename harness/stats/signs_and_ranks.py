"""Bets and bounds by signs and ranks: right whatever the distribution of the values.

A rank asks: how low does the newest value stand among all of its kind so far? Where these come in
any order alike (exchangeable), the rank is 1 to n with equal chances, and independent of all ranks
before it, also of those of other kinds (Renyi 1962; Vovk, Gammerman & Shafer 2005, Algorithmic
Learning in a Random World, for kinds: Mondrian conformal predictors). So bets on low ranks are
fair, and there is no reference whose uncertainty would have to be bounded. Equal values are put in
an order at random, which their ranks need to be independent.

A sign asks: is each difference as likely above 0 as below, by as much?
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from harness.stats.clusters import Values

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
