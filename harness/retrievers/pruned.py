"""The best documents of a large index, without a look at most of what frequent terms have.

This is MaxScore (Turtle and Flood, 1995) in whole columns. Terms are taken from the rarest on. As
soon as k documents have scored more than all the terms that are left could give, no new document
can come among the k best: from then on the terms that are left are looked up for those documents
alone that can still reach the k-th. These are then scored once more, as the whole index would have
been: in the order of the question, in single precision. So the answer is the same to the bit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from harness.retrievers.inverted import Inverted, Places

Singles = npt.NDArray[np.float32]
Weigh = Callable[[int, Places, Places], Singles]
"""From a term, its counts in some of the documents that have it, and which these are."""

_MANY = 12
"""To look at every score costs what it costs to look at one in twelve of them by its place."""
_TINY = np.nextafter(np.float32(0), np.float32(1))

_SLACK = 1e-4
"""More than sums of some hundred terms differ by when they are taken in another order."""


def best_of(
    index: Inverted,
    terms: Sequence[int],
    k: int,
    weigh: Weigh,
    near: Weigh,
    bound: Callable[[int], float],
    scores: Singles,
) -> tuple[npt.NDArray[np.int32], Singles]:
    """The k best documents that score above 0, best first, equal ones in their order; and scores.

    `terms` are those of the question in its order; `near` may differ from `weigh` by a hundred
    thousandth; `bound` is what a term gives at most; `scores`, shape
    (documents,), are zeros, and zeros again afterwards.
    """
    slack = max(_SLACK, 4 * len(terms) * float(np.finfo(np.float32).eps))
    size = dict(zip(terms, index.held(terms), strict=True))
    times = Counter(terms)
    most = {term: bound(term) * n for term, n in times.items()}
    order = sorted((term for term in most if most[term] > 0), key=lambda term: size[term])
    left, done = sum(most.values()), 0.0
    found: list[npt.NDArray[np.intp]] = []
    least = 0.0
    with _zeros_again(scores, found):
        while order and left >= least:
            term = order.pop(0)
            owners, counts = index.of(term)
            at = owners.astype(np.intp)  # NumPy takes and puts by these in half the time
            before = scores.take(at)
            found.append(at[before == 0])
            scores[at] = before + times[term] * near(term, counts, at)
            left, done = left - most[term], done + most[term]
            if order and left < done and sum(map(len, found)) >= k:
                least = _kth(np.concatenate([scores.take(some) for some in found]), k, slack)
        documents = _taken(scores, found, least - left)
        reached = scores.take(documents)
    for term in order:
        at, weights = _looked_up(index, term, documents, near)
        reached[at] += times[term] * weights
        left -= most[term]
        if len(reached) >= k:
            enough = reached + max(left, 0.0) >= _kth(reached, k, slack)
            documents, reached = documents[enough], reached[enough]
    if len(reached) > k:
        documents = documents[reached >= _kth(reached, k, slack)]
    exact = np.zeros(len(documents), np.float32)
    for term in terms:
        at, weights = _looked_up(index, term, documents, weigh)
        exact[at] += weights
    top = np.lexsort((documents, -exact))[:k]
    top = top[exact[top] > 0]
    return documents[top], exact[top]


@contextmanager
def _zeros_again(scores: Singles, found: Sequence[npt.NDArray[np.intp]]) -> Iterator[None]:
    """Zeros in the scores of all that was found, whatever happens: Ctrl-C too."""
    try:
        yield
    finally:
        if _many(scores, found):
            scores[:] = 0
        else:
            for some in found:
                scores[some] = 0


def _many(scores: Singles, found: Sequence[npt.NDArray[np.intp]]) -> bool:
    return sum(map(len, found)) > len(scores) // _MANY


def _taken(
    scores: Singles, found: Sequence[npt.NDArray[np.intp]], least: float
) -> npt.NDArray[np.int32]:
    """Which of the documents that were found scored so much, in rising order."""
    least = max(least, float(_TINY))
    if _many(scores, found):
        return np.flatnonzero(scores >= least).astype(np.int32)
    kept = [some[scores.take(some) >= least] for some in found]
    return np.sort(np.concatenate([np.zeros(0, np.intp), *kept])).astype(np.int32)


def _kth(scores: Singles, k: int, slack: float) -> float:
    """What the k-th best scores, a little less than that."""
    return float(np.partition(scores, len(scores) - k)[len(scores) - k]) * (1 - slack)


def _looked_up(
    index: Inverted, term: int, documents: npt.NDArray[np.int32], weigh: Weigh
) -> tuple[npt.NDArray[np.intp], Singles]:
    """Which of some documents, in rising order, have a term, and what it gives to each of those."""
    owners, counts = index.of(term)
    place = np.searchsorted(owners, documents)
    place[place == len(owners)] = 0
    at = np.flatnonzero(owners[place] == documents)
    return at, weigh(term, counts[place[at]], documents[at])
