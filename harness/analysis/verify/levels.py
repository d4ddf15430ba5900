"""Computes random baselines, upper bounds, and the best and worst order of equal scores.

In a random order of a haystack each document is as likely at any of its ranks, and the number of
relevant documents in the top k is hypergeometric.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

import numpy as np

from harness.analysis.verify.inputs import QueryQrels, QueryRanking
from harness.analysis.verify.metrics import MetricName, Metrics, Values, discounts, evaluate, ndcg

_LARGEST_HAYSTACK = 1_000_000
"""Documents, above which no baseline of a whole ranking is published."""


def random_baselines(metrics: Metrics, qrels: Sequence[QueryQrels], sizes: Sequence[int]) -> Values:
    """Returns the mean over all orders of haystacks of these sizes; NaN if it is not defined.

    Not of recall_all where evidence is shared, nor of whole rankings of large haystacks.
    """
    found: Values = {}
    shared = any(one.shares_evidence for one in qrels)
    large = max(sizes, default=0) > _LARGEST_HAYSTACK
    for name, metric in metrics.items():
        if not (shared and metric.name == "recall_all") and (metric.k or not large):
            pairs = zip(qrels, sizes, strict=True)
            found[name] = np.array([_of_random_orders(metric, *pair) for pair in pairs])
    return found


def _of_random_orders(metric: MetricName, qrels: QueryQrels, size: int) -> float:
    if not metric.is_defined(qrels):
        return math.nan
    if not size:
        return 0.0
    k = size if metric.k is None else min(metric.k, size)
    relevant = qrels.relevant(metric.rel)
    r, inside = len(relevant), len(qrels.present.intersection(relevant))
    share = inside / size
    match metric.name:
        case "judged":
            return sum(qrels.grades[document] >= 0 for document in qrels.present) / size
        case "ndcg" | "ndcg_exp" | "ndcg_b2":
            gold = qrels.present.intersection(qrels.relevant())
            at_first = math.fsum(ndcg(metric.name, qrels, [d], metric.k or size) for d in gold)
            return at_first * _discount(metric.name, k) / size
        case "recall":
            pieces = [piece & qrels.present for piece in qrels.pieces(metric.rel)]
            return math.fsum(_hit(size, len(piece), k) for piece in pieces) / len(pieces)
        case "hit":
            return _hit(size, inside, k)
        case "recall_all":
            return math.comb(k, r) / math.comb(size, r) if inside == r else 0.0
        case "precision":
            return share * k / (metric.k or 1)
        case "precision_returned":
            return share
        case "f1":
            return 2 * share * k / ((metric.k or 0) + r)
        case "rprec":
            return share * min(r, size) / r
        case "mrr":
            return _reciprocal_rank(size, inside, k)
        case _:
            return _precisions(size, inside, k) / r


@cache
def _hit(size: int, relevant: int, k: int) -> float:
    return 1 - math.comb(size - k, relevant) / math.comb(size, relevant)


@cache
def _discount(name: str, k: int) -> float:
    return float(discounts(name, k).sum())


@cache
def _reciprocal_rank(size: int, relevant: int, k: int) -> float:
    ranks = np.arange(1, k + 1)
    here = relevant / (size - ranks + 1)  # where no rank above has a relevant document
    none_above = np.cumprod(1 - here)
    return float((np.concatenate([[1.0], none_above[:-1]]) * here / ranks).sum())


@cache
def _precisions(size: int, relevant: int, k: int) -> float:
    """Returns the mean of the sum of the precisions at relevant documents in the top k."""
    ranks = np.arange(1, k + 1)
    above = (ranks - 1) * (relevant - 1) / max(size - 1, 1)  # where the rank has a relevant one
    return float((relevant / size * (1 + above) / ranks).sum()) if relevant else 0.0


def upper_bounds(metrics: Metrics, qrels: Sequence[QueryQrels]) -> Values:
    """Returns the best value of any ranking: that of the relevant documents alone, best first.

    Not of recall and recall_all where evidence is shared, whose best is hard to find.
    """
    found: Values = {}
    shared = any(one.shares_evidence for one in qrels)
    for least in {metric.least_grade for metric in metrics.values()}:
        mine = {
            name: metric
            for name, metric in metrics.items()
            if metric.least_grade == least and not (shared and metric.name.startswith("recall"))
        }
        ideal = [
            sorted(one.present.intersection(one.relevant(least)), key=lambda d: -one.grades[d])
            for one in qrels
        ]
        found |= evaluate(mine, qrels, ideal)
    return found


def orders_of_ties(
    ranking: QueryRanking, qrels: QueryQrels, ties: str
) -> tuple[list[str], list[str]]:
    """Returns the documents with the better ones last among equal scores, and first."""
    grades = [max(qrels.grades.get(document, -1), -1) for document in ranking.documents]
    rows = [*zip(ranking.documents, ranking.compared(ties), grades, strict=True)]
    worst = sorted(rows, key=lambda row: (-row[1], row[2]))
    best = sorted(rows, key=lambda row: (-row[1], -row[2]))
    return [row[0] for row in worst], [row[0] for row in best]
