"""One ranking from several: reciprocal ranks, or a weighted sum of scores on one scale."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harness.retrievers.stage import Ranking

Floats = npt.NDArray[np.float64]

METHODS = ("rrf", "minmax", "zscore")


def fuse(
    rankings: Sequence[Ranking], method: str, weights: Sequence[float], k0: float = 60.0
) -> Ranking:
    """All documents of the rankings, by the sum of what each ranking gives them.

    `rrf` gives weight / (k0 + rank), ranks from 1 (Cormack, Clarke and Büttcher, SIGIR 2009).
    `minmax` gives weight * (score - lowest) / (highest - lowest), `zscore` the same over the
    standard deviation. So who is not in a ranking counts as its last. Equal sums keep the order in
    which the documents come in the rankings, the first ranking first.
    Raises ValueError where scores are wanted and a ranking has none.
    """
    gained = [
        weight * _gain(ranking, method, k0)
        for ranking, weight in zip(rankings, weights, strict=True)
    ]
    positions = np.concatenate([ranking.positions for ranking in rankings])
    distinct, first, which = np.unique(positions, return_index=True, return_inverse=True)
    sums = np.bincount(which, np.concatenate(gained), minlength=len(distinct)).astype(float)
    order = np.lexsort((first, -sums))
    return Ranking(distinct[order], sums[order], all(ranking.abstain for ranking in rankings))


def _gain(ranking: Ranking, method: str, k0: float) -> Floats:
    n = len(ranking.positions)
    if method == "rrf":
        return 1 / (k0 + np.arange(1, n + 1))
    if n == 0:
        return np.zeros(0)
    if ranking.scores is None:
        raise ValueError(f"{method} fuses scores, and one retriever gives none; take method=rrf")
    spread = np.ptp(ranking.scores) if method == "minmax" else ranking.scores.std()
    return above_lowest(ranking.scores, float(spread))


def above_lowest(scores: Floats, spread: float) -> Floats:
    """How far each score is above the lowest, in units of `spread`; 1 where all are equal."""
    low = scores.min()
    if scores.max() == low:
        return np.ones(len(scores))
    scaled: Floats = (scores - low) / spread
    return scaled
