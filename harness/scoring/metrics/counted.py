"""Recall, hit and recall_all: how much, whether any, and whether all of the evidence was found.

The three are quoted under one name in the field ("R@k") and differ by tens of points; here each has
its own. All count *pieces of evidence*: a relevant document is its own piece, unless the judgements
name units (schema.Judgement); a piece is found when any document that carries it is.
"""

from __future__ import annotations

import numpy as np

from harness.scoring.arrays import Ints, Values, count_by, ratio, sum_by
from harness.scoring.ranks import Ranked


def recall(ranked: Ranked, cut: Ints) -> Values:
    """Pieces of evidence in the top k / pieces of evidence (trec_eval's recall_k)."""
    found, pieces = _pieces(ranked, cut)
    return ratio(found, pieces)


def hit(ranked: Ranked, cut: Ints) -> Values:
    """1 when any piece of evidence is in the top k, else 0 (success_k; LongMemEval recall_any)."""
    found, pieces = _pieces(ranked, cut)
    return np.where(pieces > 0, (found > 0).astype(float), np.nan)


def recall_all(ranked: Ranked, cut: Ints) -> Values:
    """1 when every piece of evidence is in the top k, else 0 (LongMemEval recall_all)."""
    found, pieces = _pieces(ranked, cut)
    return np.where(pieces > 0, (found == pieces).astype(float), np.nan)


def _pieces(ranked: Ranked, cut: Ints) -> tuple[Values, Ints]:
    """Pieces found in the top k, and pieces there are; each (n,)."""
    relevant = ranked.grade >= 1
    query, unit, rank = ranked.query[relevant], ranked.unit[relevant], ranked.rank[relevant]
    found = rank <= cut[query]
    units, first, of = np.unique(unit, return_index=True, return_inverse=True)
    if len(units) < len(unit):
        found = np.bincount(of, weights=found) > 0
        query = query[first]
    return sum_by(query, found, ranked.n), count_by(query, ranked.n)
