"""Exact nearest neighbours by dot product. Ties are in document order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import numpy.typing as npt

from harness.retrievers.contract import Result
from harness.retrievers.outputs import top_k
from harness.scoring.arrays import unit

Vectors = npt.NDArray[np.float32]
Rows = npt.NDArray[np.int64]

PIECE, QUERIES = 16_384, 1_024
"""Number of documents searched at once for so many queries: the scores take 64 MB."""

HELD = 1 << 31
"""Maximum bytes of vectors held in memory: 1.4 million vectors of dimension 384.

More are read from their files and normalized in each call: one query takes ten times as long.
"""


def nearest(queries: Vectors, pieces: Iterable[tuple[int, Vectors]], k: int) -> list[Result]:
    """Returns the k documents with the highest dot product for each query, best first.

    `queries` has shape (q, d). `pieces` are all documents in order: the position of the first one,
    and vectors of shape (n, d). Ties are in document order; NaN scores are ignored. Memory: the
    scores of a piece, and 12 bytes for each of the q * k results.
    """
    best = [(np.zeros(0, np.int64), np.zeros(0, np.float32))] * len(queries)
    for start, documents in pieces if k > 0 else ():
        for query, scores in enumerate(queries @ documents.T):
            positions, values = best[query]
            new = np.flatnonzero(scores > (values[-1] if len(values) == k else -np.inf))
            if len(new):
                positions = np.concatenate([positions, new + start])
                values = np.concatenate([values, scores[new]])
                top = top_k(values, k)
                best[query] = positions[top], values[top]
    return [Result(*one) for one in best]


class Passages:
    """Vectors in corpus order, normalized on request."""

    def __init__(
        self, read: Callable[[Rows], Vectors], places: Rows, dimension: int, scaled: bool
    ) -> None:
        """Reads all vectors, and holds them if they are few. Raises UsageError for damaged ones."""
        self._read, self._places, self._scaled = read, places, scaled
        self._held: Vectors | None = None
        few = len(places) * dimension * 4 <= HELD
        held = np.empty((len(places) if few else 0, dimension), np.float32)
        for start, vectors in self.pieces():
            if few:
                held[start : start + len(vectors)] = vectors
        self._held = held if few else None

    def __len__(self) -> int:
        return len(self._places)

    def pieces(self, queries: int = QUERIES) -> Iterator[tuple[int, Vectors]]:
        """Yields the position of the first vector, and vectors of shape (n, dimension).

        Pieces of held vectors are larger for fewer queries, which halves the time of one query.
        """
        size = PIECE if self._held is None else max(PIECE, PIECE * QUERIES // max(1, queries))
        for start in range(0, len(self), size):
            part = slice(start, start + size)
            if self._held is not None:
                yield start, self._held[part]
            else:
                vectors = self._read(self._places[part])
                yield start, unit(vectors) if self._scaled else vectors
