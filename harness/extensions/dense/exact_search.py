"""Exact nearest neighbours by dot product. Equal scores keep the order of the documents."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from harness.retrievers.contract import Result
from harness.retrievers.top_k import top_k

Vectors = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]

BLOCK = 65_536
"""Documents a block where scores are made of all documents with each other."""

PIECE = 16_384
"""Documents that are searched at once: with 1,024 questions their scores take 64 MB."""


def nearest(queries: Vectors, pieces: Iterable[tuple[int, Vectors]], k: int) -> list[Result]:
    """The k documents of the highest dot product with each query, best first.

    `queries` has shape (q, d). `pieces` are all documents in order: the position of the first one,
    and vectors of shape (n, d). Equal scores keep the documents' order. Memory: the scores of a
    piece, twice, and some 40 bytes for each of the q * k candidates.
    """
    if k < 1:
        return [Result([], []) for _ in queries]
    top = _Top(len(queries), k)
    for start, documents in pieces:
        top.add(start, queries @ documents.T)
    return top.results()


class _Top:
    """The k best of each query so far, and candidates that are not sorted yet."""

    def __init__(self, queries: int, k: int) -> None:
        self._n, self._k = queries, k
        self._waiting = [(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))]
        self._count = 0
        # Who is not above it cannot be among the k best any more.
        self._floor = np.full((queries, 1), -np.inf, np.float32)

    def add(self, start: int, scores: Vectors) -> None:
        """Take in scores of shape (queries, n), of the documents from position `start` on."""
        n = scores.shape[1]
        if n > self._k and (self._floor == -np.inf).any():
            numbers = np.fmax(scores, np.float32(-np.inf))  # a NaN would sort as the highest
            least = np.partition(numbers, n - self._k, axis=1)[:, n - self._k, None]
            below = np.nextafter(least, np.float32(-np.inf))  # so that what equals it stays
            self._floor = np.maximum(self._floor, below)
        at = np.flatnonzero(scores > self._floor)
        query, position = np.divmod(at, max(n, 1))
        self._waiting.append((query, position + start, scores.ravel()[at]))
        self._count += len(at)
        if self._count > 2 * self._n * self._k:
            self._sort()

    def results(self) -> list[Result]:
        """The best of each query."""
        self._sort()
        ends = np.searchsorted(self._waiting[0][0], np.arange(1, self._n))
        _, positions, values = self._waiting[0]
        found = zip(np.split(positions, ends), np.split(values, ends), strict=True)
        return [Result(*one) for one in found] if self._n else []

    def _sort(self) -> None:
        """Keep the k best of each query, in order."""
        query, position, value = (np.concatenate(part) for part in zip(*self._waiting, strict=True))
        # Stable, and earlier pieces come first: so equal scores keep the documents' order.
        order = np.argsort(query, kind="stable")
        ends = np.searchsorted(query[order], np.arange(self._n + 1))
        kept = [order[:0]]
        for number, (start, end) in enumerate(pairwise(ends.tolist())):
            own = order[start:end]
            own = own[top_k(value[own], self._k)]
            kept.append(own)
            if len(own) == self._k:
                self._floor[number] = value[own[-1]]
        left = np.concatenate(kept)
        self._waiting = [(query[left], position[left], value[left])]
        self._count = len(left)


def unit(vectors: Vectors) -> Vectors:
    """The vectors scaled to length 1; a vector of zeros stays."""
    scaled: Vectors = vectors / lengths(vectors)
    return scaled


def lengths(vectors: Vectors) -> Vectors:
    """What each vector is divided by to have length 1, shape (n, 1): 1 for one of zeros."""
    found: Vectors = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
    found[found == 0] = 1
    return found


HELD = 1 << 28
"""Bytes of vectors that are held in memory: of 384 numbers, 174,762."""


Read = Callable[[Rows, Vectors, Vectors | None], None]
"""Copies the vectors at some places, divided by lengths where there are some, into an array."""


class Passages:
    """Vectors in the order of their corpus, of length 1 where that is asked for."""

    def __init__(self, read: Read, places: Rows, dimension: int, scaled: bool) -> None:
        """All vectors are read once. Raises UsageError for such as are damaged."""
        self._read, self._places, self._dimension = read, places, dimension
        self._lengths: Vectors | None = None
        self._held: Vectors | None = None
        few = len(places) * dimension * 4 <= HELD
        held = np.empty((len(places), dimension), np.float32) if few else None
        found = np.ones((len(places), 1), np.float32)
        for start, vectors in self.pieces():
            part = slice(start, start + len(vectors))
            if scaled:
                found[part] = lengths(vectors)
            if held is not None:
                np.divide(vectors, found[part], out=held[part])
        self._held, self._lengths = held, found if scaled else None

    def __len__(self) -> int:
        return len(self._places)

    def pieces(self) -> Iterator[tuple[int, Vectors]]:
        """Position of the first, and vectors (n, dimension) that the next ones replace."""
        buffer = np.empty((min(PIECE, len(self)), self._dimension), np.float32)
        for start in range(0, len(self), PIECE):
            part = slice(start, start + PIECE)
            if self._held is not None:
                yield start, self._held[part]
                continue
            places = self._places[part]
            by = None if self._lengths is None else self._lengths[part]
            self._read(places, buffer[: len(places)], by)
            yield start, buffer[: len(places)]
