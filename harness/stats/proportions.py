"""Binomial tests, the check of a split against its plan, and a correction of p values.

A sample-ratio mismatch means that the arms do not have their planned shares of units. Then
something other than chance decides which arm a unit is seen in (a crash, a slow page, a bot filter,
a wrong router), and no comparison of the arms is valid.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.stats.betting import betting_p
from harness.stats.clusters import Values

MISMATCH_LEVEL = 0.001  # as usual: a false alarm stops a test (Fabijan et al. 2019, KDD)


def binomial_p(successes: int, n: int, chance: float = 0.5) -> float:
    """Two-sided p of `successes` in `n` tries with probability `chance`; 1 without tries.

    SciPy's exact test: the probability of all outcomes that are not more likely (Sterne 1954).
    Raises ValueError for impossible numbers.
    """
    from scipy.stats import binomtest  # takes a second to import

    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes in {n} tries: there must be from 0 to {n}")
    return float(binomtest(successes, n, chance).pvalue) if n else 1.0


@dataclass(frozen=True)
class SampleRatio:
    """Units in each arm against the planned split.

    `anytime_p` is the smallest betting p over the units in their order, valid at any time.
    `mismatch`: it is below `MISMATCH_LEVEL`, which happens by chance in at most 1 test of 1000,
    ever. `p` is the exact binomial test, valid for a single look, and is for display only.
    """

    units_a: int
    units_b: int
    split: float
    p: float
    anytime_p: float
    mismatch: bool


def sample_ratio(in_a: npt.ArrayLike, split: float = 0.5) -> SampleRatio:
    """Check the arms of units, one entry per unit, in the order of their first record.

    Raises ValueError for a split that is not between 0 and 1.
    """
    arms = np.asarray(in_a, bool)
    a = int(arms.sum())
    p = binomial_p(a, len(arms), split)
    anytime_p = float(betting_p(arms, split).min()) if len(arms) else 1.0
    return SampleRatio(a, len(arms) - a, split, p, anytime_p, anytime_p < MISMATCH_LEVEL)


# -- Correction of p values for the number of tests ------------------------------------------------


def holm(p: npt.ArrayLike) -> Values:
    """Holm's step-down adjustment, which bounds the probability of any false finding in the family.

    Adjusted p_(i) = max over j <= i of (m - j + 1) p_(j), at most 1 (Holm 1979). Any shape, in
    the same order; NaN stays NaN and is not counted in m. Raises ValueError for p outside 0 to 1.
    """
    values = np.asarray(p, np.float64)
    flat = values.ravel()
    known = np.flatnonzero(~np.isnan(flat))
    if ((flat[known] < 0) | (flat[known] > 1)).any():
        raise ValueError("p values must be from 0 to 1, or NaN if missing")
    order = known[np.argsort(flat[known], kind="stable")]
    out = np.full(flat.shape, np.nan)
    stepped = np.maximum.accumulate(flat[order] * np.arange(len(order), 0, -1))
    out[order] = np.minimum(stepped, 1.0)
    return out.reshape(values.shape)
