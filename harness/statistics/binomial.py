"""The exact binomial test, without SciPy."""

from __future__ import annotations

import math

import numpy as np

from harness.statistics.units import Values

EXACT_TO = 100_000  # observations; beyond, the chi-square test is the same to many digits
_ALIKE = 1e-7  # probabilities that differ by less are equal but for rounding


def binomial_p(successes: int, n: int, chance: float = 0.5) -> float:
    """Two-sided p of `successes` in `n` tries of a known chance; 1 for no tries.

    The probability of all outcomes no more likely than this one (Sterne 1954), exact up to
    `EXACT_TO` tries; beyond that the chi-square test. Raises ValueError for numbers that cannot be.
    """
    if not 0 < chance < 1:
        raise ValueError(f"chance {chance} must be between 0 and 1")
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}")
    if n == 0:
        return 1.0
    if n > EXACT_TO:
        return chi_square_p(successes, n, chance)
    log_p = _log_probabilities(n, chance)
    return float(min(1.0, np.exp(log_p[log_p <= log_p[successes] + _ALIKE]).sum()))


def chi_square_p(successes: int, n: int, chance: float) -> float:
    """Pearson's chi-square test of a share, one degree of freedom, no continuity correction."""
    square = (successes - n * chance) ** 2 / (n * chance * (1 - chance))
    return math.erfc(math.sqrt(square / 2))


def _log_probabilities(n: int, chance: float) -> Values:
    """Logarithms of the probabilities of 0 to n successes."""
    factorials = np.concatenate([[0.0], np.log(np.arange(1, n + 1)).cumsum()])
    k = np.arange(n + 1)
    ways = factorials[n] - factorials - factorials[::-1]
    return np.asarray(ways + k * math.log(chance) + (n - k) * math.log1p(-chance))
