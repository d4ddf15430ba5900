"""Ranks as ranges, where intervals cannot tell systems apart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def rank_ranges(intervals: Sequence[tuple[float, float]]) -> list[tuple[int, int]]:
    """The best and the worst rank of each system, from 1, by (low, high) intervals of its value.

    The best is one below the systems whose whole interval lies above its own, the worst is as many
    places from the end as systems lie wholly below it. Where intervals overlap, the order is open;
    a paired comparison of two runs can often tell more (`harness compare`).
    """
    low = np.array([interval[0] for interval in intervals], float)
    high = np.array([interval[1] for interval in intervals], float)
    above = (low[None, :] > high[:, None]).sum(axis=1)
    below = (high[None, :] < low[:, None]).sum(axis=1)
    n = len(intervals)
    return [(int(a) + 1, n - int(b)) for a, b in zip(above, below, strict=True)]
