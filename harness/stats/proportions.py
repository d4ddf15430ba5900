"""Shares against a known chance: the binomial test, and the check that a split is what was planned.

A sample-ratio mismatch asks: did as many units come to each arm as the split says? Where they did
not, something other than chance decides who is seen in which arm (a crash, a slow page, a bot
filter, a wrong router), and no comparison of the arms means what it seems to.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.stats.betting import betting_p

EXACT_TO = 100_000  # observations; beyond, the chi-square test is the same to many digits
MISMATCH_LEVEL = 0.001  # as usual: a false alarm stops a test (Fabijan et al. 2019, KDD)


def binomial_p(successes: int, n: int, chance: float = 0.5) -> float:
    """Two-sided p of `successes` in `n` tries of a known chance; 1 for no tries.

    The probability of all outcomes no more likely than this one (Sterne 1954), exact up to
    `EXACT_TO` tries; beyond that Pearson's chi-square test, one degree of freedom, no continuity
    correction. Raises ValueError for numbers that cannot be.
    """
    if not 0 < chance < 1:
        raise ValueError(f"chance {chance} must be between 0 and 1")
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}")
    if n == 0:
        return 1.0
    if n > EXACT_TO:
        from scipy.special import chdtrc

        return float(chdtrc(1, (successes - n * chance) ** 2 / (n * chance * (1 - chance))))
    from scipy.stats import binomtest  # takes a second to import

    return float(binomtest(successes, n, chance).pvalue)


@dataclass(frozen=True)
class SampleRatio:
    """Units in each arm against the split that was planned.

    `anytime_p` is the betting p over the units in the order in which they came, exact at any time.
    `mismatch`: it is below `MISMATCH_LEVEL`, a false alarm, ever, in at most 1 test of 1000. `p` is
    the exact binomial test (chi-square beyond 100,000 units), right only if looked at a single
    time; as reports are looked at again and again, it decides nothing.
    """

    units_a: int
    units_b: int
    split: float
    p: float
    anytime_p: float
    mismatch: bool


def sample_ratio(in_a: npt.ArrayLike, split: float = 0.5) -> SampleRatio:
    """Check the arms of units, one entry a unit, in the order in which they were first seen.

    Raises ValueError for a split that is not between 0 and 1.
    """
    arms = np.asarray(in_a, bool)
    a = int(arms.sum())
    p = binomial_p(a, len(arms), split)
    anytime_p = float(betting_p(arms, split)[-1]) if len(arms) else 1.0
    return SampleRatio(a, len(arms) - a, split, p, anytime_p, anytime_p < MISMATCH_LEVEL)
