"""Reciprocal rank; its mean over queries is MRR."""

from __future__ import annotations

import numpy as np

from harness.scoring.arrays import Ints, Values, count_by
from harness.scoring.ranks import NOT_RETRIEVED, Ranked


def reciprocal_rank(ranked: Ranked, cut: Ints) -> Values:
    """1 / rank of the first relevant document, 0 when it is below k (trec_eval's recip_rank)."""
    relevant = ranked.grade >= 1
    best = np.full(ranked.n, NOT_RETRIEVED)
    np.minimum.at(best, ranked.query[relevant], ranked.rank[relevant])
    found = best <= cut
    value = np.divide(1.0, best, out=np.zeros(ranked.n), where=found)
    return np.where(count_by(ranked.query[relevant], ranked.n) > 0, value, np.nan)
