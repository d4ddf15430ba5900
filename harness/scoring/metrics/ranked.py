"""Metrics that weigh the ranks of relevant documents: nDCG, average precision, reciprocal rank.

The means of the latter two over queries are MAP and MRR. nDCG has three forms. The ideal ranking
always has all relevant documents of the query, not only the retrieved ones (with which one found of
three would score 1).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from harness.errors import UsageError
from harness.scoring.arrays import Ints, Values, count_by, ratio, sum_by
from harness.scoring.metrics.definition import (
    MetricDefinition,
    RandomOrders,
    TiedDocuments,
    first_found,
)
from harness.scoring.ranks import NOT_RETRIEVED, Ranked

_HIGHEST = 1_000  # 2^1024 is beyond a float64


# -- Reciprocal rank -------------------------------------------------------------------------------


def _reciprocal_rank(ranked: Ranked, cutoff: Ints) -> Values:
    relevant = ranked.grade >= 1
    best = np.full(ranked.n, NOT_RETRIEVED)
    np.minimum.at(best, ranked.query[relevant], ranked.rank[relevant])
    found = best <= cutoff
    value = np.divide(1.0, best, out=np.zeros(ranked.n), where=found)
    return np.where(count_by(ranked.query[relevant], ranked.n) > 0, value, np.nan)


def _random_reciprocal_rank(orders: RandomOrders) -> Values:
    return _by_case(first_found, orders)


def _tied_reciprocal_rank(tied: TiedDocuments) -> Values:
    """Expected value: the first relevant document is in the first group that has one."""
    groups = tied.groups
    first = np.diff(groups.query, prepend=-1) != 0
    found = np.where(first & (groups.inside > 0), 1 / (groups.above + 1), 0.0)
    columns = (groups.tied, groups.relevant, groups.inside, groups.above)
    for group in np.flatnonzero(first & (groups.tied > 1)).tolist():
        found[group] = first_found(*(int(column[group]) for column in columns))
    return sum_by(groups.query, found, tied.ranked.n)


# -- Average precision -----------------------------------------------------------------------------


def _average_precision(ranked: Ranked, cutoff: Ints) -> Values:
    order = ranked.best_first
    once = ranked.first_of_document[order] & (ranked.grade[order] >= 1)
    query, rank = ranked.query[order][once], ranked.rank[order][once]
    relevant = count_by(query, ranked.n)
    first = np.cumsum(relevant) - relevant
    nth = np.arange(len(query)) - first[query] + 1
    inside = rank <= cutoff[query]
    at_rank = np.divide(nth, rank, out=np.zeros(len(rank)), where=inside)
    return ratio(sum_by(query, at_rank, ranked.n), relevant)


def _random_average_precision(orders: RandomOrders) -> Values:
    """(1/N) * sum over i <= k of (1 + (i - 1)(R - 1)/(N - 1)) / i, times R / all relevant."""

    def expected(size: int, relevant: int, top: int) -> float:
        slope = (relevant - 1) / (size - 1) if size > 1 else 0.0
        harmonic = float(np.sum(1 / np.arange(1, top + 1)))
        return (harmonic * (1 - slope) + slope * top) / size if relevant and size else 0.0

    return _by_case(expected, orders) * ratio(orders.inside, orders.total, 0.0)


def _tied_average_precision(tied: TiedDocuments) -> Values:
    """Expected value: with a relevant document at rank above + j, the ranks up to it are expected
    to have before + 1 + (j - 1) (r - 1) / (t - 1) relevant ones; summed by harmonic numbers."""
    groups = tied.groups
    t, r, above, inside = groups.tied, groups.relevant, groups.above, groups.inside
    before = np.cumsum(r) - r
    before = before - before[np.searchsorted(groups.query, groups.query)]
    harmonic = np.cumsum([0.0, *(1 / np.arange(1, (above + inside).max(initial=0) + 1))])
    sums = harmonic[above + inside] - harmonic[above]
    slope = (r - 1) / np.maximum(t - 1, 1)
    found = r / t * ((before + 1) * sums + slope * (inside - (above + 1) * sums))
    return ratio(sum_by(groups.query, found, tied.ranked.n), tied.total)


def _by_case(expected: Callable[[int, int, int], float], orders: RandomOrders) -> Values:
    """Computes a function of N, R and the cutoff once per distinct combination; (n,)."""
    columns = np.stack([orders.size, orders.inside, orders.top])
    order = np.lexsort(columns)  # np.unique sorts whole rows, which takes ten times as long
    new = np.diff(columns[:, order], prepend=-1).any(axis=0)
    values = np.array([expected(*case) for case in columns[:, order[new]].T.tolist()])
    found = np.empty(len(order))
    found[order] = values[np.cumsum(new) - 1]
    return found


# -- nDCG ------------------------------------------------------------------------------------------


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


class _Ndcg:
    """A form of nDCG: the gain of a grade, and the discount (divisor) of a rank."""

    def __init__(
        self, gain: Callable[[Values], Values], discount: Callable[[Values], Values]
    ) -> None:
        self._gain, self._discount = gain, discount

    def value(self, ranked: Ranked, cutoff: Ints) -> Values:
        """DCG / DCG of the ideal order."""
        once = ranked.first_of_document & (ranked.grade >= 1)
        query, rank = ranked.query[once], ranked.rank[once]
        gains = self._gain(ranked.grade[once].astype(float))
        inside = rank <= cutoff[query]
        dcg = np.zeros(len(rank))
        dcg[inside] = gains[inside] / self._discount(rank[inside].astype(float))
        return ratio(sum_by(query, dcg, ranked.n), self._ideal(ranked, cutoff))

    def random(self, orders: RandomOrders) -> Values:
        """Mean gain of a document * sum of discounts in the top k / ideal DCG."""
        ranked, there = orders.ranked, orders.rows
        gains = sum_by(ranked.query[there], self._gain(ranked.grade[there].astype(float)), ranked.n)
        discounts = 1 / self._discount(np.arange(1.0, orders.top.max(initial=0) + 1))
        found = gains * np.concatenate([[0.0], np.cumsum(discounts)])[orders.top]
        return ratio(found, orders.size * self._ideal(ranked, orders.cutoff))

    def tied(self, tied: TiedDocuments) -> Values:
        """Expected value: each document has the mean discount of its group's ranks."""
        ranked, above, last = tied.ranked, tied.above, tied.above + tied.inside
        ranks = np.arange(1.0, last.max(initial=0) + 1)
        upto = np.concatenate([[0.0], np.cumsum(1 / self._discount(ranks))])
        gains = self._gain(ranked.grade[tied.rows].astype(float))
        dcg = sum_by(tied.query, gains * (upto[last] - upto[above]) / tied.tied, ranked.n)
        return ratio(dcg, self._ideal(ranked, tied.cutoff))

    def _ideal(self, ranked: Ranked, cutoff: Ints) -> Values:
        """Returns the DCG of all relevant documents in the best order, up to the cutoff; (n,)."""
        once = ranked.first_of_document & (ranked.grade >= 1)
        query, gains = ranked.query[once], self._gain(ranked.grade[once].astype(float))
        order = np.lexsort((-gains, query))
        relevant = count_by(query, ranked.n)
        first = np.cumsum(relevant) - relevant
        place = (np.arange(len(query)) - first[query[order]] + 1).astype(float)
        ideal = np.where(place <= cutoff[query], gains[order] / self._discount(place), 0.0)
        return sum_by(query[order], ideal, ranked.n)


