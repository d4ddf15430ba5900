"""What a random ranking would score, exactly, and the best any ranking could.

A random ranking orders the N documents of the haystack uniformly. With R relevant ones, the number
of relevant documents in the top k is hypergeometric; every formula below follows from that. Not
SciPy's hypergeom: in a haystack of 8.8 million it is off by 7e-10, products by 1e-15, and faster.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import lru_cache
from itertools import combinations

import numpy as np

from harness.scoring.arrays import Ints, Values, count_by, ratio, sum_by
from harness.scoring.metrics import Metric
from harness.scoring.ranks import NOT_RETRIEVED, Ranked

_LARGEST = 1_000_000
"""Haystacks above this size get no chance level for metrics over the whole ranking."""

_MOST_SETS = 16
"""Queries whose pieces lie in more different sets of documents than this get no level."""


def chance(metric: Metric, ranked: Ranked, present: np.ndarray, size: Ints) -> Values | None:
    """Expected value of the metric for a random ranking; shape (n,), NaN without relevant ones.

    `present` (m,): the judged document is in the haystack; `size` (n,): documents in it. None where
    it would take too long: whole rankings of haystacks above _LARGEST, and queries whose evidence
    lies in more than _MOST_SETS sets of documents.
    """
    if ranked.shares_evidence:
        if metric.name in ("recall", "recall_all"):
            cut = np.minimum(metric.k if metric.k is not None else NOT_RETRIEVED, size)
            relevant = ranked.grade >= metric.rel
            return _pieces_found(metric.name, ranked, relevant, present, size, cut)
        # The others are about documents, however many pieces one carries.
        once = ranked.first_of_document
        ranked, present = _rows(ranked, once), present[once]
    if metric.k is None and size.max(initial=0) > _LARGEST:
        return None
    n = ranked.n
    relevant = ranked.grade >= metric.rel
    total = count_by(ranked.query[relevant], n)
    inside = count_by(ranked.query[relevant & present], n)
    k = np.minimum(metric.k if metric.k is not None else NOT_RETRIEVED, size)
    share = ratio(inside, size, 0.0)
    if metric.name == "recall":
        value = ratio(inside, total) * ratio(k, size, 0.0)
    elif metric.name == "hit":
        value = 1 - _none_found(size, inside, k)
    elif metric.name == "recall_all":
        value = np.where(inside == total, _all_found(size, inside, k), 0.0)
    elif metric.name == "precision":
        value = share * k / (metric.k or 1)
    elif metric.name == "precision_returned":
        value = share
    elif metric.name == "rprec":
        value = ratio(share * np.minimum(total, size), total)
    elif metric.name == "f1":
        value = ratio(2 * k * share, (metric.k or 0) + total, 0.0)
    elif metric.name == "judged":
        known = count_by(ranked.query[present & (ranked.grade >= 0)], n)
        return np.where(count_by(ranked.query, n) > 0, ratio(known, size, 0.0), np.nan)
    elif metric.name == "mrr":
        value = _reciprocal_rank(size, inside, k)
    elif metric.name == "map":
        value = _average_precision(size, inside, k) * ratio(inside, total, 0.0)
    elif metric.name.startswith("ndcg"):
        return _ndcg(metric, ranked, present, size, k)
    else:
        return None
    return np.where(total > 0, value, np.nan)


def ceiling(metric: Metric, ranked: Ranked, present: np.ndarray) -> Values:
    """The value of the best possible answer, which may be a short one; shape (n,)."""
    least = 1 if metric.name.startswith("ndcg") else metric.rel
    return metric(ideal(ranked, present, 0 if metric.name == "judged" else least))


def ideal(ranked: Ranked, present: np.ndarray, least: int = 1) -> Ranked:
    """The ranking of the documents of grade `least` or more alone, best grade first.

    Where documents carry units of evidence, those that carry a unit not seen yet come first, which
    is the best order unless units overlap in contrived ways.
    """
    findable = present & (ranked.grade >= least)
    unit_seen = _occurrence(ranked.unit)
    order = np.lexsort((-ranked.grade, unit_seen, ~findable, ranked.query))
    order = order[findable[order]]
    # All judgements of one document share its rank.
    first = ranked.first_of_document[order]
    query = ranked.query[order]
    nth = np.cumsum(first)
    start = np.zeros(ranked.n, np.int64)
    begins = np.flatnonzero(np.diff(query, prepend=-1))
    start[query[begins]] = nth[begins] - first[begins]
    rank = np.full(len(ranked.query), NOT_RETRIEVED)
    rank[order] = np.maximum(nth - start[query], 1)
    returned = count_by(query[first], ranked.n)
    return replace(ranked, rank=rank, returned=returned)


def _pieces_found(
    name: str, ranked: Ranked, relevant: np.ndarray, present: np.ndarray, size: Ints, k: Ints
) -> Values | None:
    """Expected `recall` or `recall_all` where documents share pieces of evidence, or carry several.

    A piece is found when any of its documents is; with c of them among the N of the haystack, a
    random top k misses it with probability C(N - c, k) / C(N, k). All pieces together: inclusion
    and exclusion over the different sets of documents. Shape (n,), NaN without relevant documents;
    None when a query has more than _MOST_SETS sets.
    """
    pieces: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for row in np.flatnonzero(relevant).tolist():
        found = pieces[int(ranked.query[row])][int(ranked.unit[row])]
        if present[row]:
            found.add(int(ranked.document[row]))
    values = np.full(ranked.n, np.nan)
    for query, units in pieces.items():
        n, cut = int(size[query]), int(k[query])
        sets = [frozenset(documents) for documents in units.values()]
        if name == "recall":
            values[query] = _share_found(n, tuple(map(len, sets)), cut)
            continue
        distinct = set(sets)
        if len(distinct) > _MOST_SETS:
            return None
        values[query] = _all_units_found(distinct, n, cut)
    return values


def _all_units_found(sets: set[frozenset[int]], n: int, k: int) -> float:
    if frozenset() in sets:
        return 0.0
    total = 0.0
    for taken in range(len(sets) + 1):
        for chosen in combinations(sets, taken):
            together = len(frozenset().union(*chosen))
            total += (-1) ** taken * _missed(n, together, k)
    return max(0.0, total)


@lru_cache(maxsize=1 << 16)
def _share_found(n: int, sizes: tuple[int, ...], k: int) -> float:
    """Expected share of the pieces that so many documents each carry in the top k of n."""
    return float(np.mean([1 - _missed(n, documents, k) for documents in sizes]))


@lru_cache(maxsize=1 << 16)
def _missed(n: int, documents: int, k: int) -> float:
    """P(none of so many documents is in the top k of n)."""
    i = np.arange(documents)
    return float(np.prod(np.maximum(n - k - i, 0) / np.maximum(n - i, 1)))


def _rows(ranked: Ranked, rows: np.ndarray) -> Ranked:
    """Only these judgements."""
    columns = ("query", "grade", "unit", "document", "first_of_document", "rank", "above", "tied")
    return replace(ranked, **{name: getattr(ranked, name)[rows] for name in columns})


def _occurrence(codes: np.ndarray) -> Ints:
    """How many times each code stood before; 0 for its first."""
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    first = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
    counts = np.diff(np.append(first, len(ordered)))
    result = np.empty(len(codes), np.int64)
    result[order] = np.arange(len(codes)) - np.repeat(first, counts)
    return result


def _none_found(size: Ints, relevant: Ints, k: Ints) -> Values:
    """P(no relevant document in the top k) = product over i < R of (N - k - i) / (N - i)."""
    value = np.ones(len(size))
    for i in range(int(relevant.max(initial=0))):
        active = relevant > i
        factor = np.maximum(size - k - i, 0) / np.maximum(size - i, 1)
        value[active] *= factor[active]
    return value


def _all_found(size: Ints, relevant: Ints, k: Ints) -> Values:
    """P(all relevant documents in the top k) = product over i < R of (k - i) / (N - i)."""
    value = np.ones(len(size))
    for i in range(int(relevant.max(initial=0))):
        active = relevant > i
        factor = np.maximum(k - i, 0) / np.maximum(size - i, 1)
        value[active] *= factor[active]
    return value


def _reciprocal_rank(size: Ints, relevant: Ints, k: Ints) -> Values:
    """Sum over r <= k of P(first relevant document at r) / r, once for each (N, R, k)."""
    cases, which = np.unique(np.stack([size, relevant, k]), axis=1, return_inverse=True)
    values = []
    for n, r, cut in cases.T.tolist():
        if r == 0:
            values.append(0.0)
            continue
        before = np.arange(min(cut, n - r + 1))  # how many documents stand above
        clear = np.concatenate([[1.0], np.cumprod((n - r - before) / (n - before))[:-1]])
        values.append(float(np.sum(clear * r / (n - before) / (before + 1))))
    return np.array(values)[which.ravel()]


def _average_precision(size: Ints, relevant: Ints, k: Ints) -> Values:
    """(1/N) * sum over i <= k of (1 + (i - 1)(R - 1)/(N - 1)) / i."""
    cases, which = np.unique(np.stack([size, relevant, k]), axis=1, return_inverse=True)
    values = []
    for n, r, cut in cases.T.tolist():
        slope = (r - 1) / (n - 1) if n > 1 else 0.0
        harmonic = float(np.sum(1 / np.arange(1, cut + 1)))
        values.append((harmonic * (1 - slope) + slope * cut) / n if r and n else 0.0)
    return np.array(values)[which.ravel()]


def _ndcg(metric: Metric, ranked: Ranked, present: np.ndarray, size: Ints, k: Ints) -> Values:
    """Mean gain of a document * sum of discounts in the top k / ideal DCG.

    Expected DCG is that of a ranking where every rank holds the mean gain; the metric's own
    function gives ideal DCG, as the value of one document of gain g at rank 1 is g / ideal.
    """
    relevant = ranked.grade >= 1
    grade = ranked.grade.astype(float)
    gain = np.exp2(grade) - 1 if metric.name == "ndcg_exp" else grade
    gains = sum_by(ranked.query[relevant & present], gain[relevant & present], ranked.n)
    best = sum_by(ranked.query, np.where(_is_top(ranked), gain, 0.0), ranked.n)
    alone = replace(ranked, rank=np.where(_is_top(ranked), 1, NOT_RETRIEVED))
    own_ideal = ratio(best, metric(alone), np.nan)
    discounts = _discount_sums(metric.name, int(k.max(initial=0)))[k]
    return ratio(gains * discounts, size * np.nan_to_num(own_ideal))


def _is_top(ranked: Ranked) -> np.ndarray:
    """One judgement of the highest grade for each query that has a relevant one."""
    order = np.lexsort((-ranked.grade, ranked.query))
    first = np.diff(ranked.query[order], prepend=-1) != 0
    top = np.zeros(len(ranked.query), bool)
    top[order[first]] = True
    return top & (ranked.grade >= 1)


def _discount_sums(name: str, k: int) -> Values:
    """Sums of 1 / discount over ranks 1..i, for i = 0..k."""
    rank = np.arange(1, k + 1)
    discount = np.log2(np.maximum(rank, 2)) if name == "ndcg_b2" else np.log2(rank + 1)
    return np.concatenate([[0.0], np.cumsum(1 / discount)])
