"""Metrics that count evidence, relevant documents and judged documents in the top k.

Recall, hit and recall_all (how much, whether any, and whether all of the evidence was found) are
all called "R@k" in publications, but differ by tens of points; here each has its own name. They
count evidence items: a relevant document is its own item, unless the qrels name items
(schema.Qrel); an item is found if any of its documents is. The other metrics count documents:
precision over k and over returned documents, F1, R-precision, and the judged share.

In a random order of N documents with R relevant ones the number of relevant documents in the top k
is hypergeometric: every random baseline follows from that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

import numpy as np
import numpy.typing as npt

from harness.scoring.arrays import Flags, Ints, Values, count_by, ratio, sum_by
from harness.scoring.metrics.definition import (
    MetricDefinition,
    RandomOrders,
    TiedDocuments,
    all_found,
    none_found,
)
from harness.scoring.ranks import Ranked

_MOST_SETS = 16
"""Maximum number of distinct document sets of a query's evidence items for which recall_all has a
random baseline."""


# -- Pieces of evidence ----------------------------------------------------------------------------


def _any_found(found: Values, pieces: Ints) -> Values:
    return np.asarray(found > 0, float)


def _all_found(found: Values, pieces: Ints) -> Values:
    return np.asarray(found == pieces, float)


def _recall(ranked: Ranked, cutoff: Ints) -> Values:
    found, pieces = _pieces(ranked, cutoff)
    return ratio(found, pieces)


def _hit(ranked: Ranked, cutoff: Ints) -> Values:
    found, pieces = _pieces(ranked, cutoff)
    return np.where(pieces > 0, _any_found(found, pieces), np.nan)


def _recall_all(ranked: Ranked, cutoff: Ints) -> Values:
    found, pieces = _pieces(ranked, cutoff)
    return np.where(pieces > 0, _all_found(found, pieces), np.nan)


def _pieces(ranked: Ranked, cutoff: Ints) -> tuple[Values, Ints]:
    """Returns the number of evidence items in the top k, and of all items; each (n,)."""
    relevant = ranked.grade >= 1
    query, rank = ranked.query[relevant], ranked.rank[relevant]
    found = rank <= cutoff[query]
    pieces, first, of = np.unique(
        ranked.evidence_id[relevant], return_index=True, return_inverse=True
    )
    if len(pieces) < len(query):
        found = np.bincount(of, weights=found) > 0
        query = query[first]
    return sum_by(query, found, ranked.n), count_by(query, ranked.n)


def pieces_of(ranked: Ranked, relevant: Flags, present: Flags) -> dict[int, list[set[int]]]:
    """Returns the `present` documents of each evidence item of each query."""
    found: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for row in np.flatnonzero(relevant).tolist():
        documents = found[int(ranked.query[row])][int(ranked.evidence_id[row])]
        if present[row]:
            documents.add(int(ranked.document[row]))
    return {query: list(pieces.values()) for query, pieces in found.items()}


def _random_recall(orders: RandomOrders) -> Values:
    return ratio(orders.inside, orders.total) * ratio(orders.top, orders.size, 0.0)


def _random_hit(orders: RandomOrders) -> Values:
    return 1 - none_found(orders.size, orders.inside, orders.top)


def _random_recall_all(orders: RandomOrders) -> Values:
    every = all_found(orders.size, orders.inside, orders.top)
    return np.where(orders.inside == orders.total, every, 0.0)


def _random_recall_of_pieces(pieces: Sequence[frozenset[int]], size: int, top: int) -> float:
    return _share_found(size, tuple(map(len, pieces)), top)


def _random_recall_all_of_pieces(
    pieces: Sequence[frozenset[int]], size: int, top: int
) -> float | None:
    """Returns P(each item has a document in the top k), by inclusion-exclusion over the distinct
    sets of documents; None if there are more than _MOST_SETS."""
    sets = set(pieces)
    if len(sets) > _MOST_SETS:
        return None
    if frozenset() in sets:
        return 0.0
    total = 0.0
    for taken in range(len(sets) + 1):
        for chosen in combinations(sets, taken):
            together = len(frozenset().union(*chosen))
            total += (-1) ** taken * _missed(size, together, top)
    return max(0.0, total)


@lru_cache(maxsize=1 << 16)
def _share_found(size: int, documents: tuple[int, ...], top: int) -> float:
    """Returns the expected share of items in the top k of N, from each item's document count."""
    return float(np.mean([1 - _missed(size, carried, top) for carried in documents]))


