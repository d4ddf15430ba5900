"""Metrics that count what stands in the top k: of the evidence, of relevant and judged documents.

Recall, hit and recall_all (how much, whether any, and whether all of the evidence was found) are
quoted under one name in the field ("R@k") and differ by tens of points; here each has its own. They
count *pieces of evidence*: a relevant document is its own piece, unless the judgements name units
(schema.Qrel); a piece is found when any document that carries it is. The others count
documents: precision over k and over what was returned, F1, R-precision, the judged share.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import numpy.typing as npt

from harness.scoring.arrays import Flags, Ints, Values, count_by, ratio, sum_by
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


def precision(ranked: Ranked, cut: Ints) -> Values:
    """Relevant documents in the top k / k, also when fewer were returned (trec_eval's P_k)."""
    found, relevant = _counts(ranked, cut)
    return np.where(relevant > 0, found / cut, np.nan)


def precision_returned(ranked: Ranked, cut: Ints) -> Values:
    """Relevant documents in the top k / documents returned there; 0 when nothing was returned."""
    found, relevant = _counts(ranked, cut)
    shown = np.minimum(ranked.returned, cut)
    value = ratio(found, shown, 0.0)
    return np.where(relevant > 0, value, np.nan)


def f1(ranked: Ranked, cut: Ints) -> Values:
    """Harmonic mean of precision@k and recall@k: 2 * found / (k + relevant), over documents."""
    found, relevant = _counts(ranked, cut)
    return np.where(relevant > 0, 2 * found / (cut + relevant), np.nan)


def r_precision(ranked: Ranked, cut: Ints) -> Values:
    """Precision at R, the number of relevant documents of the query (trec_eval's Rprec)."""
    once = _once(ranked)
    relevant = count_by(ranked.query[once], ranked.n)
    inside = ranked.rank[once] <= relevant[ranked.query[once]]
    found = sum_by(ranked.query[once], inside, ranked.n)
    return ratio(found, relevant)


def judged(ranked: Ranked, cut: Ints) -> Values:
    """Share of the top k that somebody judged (grade 0 or more); 0 when nothing was returned.

    Low values say that other metrics undercount: unjudged documents count as not relevant
    (Judged@k, as ir_measures has it).
    """
    known = ranked.first_of_document & (ranked.grade >= 0) & (ranked.rank <= cut[ranked.query])
    shown = np.minimum(ranked.returned, cut)
    seen = sum_by(ranked.query, known, ranked.n)
    any_judged = count_by(ranked.query, ranked.n) > 0
    value = ratio(seen, shown, 0.0)
    return np.where(any_judged, value, np.nan)


def pieces_of(ranked: Ranked, relevant: Flags, present: Flags) -> dict[int, list[set[int]]]:
    """For each query the documents of each of its pieces of evidence, those that are `present`."""
    found: dict[int, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))
    for row in np.flatnonzero(relevant).tolist():
        documents = found[int(ranked.query[row])][int(ranked.unit[row])]
        if present[row]:
            documents.add(int(ranked.document[row]))
    return {query: list(units.values()) for query, units in found.items()}


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


def _counts(ranked: Ranked, cut: Ints) -> tuple[Values, Ints]:
    """Relevant documents in the top k, and relevant documents; each (n,)."""
    once = _once(ranked)
    query = ranked.query[once]
    inside = ranked.rank[once] <= cut[query]
    return sum_by(query, inside, ranked.n), count_by(query, ranked.n)


def _once(ranked: Ranked) -> npt.NDArray[np.bool_]:
    """Judgements of relevant documents, each document once however many units it carries."""
    return ranked.first_of_document & (ranked.grade >= 1)
