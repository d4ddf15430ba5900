"""Average precision; its mean over queries is MAP."""

from __future__ import annotations

import numpy as np

from harness.scoring.arrays import Ints, Values, count_by, ratio, sum_by
from harness.scoring.ranks import Ranked


def average_precision(ranked: Ranked, cut: Ints) -> Values:
    """Sum over relevant documents in the top k of precision at their rank, / relevant documents.

    trec_eval's map, and map_cut_k with a cut-off (the divisor stays the number of relevant ones).
    """
    order = ranked.best_first
    once = ranked.first_of_document[order] & (ranked.grade[order] >= 1)
    query, rank = ranked.query[order][once], ranked.rank[order][once]
    relevant = count_by(query, ranked.n)
    first = np.cumsum(relevant) - relevant
    nth = np.arange(len(query)) - first[query] + 1
    inside = rank <= cut[query]
    at_rank = np.divide(nth, rank, out=np.zeros(len(rank)), where=inside)
    return ratio(sum_by(query, at_rank, ranked.n), relevant)