@lru_cache(maxsize=1 << 16)
def _missed(size: int, documents: int, top: int) -> float:
    """Returns P(none of `documents` documents in top k of N) = C(N - documents, k) / C(N, k)."""
    i = np.arange(documents)
    return float(np.prod(np.maximum(size - top - i, 0) / np.maximum(size - i, 1)))


def _tied_recall(tied: TiedDocuments) -> Values:
    return ratio(tied.found, tied.total)


def _tied_hit(tied: TiedDocuments) -> Values:
    groups, missed = tied.groups, np.ones(tied.ranked.n)
    none = none_found(groups.tied, groups.relevant, groups.inside)
    np.multiply.at(missed, groups.query, none)
    return 1 - missed


def _tied_recall_all(tied: TiedDocuments) -> Values:
    groups, found = tied.groups, np.ones(tied.ranked.n)
    np.multiply.at(found, groups.query, all_found(groups.tied, groups.relevant, groups.inside))
    return np.where(count_by(tied.query, tied.ranked.n) == tied.total, found, 0.0)


# -- Documents -------------------------------------------------------------------------------------


def _precision(ranked: Ranked, cutoff: Ints) -> Values:
    found, relevant = _counts(ranked, cutoff)
    return np.where(relevant > 0, found / cutoff, np.nan)


def _precision_returned(ranked: Ranked, cutoff: Ints) -> Values:
    found, relevant = _counts(ranked, cutoff)
    value = ratio(found, np.minimum(ranked.returned, cutoff), 0.0)
    return np.where(relevant > 0, value, np.nan)


def _f1(ranked: Ranked, cutoff: Ints) -> Values:
    found, relevant = _counts(ranked, cutoff)
    return np.where(relevant > 0, 2 * found / (cutoff + relevant), np.nan)


def _r_precision(ranked: Ranked, cutoff: Ints) -> Values:
    return ratio(*_counts(ranked, cutoff))


def _number_relevant(ranked: Ranked) -> Ints:
    return count_by(ranked.query[_once(ranked)], ranked.n)


def _judged(ranked: Ranked, cutoff: Ints) -> Values:
    known = ranked.first_of_document & (ranked.grade >= 0) & (ranked.rank <= cutoff[ranked.query])
    seen = sum_by(ranked.query, known, ranked.n)
    value = ratio(seen, np.minimum(ranked.returned, cutoff), 0.0)
    return np.where(count_by(ranked.query, ranked.n) > 0, value, np.nan)


def _counts(ranked: Ranked, cutoff: Ints) -> tuple[Values, Ints]:
    """Returns the number of relevant documents in the top k, and of all; each (n,)."""
    once = _once(ranked)
    query = ranked.query[once]
    inside = ranked.rank[once] <= cutoff[query]
    return sum_by(query, inside, ranked.n), count_by(query, ranked.n)


def _once(ranked: Ranked) -> npt.NDArray[np.bool_]:
    """Selects one judgement of each relevant document, regardless of its evidence items."""
    return ranked.first_of_document & (ranked.grade >= 1)


def _random_precision(orders: RandomOrders) -> Values:
    return orders.share * orders.top / orders.cutoff


def _random_share(orders: RandomOrders) -> Values:
    return orders.share


def _random_f1(orders: RandomOrders) -> Values:
    return ratio(2 * orders.top * orders.share, orders.cutoff + orders.total, 0.0)


def _random_r_precision(orders: RandomOrders) -> Values:
    return ratio(orders.share * np.minimum(orders.total, orders.size), orders.total)


def _tied_precision(tied: TiedDocuments) -> Values:
    return tied.found / tied.cutoff


