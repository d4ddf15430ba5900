"""Metrics that weigh the ranks of relevant documents: nDCG, average precision, reciprocal rank.

The means of the latter two over queries are MAP and MRR. nDCG comes in its three honest forms. The
ideal is always over all relevant documents of the query, never over what was retrieved (which would
score one of three found as 1).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from harness.errors import UsageError
from harness.scoring.arrays import Ints, Values, count_by, ratio, sum_by
from harness.scoring.ranks import NOT_RETRIEVED, Ranked


def ndcg(ranked: Ranked, cut: Ints) -> Values:
    """Gain = grade, discount log2(rank + 1) (trec_eval's ndcg and ndcg_cut_k)."""
    return _normalised(ranked, cut, FORMS["ndcg"])


def ndcg_exponential(ranked: Ranked, cut: Ints) -> Values:
    """Gain = 2^grade - 1, discount log2(rank + 1) (Burges et al., ICML 2005).

    Raises UsageError for a grade above 1,000, whose gain is beyond what can be added up.
    """
    return _normalised(ranked, cut, FORMS["ndcg_exp"])


def ndcg_b2(ranked: Ranked, cut: Ints) -> Values:
    """Gain = grade, ranks 1 and 2 undiscounted, then log2(rank).

    Jarvelin and Kekalainen (TOIS 2002) with b = 2; LongMemEval's ndcg_any.
    """
    return _normalised(ranked, cut, FORMS["ndcg_b2"])


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


def reciprocal_rank(ranked: Ranked, cut: Ints) -> Values:
    """1 / rank of the first relevant document, 0 when it is below k (trec_eval's recip_rank)."""
    relevant = ranked.grade >= 1
    best = np.full(ranked.n, NOT_RETRIEVED)
    np.minimum.at(best, ranked.query[relevant], ranked.rank[relevant])
    found = best <= cut
    value = np.divide(1.0, best, out=np.zeros(ranked.n), where=found)
    return np.where(count_by(ranked.query[relevant], ranked.n) > 0, value, np.nan)


class Form(NamedTuple):
    """One of the forms of nDCG: what a grade gains, and what a rank's gain is divided by."""

    gain: Callable[[Values], Values]
    discount: Callable[[Values], Values]


def _linear(grade: Values) -> Values:
    return grade


def _exponential(grade: Values) -> Values:
    highest = grade.max(initial=0)
    if highest > _HIGHEST:
        raise UsageError(
            f"ndcg_exp takes grades up to {_HIGHEST:,}, as 2^{highest:.0f} cannot be added up: "
            "use ndcg, whose gain is the grade, or grade on a smaller scale"
        )
    return np.asarray(np.exp2(grade) - 1)


def _log2_next(rank: Values) -> Values:
    return np.asarray(np.log2(rank + 1))


def _log2_own(rank: Values) -> Values:
    return np.asarray(np.log2(np.maximum(rank, 2)))


_HIGHEST = 1_000  # 2^1024 is beyond a float64

FORMS = {
    "ndcg": Form(_linear, _log2_next),
    "ndcg_exp": Form(_exponential, _log2_next),
    "ndcg_b2": Form(_linear, _log2_own),
}


def ideal_dcg(ranked: Ranked, cut: Ints, form: Form) -> Values:
    """DCG of all relevant documents in the best order, down to the cut-off; (n,)."""
    once = ranked.first_of_document & (ranked.grade >= 1)
    query, gains = ranked.query[once], form.gain(ranked.grade[once].astype(float))
    order = np.lexsort((-gains, query))
    relevant = count_by(query, ranked.n)
    first = np.cumsum(relevant) - relevant
    place = (np.arange(len(query)) - first[query[order]] + 1).astype(float)
    ideal = np.where(place <= cut[query], gains[order] / form.discount(place), 0.0)
    return sum_by(query[order], ideal, ranked.n)


def _normalised(ranked: Ranked, cut: Ints, form: Form) -> Values:
    once = ranked.first_of_document & (ranked.grade >= 1)
    query, rank = ranked.query[once], ranked.rank[once]
    gains = form.gain(ranked.grade[once].astype(float))
    inside = rank <= cut[query]
    dcg = np.zeros(len(rank))
    dcg[inside] = gains[inside] / form.discount(rank[inside].astype(float))
    return ratio(sum_by(query, dcg, ranked.n), ideal_dcg(ranked, cut, form))
