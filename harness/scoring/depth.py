"""Finds the metrics whose values depend on ranking depth.

A ranking with as many results as were asked for was cut off there. Its top k is what it would be
in a deeper one for every k down to the cut; where equal scores are ordered by id, only down to the
last group of equals, as others of that score may have been cut off. A ranking of fewer results, or
of the whole haystack, is all that the system had.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.runfiles.rankings import Rankings
from harness.scoring.arrays import Flags, Ints
from harness.scoring.metrics import Metric
from harness.scoring.ranks import NOT_RETRIEVED, Ranked, Ties, of_width


def stable_depth(
    rankings: Rankings,
    query_ids: Sequence[str],
    sizes: Ints,
    results: Ints | None,
    depth: int,
    ties: Ties,
) -> Ints:
    """The rank of each query, (n,), down to which deeper rankings would be the same.

    NOT_RETRIEVED where they would hold no more. `rankings` are best first; `sizes` (n,): documents
    in the haystack; `results` (n,): how many there were, where those are not documents; `depth`:
    how many were asked for.
    """
    returned, equal = np.zeros(len(query_ids), np.int64), np.zeros(len(query_ids), np.int64)
    known = {name: at for at, name in enumerate(rankings.query_ids)}
    at = np.array([known.get(name, -1) for name in query_ids], np.int64)
    if len(rankings):
        returned[at >= 0] = np.diff(rankings.starts)[at[at >= 0]]
        equal[at >= 0] = _last_equals(rankings, ties)[at[at >= 0]]
    # A result may bring no new document, or several, of which the last were cut off.
    most = returned if results is None else np.maximum(returned, results)
    whole = (returned >= sizes) | (most < depth) | (returned == 0)
    return np.where(whole, NOT_RETRIEVED, returned - equal)


def _last_equals(rankings: Rankings, ties: Ties) -> Ints:
    """How many documents have the last one's score, by ranking; 0 where equals keep their order."""
    starts = rankings.starts
    sizes = np.diff(starts)
    found = np.zeros(len(sizes), np.int64)
    if ties is Ties.ORDER or rankings.score is None:
        return found
    score = of_width(rankings.score, ties)
    some = sizes > 0
    last = np.repeat(score[starts[1:][some] - 1], sizes[some])
    found[some] = np.add.reduceat((score == last).astype(np.int64), starts[:-1][some])
    return found


def depth_sensitive(
    metric: Metric, ranked: Ranked, stable: Ints, cutoff: Ints | None = None
) -> Flags:
    """Whether deeper rankings could change the metric of each query, (n,).

    A metric with a cutoff k looks at ranks to k, R-precision to the number of relevant documents,
    any other at all ranks. `stable` as of `stable_depth`; `cutoff`, (n,), replaces the metric's by
    one of each query's own.
    """
    if cutoff is None:
        cutoff = metric.definition.cutoffs(metric.with_relevance(ranked), metric.k)
    return np.asarray(cutoff > stable)