def _tied_share(tied: TiedDocuments) -> Values:
    return ratio(tied.found, np.minimum(tied.ranked.returned, tied.cutoff), 0.0)


def _tied_f1(tied: TiedDocuments) -> Values:
    return 2 * tied.found / (tied.cutoff + tied.total)


# -- Their definitions -----------------------------------------------------------------------------

COUNTED = (
    MetricDefinition(
        name="recall",
        about="share of a question's evidence in the top k documents, averaged over questions",
        formula="pieces of evidence in the top k / pieces of evidence",
        source="trec_eval `recall_k`",
        elsewhere="R@k, Recall@k; LoCoMo's recall",
        function=_recall,
        random_baseline=_random_recall,
        random_pieces=_random_recall_of_pieces,
        expected_over_ties=_tied_recall,
        piece_value=ratio,
        needs_cutoff=True,
        aliases=("r",),
        reference="recall",
    ),
    MetricDefinition(
        name="hit",
        about="share of questions with any evidence in the top k documents",
        formula="1 where any piece of evidence is in the top k, else 0",
        source="trec_eval `success_k`",
        elsewhere="success@k, hit rate, Recall@k of question answering; LongMemEval's "
        "`recall_any@k`",
        function=_hit,
        random_baseline=_random_hit,
        expected_over_ties=_tied_hit,
        piece_value=_any_found,
        needs_cutoff=True,
        aliases=("success", "recall_any"),
        reference="success",
    ),
    MetricDefinition(
        name="recall_all",
        about="share of questions with all their evidence in the top k documents",
        formula="1 where every piece of evidence is in the top k, else 0",
        source="LongMemEval `recall_all@k`",
        elsewhere="full recall, all-gold recall",
        function=_recall_all,
        random_baseline=_random_recall_all,
        random_pieces=_random_recall_all_of_pieces,
        expected_over_ties=_tied_recall_all,
        piece_value=_all_found,
        needs_cutoff=True,
    ),
    MetricDefinition(
        name="precision",
        about="share of the top k documents that are evidence; at most 1 / k for a question with "
        "one evidence item",
        formula="relevant documents in the top k / k, also where fewer were returned",
        source="trec_eval `P_k`",
        elsewhere="P@k",
        function=_precision,
        random_baseline=_random_precision,
        expected_over_ties=_tied_precision,
        needs_cutoff=True,
        aliases=("p",),
        reference="P",
    ),
    MetricDefinition(
        name="precision_returned",
        about="precision over the returned documents, if they are fewer than k",
        formula="relevant documents in the top k / documents returned there; 0 where nothing was",
        elsewhere="precision of RAG tools, where k varies",
        function=_precision_returned,
        random_baseline=_random_share,
        expected_over_ties=_tied_share,
        needs_cutoff=True,
    ),
    MetricDefinition(
        name="f1",
        about="harmonic mean of precision and recall at k",
        formula="2 × relevant documents in the top k / (k + relevant documents)",
        source="the harmonic mean of precision@k and recall@k",
        elsewhere="F1@k",
        function=_f1,
        random_baseline=_random_f1,
        expected_over_ties=_tied_f1,
        needs_cutoff=True,
    ),
    MetricDefinition(
        name="rprec",
        about="precision at rank R, the number of evidence items of the question",
        formula="relevant documents in the top n, n the number of relevant documents, / n",
        source="trec_eval `Rprec`",
        elsewhere="R-precision",
        function=_r_precision,
        own_cutoff=_number_relevant,
        random_baseline=_random_r_precision,
        expected_over_ties=_tied_recall,
        aliases=("r-precision",),
        reference="Rprec",
    ),
    MetricDefinition(
        name="judged",
        about="share of the top k documents that have a judgement",
        formula="documents of the top k with a judgement of grade 0 or more / documents returned "
        "there; 0 where nothing was",
        source="ir_measures `Judged@k`, which counts documents of grades below 0 as judged too",
        elsewhere="judged@k; where it is low, other metrics undercount",
        function=_judged,
        of_judged=True,
        random_baseline=_random_share,
        expected_over_ties=_tied_share,
        needs_cutoff=True,
    ),
)
