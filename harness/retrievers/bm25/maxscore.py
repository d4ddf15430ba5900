"""MaxScore (Turtle and Flood, 1995): finds the k best documents without reading all postings.

This columnar version processes windows of documents, so that scores stay in the processor's cache.
Terms are processed from the rarest on. Once the remaining terms alone cannot raise a document to
the k-th best score so far, no new document can enter the k best, and only documents that can still
reach that score are updated. The remaining candidates of a window are scored again in the
question's order, in single precision, exactly as without pruning: results are identical to the bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from harness.retrievers.bm25.index import IntArray, InvertedIndex

Singles = npt.NDArray[np.float32]
Weigh = Callable[[int, IntArray, IntArray], Singles]
"""Weights of a term, from the term, its counts in some documents, and the documents."""

WINDOW = 1 << 19
"""Documents per window: 2 MiB of scores."""

_MANY = 8
"""Cost ratio: processing all postings of a term costs as much as looking up an eighth of them, and
scanning a window as much as reading an eighth of its scores by position."""
_TINY = float(np.nextafter(np.float32(0), np.float32(1)))

_SLACK = 1e-4
"""Relative tolerance; exceeds the rounding of sums of some hundred terms in another order."""


def top_k(
    index: InvertedIndex,
    terms: Sequence[int],
    k: int,
    exact_weights: Weigh,
    approximate: Weigh,
    maximum: Callable[[int], float],
) -> tuple[npt.NDArray[np.int32], Singles]:
    """Returns the k best documents with scores above 0, and their scores, best first.

    Ties keep the documents' order. `terms` are those of the question in its order; `approximate`
    may differ from `exact_weights` by 1e-5; `maximum` returns the upper bound of a term's weight.
    """
    slack = max(_SLACK, 4 * len(terms) * float(np.finfo(np.float32).eps))
    frequency = dict(zip(terms, index.document_frequencies(terms), strict=True))
    times = Counter(terms)
    most = {term: maximum(term) * n for term, n in times.items()}
    order = sorted((term for term in most if most[term] > 0), key=lambda term: frequency[term])
    left = np.cumsum([0.0, *(most[term] for term in reversed(order))])[::-1].tolist()
    bounds = {term: index.window_bounds(term, WINDOW) for term in order}
    n = len(index.lengths)
    window = np.zeros(min(WINDOW, n), np.float32)
    found, exact = np.zeros(0, np.int32), np.zeros(0, np.float32)
    least = 0.0

    def weights(term: int, counts: IntArray, at: IntArray) -> Singles:
        once = approximate(term, counts, at)
        return once if times[term] == 1 else once * np.float32(times[term])

    for number, low in enumerate(range(0, n, WINDOW)):
        parts = {term: index.rows(*bounds[term][number : number + 2]) for term in order}
        new = _candidates(parts, left, least, weights, window, low)
        reached = window.take(new)
        if len(found) + len(new) > k:
            least = max(least, _kth(np.append(exact, reached), k, slack))
            new = new[reached >= least]
        new += low
        scores = np.zeros(len(new), np.float32)
        for term in filter(parts.__contains__, terms):
            has, counts = _rows_of(parts[term], new)
            scores[has] += exact_weights(term, counts, new[has])
        found, exact = np.append(found, new.astype(np.int32)), np.append(exact, scores)
        enough = exact >= least
        found, exact = found[enough], exact[enough]
    top = np.lexsort((found, -exact))[:k]
    top = top[exact[top] > 0]
    return found[top], exact[top]


def _candidates(
    parts: Mapping[int, tuple[IntArray, IntArray]],
    left: Sequence[float],
    least: float,
    weights: Weigh,
    window: Singles,
    low: int,
) -> npt.NDArray[np.intp]:
    """Returns the positions in the window of all documents that may score `least`, ascending.

    Writes their approximate scores to `window`.

    `parts` are documents and counts of each term, the rarest first; `left` is the maximum sum of
    the weights from each term on; `low` is the window's first document.
    """
    window[:] = 0
    new: npt.NDArray[np.intp] | None = None
    touched: list[npt.NDArray[np.intp]] = []
    for (term, part), here, after in zip(parts.items(), left, left[1:], strict=False):
        if new is None and here < least:
            new = _at_least(window, touched, least - here)
        if new is None or len(new) > len(part[0]) // _MANY:
            owners, counts = part
            at = owners.astype(np.intp)  # NumPy indexes by intp in half the time
        else:
            has, counts = _rows_of(part, new + low)
            at = new[has] + low
        added = weights(term, counts, at)
        at -= low
        np.add.at(window, at, added)
        if new is None:
            touched.append(at)
        else:
            new = new[window.take(new) >= least - after]
    return _at_least(window, touched, least) if new is None else new


def _at_least(
    window: Singles, touched: Sequence[npt.NDArray[np.intp]], least: float
) -> npt.NDArray[np.intp]:
    """Returns the touched positions that score at least `least`, ascending."""
    least = max(least, _TINY)
    if sum(map(len, touched)) > len(window) // _MANY:
        return np.flatnonzero(window >= least)
    kept = [at[window.take(at) >= least] for at in touched]
    places = np.sort(np.concatenate([np.zeros(0, np.intp), *kept]))
    # Not np.unique: its hash table costs ten times as much.
    return places[np.diff(places, prepend=-1) > 0]


def _kth(scores: Singles, k: int, slack: float) -> float:
    """Returns the k-th best score, reduced by the tolerance `slack`."""
    return float(np.partition(scores, len(scores) - k)[len(scores) - k]) * (1 - slack)


def _rows_of(
    part: tuple[IntArray, IntArray], documents: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.intp], IntArray]:
    """Returns the indices of `documents`, ascending, with a term, and the term's counts in them."""
    owners, counts = part
    if not len(owners):
        return np.zeros(0, np.intp), counts
    place = np.searchsorted(owners, documents.astype(owners.dtype))
    place[place == len(owners)] = 0
    has = np.flatnonzero(owners[place] == documents)
    return has, counts[place[has]]
