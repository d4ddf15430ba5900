"""Chance levels where several documents carry the same piece of evidence, or one several pieces.

A piece is found when any of its documents is; with c of them among the N of the haystack, a random
top k misses it with probability C(N - c, k) / C(N, k). All pieces together: inclusion and exclusion
over the different sets of documents.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import combinations

import numpy as np

from harness.scoring.arrays import Ints, Values
from harness.scoring.ranks import Ranked

_MOST_SETS = 16
"""Queries whose pieces lie in more different sets of documents than this get no level."""


def pieces_found(
    name: str, ranked: Ranked, relevant: np.ndarray, present: np.ndarray, size: Ints, k: Ints
) -> Values | None:
    """Expected `recall` or `recall_all` of a random ranking; (n,), NaN without relevant documents.

    None when a query has too many sets to sum over.
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
            values[query] = np.mean([1 - _missed(n, len(documents), cut) for documents in sets])
            continue
        distinct = set(sets)
        if len(distinct) > _MOST_SETS:
            return None
        values[query] = _all_found(distinct, n, cut)
    return values


def _all_found(sets: set[frozenset[int]], n: int, k: int) -> float:
    if frozenset() in sets:
        return 0.0
    total = 0.0
    for taken in range(len(sets) + 1):
        for chosen in combinations(sets, taken):
            together = len(frozenset().union(*chosen))
            total += (-1) ** taken * _missed(n, together, k)
    return max(0.0, total)


def _missed(n: int, documents: int, k: int) -> float:
    """P(none of so many documents is in the top k of n)."""
    i = np.arange(documents)
    return float(np.prod(np.maximum(n - k - i, 0) / np.maximum(n - i, 1)))
