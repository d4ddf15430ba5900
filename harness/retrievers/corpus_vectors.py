"""The vectors of one corpus: held where they are few, else read from the cache piece by piece."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from harness.retrievers.exact_search import PIECE, lengths
from harness.retrievers.vector_file import Rows, Vectors

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