_NDCG = _Ndcg(_linear, _log2_next)
_NDCG_EXP = _Ndcg(_exponential, _log2_next)
_NDCG_B2 = _Ndcg(_linear, _log2_own)


# -- Their definitions -----------------------------------------------------------------------------

RANKED = (
    MetricDefinition(
        name="mrr",
        about="mean of 1 / rank of the first evidence item; 0 if it is below rank k",
        formula="1 / rank of the first relevant document, 0 where it is below k",
        source="trec_eval `recip_rank`",
        elsewhere="RR, MRR@k",
        function=_reciprocal_rank,
        random_baseline=_random_reciprocal_rank,
        expected_over_ties=_tied_reciprocal_rank,
        aliases=("rr", "recip_rank"),
        reference="recip_rank",
    ),
    MetricDefinition(
        name="map",
        about="mean of the precision at the rank of each evidence item, averaged over questions",
        formula="sum, over relevant documents in the top k, of precision at their rank, / "
        "relevant documents",
        source="trec_eval `map`, `map_cut_k`",
        elsewhere="AP, MAP@k",
        function=_average_precision,
        random_baseline=_random_average_precision,
        expected_over_ties=_tied_average_precision,
        aliases=("ap", "map_cut"),
        reference="map",
    ),
    MetricDefinition(
        name="ndcg",
        about="quality of the order: discounted gain of the evidence relative to the best "
        "possible order; evidence at lower ranks counts less",
        formula="DCG / the DCG of the ideal order; DCG is the sum over i = 1..k of "
        "rel(i) / log2(i + 1)",
        source="trec_eval `ndcg`, `ndcg_cut_k`; Järvelin and Kekäläinen, TOIS 2002",
        elsewhere="nDCG@k of BEIR, MTEB, pytrec_eval",
        function=_NDCG.value,
        graded=True,
        random_baseline=_NDCG.random,
        expected_over_ties=_NDCG.tied,
        aliases=("ndcg_cut",),
        reference="ndcg",
    ),
    MetricDefinition(
        name="ndcg_exp",
        about="nDCG with exponential gain: higher grades count more",
        formula="as `ndcg` with 2^rel(i) - 1 in place of rel(i); grades above 1,000 are refused",
        source="Burges et al., ICML 2005",
        elsewhere="nDCG@k of LETOR, LightGBM, XGBoost",
        function=_NDCG_EXP.value,
        graded=True,
        random_baseline=_NDCG_EXP.random,
        expected_over_ties=_NDCG_EXP.tied,
    ),
    MetricDefinition(
        name="ndcg_b2",
        about="nDCG without a discount at rank 2, as in LongMemEval",
        formula="as `ndcg` with log2(i) in place of log2(i + 1), ranks 1 and 2 undiscounted",
        source="Järvelin and Kekäläinen with b = 2",
        elsewhere="LongMemEval's `ndcg_any@k`",
        function=_NDCG_B2.value,
        graded=True,
        random_baseline=_NDCG_B2.random,
        expected_over_ties=_NDCG_B2.tied,
    ),
)
