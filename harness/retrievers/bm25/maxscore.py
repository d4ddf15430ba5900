"""The best documents of a large index, without a look at most of what frequent terms have.

This is MaxScore (Turtle and Flood, 1995) in columns, a window of documents after the other, so that
scores are added up in the processor's cache. Terms are taken from the rarest on. As soon as all
the terms that are left could not bring a document to what the k-th best scores so far, no new
document can come among the k best: from then on terms only add to those documents that can still
reach the k-th. What is left of a window is scored once more, as the whole index would have been: in
the order of the question, in single precision. So the answer is the same to the bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from harness.retrievers.bm25.index import IntArray, InvertedIndex

Singles = npt.NDArray[np.float32]
Weigh = Callable[[int, IntArray, IntArray], Singles]
"""From a term, its counts in some of the documents that have it, and which these are."""

WINDOW = 1 << 19
"""Documents a window: two megabytes of scores."""

_MANY = 8
"""To add to every document that has a term costs what it costs to look it up for one in eight, and
to look at all scores of a window as much as to look at one in eight of them by its place."""
_TINY = float(np.nextafter(np.float32(0), np.float32(1)))

_SLACK = 1e-4
"""More than sums of some hundred terms differ by when they are taken in another order."""


def top_k(
    index: InvertedIndex,
    terms: Sequence[int],
    k: int,
    exact_weights: Weigh,
    approximate: Weigh,
    maximum: Callable[[int], float],
) -> tuple[npt.NDArray[np.int32], Singles]:
    """Return the k best documents that score above 0, and their scores, best first.

    Equal scores keep the documents' order. `terms` are those of the question in its order;
    `approximate` may differ from `exact_weights` by a hundred thousandth; `maximum` is what a term
    gives at most.
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
    """Return the places in the window of all documents that may score `least`, in rising order.

    Their approximate scores are in `window` afterwards.

    `parts` are documents and counts of each term, the rarest first, and `left` what the terms from
    each on give at most; `low` is the window's first document.
    """
    window[:] = 0
    new: npt.NDArray[np.intp] | None = None
    touched: list[npt.NDArray[np.intp]] = []
    for (term, part), here, after in zip(parts.items(), left, left[1:], strict=False):
        if new is None and here < least:
            new = _at_least(window, touched, least - here)
        if new is None or len(new) > len(part[0]) // _MANY:
            owners, counts = part
            at = owners.astype(np.intp)  # NumPy takes and puts by these in half the time
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
    """Return which of the places that were added to score so much, in rising order."""
    least = max(least, _TINY)
    if sum(map(len, touched)) > len(window) // _MANY:
        return np.flatnonzero(window >= least)
    kept = [at[window.take(at) >= least] for at in touched]
    places = np.sort(np.concatenate([np.zeros(0, np.intp), *kept]))
    # Not np.unique, which puts them into a hash table first, at ten times the cost.
    return places[np.diff(places, prepend=-1) > 0]


def _kth(scores: Singles, k: int, slack: float) -> float:
    """Return a little less than what the k-th best scores."""
    return float(np.partition(scores, len(scores) - k)[len(scores) - k]) * (1 - slack)


def _rows_of(
    part: tuple[IntArray, IntArray], documents: npt.NDArray[np.intp]
) -> tuple[npt.NDArray[np.intp], IntArray]:
    """Return which of some documents, in rising order, have a term, and how often each of those."""
    owners, counts = part
    if not len(owners):
        return np.zeros(0, np.intp), counts
    place = np.searchsorted(owners, documents.astype(owners.dtype))
    place[place == len(owners)] = 0
    has = np.flatnonzero(owners[place] == documents)
    return has, counts[place[has]]
