"""Shares against a known chance, the check that a split is as planned, a correction of p values.

A sample-ratio mismatch asks: did as many units come to each arm as the split says? Where they did
not, something other than chance decides who is seen in which arm (a crash, a slow page, a bot
filter, a wrong router), and no comparison of the arms means what it seems to.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.stats.betting import betting_p
from harness.stats.clusters import Values

MISMATCH_LEVEL = 0.001  # as usual: a false alarm stops a test (Fabijan et al. 2019, KDD)


def binomial_p(successes: int, n: int, chance: float = 0.5) -> float:
    """Two-sided p of `successes` in `n` tries of a known chance; 1 for no tries.

    SciPy's exact test: the probability of all outcomes no more likely than this one (Sterne 1954).
    Raises ValueError for numbers that cannot be.
    """
    from scipy.stats import binomtest  # takes a second to import

    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes in {n} tries: there must be from 0 to {n}")
    return float(binomtest(successes, n, chance).pvalue) if n else 1.0


@dataclass(frozen=True)
class SampleRatio:
    """Units in each arm against the split that was planned.

    `anytime_p` is the least betting p over the units in the order in which they came, exact at any
    time.
    `mismatch`: it is below `MISMATCH_LEVEL`, a false alarm, ever, in at most 1 test of 1000. `p` is
    the exact binomial test, right only if looked at a single time; as reports are looked at again
    and again, it decides nothing.
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
    anytime_p = float(betting_p(arms, split).min()) if len(arms) else 1.0
    return SampleRatio(a, len(arms) - a, split, p, anytime_p, anytime_p < MISMATCH_LEVEL)


# -- Correction of p values for how many tests a family holds -------------------------------------


def holm(p: npt.ArrayLike) -> Values:
    """Holm's step-down adjustment: the chance of one false finding or more in the family.

    Adjusted p_(i) = max over j <= i of (m - j + 1) p_(j), at most 1 (Holm 1979). Any shape; NaN
    stays NaN and is not counted in m; the order is kept. Raises ValueError for p outside 0 to 1.
    """
    values = np.asarray(p, np.float64)
    flat = values.ravel()
    known = np.flatnonzero(~np.isnan(flat))
    if ((flat[known] < 0) | (flat[known] > 1)).any():
        raise ValueError("p values must be from 0 to 1, or NaN where there is none")
    order = known[np.argsort(flat[known], kind="stable")]
    out = np.full(flat.shape, np.nan)
    stepped = np.maximum.accumulate(flat[order] * np.arange(len(order), 0, -1))
    out[order] = np.minimum(stepped, 1.0)
    return out.reshape(values.shape)
