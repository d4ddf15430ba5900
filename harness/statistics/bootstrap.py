"""The bootstrap of a mean: units drawn with replacement, all metrics at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from harness.statistics.products import product
from harness.statistics.units import Units, Values

# Draws handled at once: small enough for the processor's cache.
_BLOCK = 1 << 16


def bootstrap_means(units: Units, resamples: int, seed: int) -> Values:
    """Means of `resamples` samples of the units with replacement, shape (resamples, metrics).

    A resample is a count for each unit; counts times sums, over counts times counts, are the means
    of every metric by matrix products (Davison & Hinkley 1997, Bootstrap Methods, section 2.4 for
    ratios, 3.8 for whole clusters). A metric's resamples are drawn from the units that have it, by
    a generator of its own: its result does not depend on what other metrics stand beside it.
    """
    out = np.full((resamples, units.sums.shape[1]), np.nan)
    for columns in same_units(units):
        here = units.present[:, columns[0]]
        if not here.any():
            continue
        sums, counts = units.sums[here][:, columns], units.counts[here][:, columns]
        single = bool((counts == 1).all())
        at = 0
        for drawn in _drawn(len(sums), resamples, seed):
            weight = len(sums) if single else product(drawn, counts)
            out[at : at + len(drawn), columns] = product(drawn, sums) / weight
            at += len(drawn)
    return out


def _drawn(n: int, resamples: int, seed: int) -> Iterator[Values]:
    """How often each of `n` units is drawn, in blocks of shape (rows, n)."""
    generator = np.random.default_rng(seed)
    rows = min(resamples, max(1, _BLOCK // n))
    offsets = n * np.arange(rows)[:, None]
    for start in range(0, resamples, rows):
        size = min(rows, resamples - start)
        drawn = generator.integers(0, n, (size, n))
        drawn += offsets[:size]
        counts = np.bincount(drawn.ravel(), minlength=size * n)
        yield counts.reshape(size, n).astype(np.float64)


def same_units(units: Units) -> list[list[int]]:
    """Metrics grouped by which units have them."""
    groups: dict[bytes, list[int]] = {}
    for column, here in enumerate(units.present.T):
        groups.setdefault(here.tobytes(), []).append(column)
    return list(groups.values())
