"""What a random ranking would score, exactly: each metric's own formula, in `metrics`.

A random ranking orders the N documents of the haystack uniformly.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from harness.scoring.arrays import Flags, Ints, Values, count_by
from harness.scoring.metrics import Metric
from harness.scoring.metrics.counted import pieces_of
from harness.scoring.metrics.definition import RandomOrders
from harness.scoring.ranks import Ranked

_LARGEST = 1_000_000
"""Haystacks above this size get no random baseline for metrics over the whole ranking."""


def random_baseline(metric: Metric, ranked: Ranked, present: Flags, size: Ints) -> Values | None:
    """Expected value of the metric for a random ranking; shape (n,), NaN without relevant ones.

    `present` (m,): the judged document is in the haystack; `size` (n,): documents in it. None where
    the metric has no formula, or it would take too long: whole rankings of haystacks above
    _LARGEST, and queries whose evidence lies in too many sets of documents.
    """
    definition, ranked = metric.definition, metric.with_relevance(ranked)
    if ranked.shares_evidence:
        if definition.random_pieces is not None:
            return _random_pieces(metric, ranked, present, size)
        # The others are about documents, however many pieces one carries.
        once = ranked.first_of_document
        ranked, present = _rows(ranked, once), present[once]
    if definition.random_baseline is None:
        return None
    if metric.k is None and size.max(initial=0) > _LARGEST:
        return None
    relevant = ranked.grade >= definition.least_grade
    rows = np.flatnonzero(relevant & present)
    total, inside = (count_by(ranked.query[part], ranked.n) for part in (relevant, rows))
    cutoff = definition.cutoffs(ranked, metric.k)
    orders = RandomOrders(ranked, size, total, inside, rows, cutoff, np.minimum(cutoff, size))
    return definition.where_defined(definition.random_baseline(orders), ranked, total)


def _random_pieces(metric: Metric, ranked: Ranked, present: Flags, size: Ints) -> Values | None:
    """The same where documents share pieces of evidence, or carry several.

    A piece is found when any of its documents is. None where a query has too many pieces.
    """
    expected = metric.definition.random_pieces
    assert expected is not None
    values = np.full(ranked.n, np.nan)
    top = np.minimum(metric.definition.cutoffs(ranked, metric.k), size)
    for query, pieces in pieces_of(ranked, ranked.grade >= 1, present).items():
        value = expected([*map(frozenset, pieces)], int(size[query]), int(top[query]))
        if value is None:
            return None
        values[query] = value
    return values


def _rows(ranked: Ranked, rows: Flags) -> Ranked:
    """Only these judgements."""
    columns = (
        "query",
        "grade",
        "evidence_id",
        "document",
        "first_of_document",
        "rank",
        "above",
        "tied",
    )
    return replace(ranked, **{name: getattr(ranked, name)[rows] for name in columns})
