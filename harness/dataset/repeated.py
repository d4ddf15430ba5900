"""Finds values that stand more than once in a long stream, at eight bytes a value."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable

import numpy as np


class Repeated:
    """Keeps hashes only; equal hashes make candidates, to be told apart by who has the values."""

    def __init__(self) -> None:
        self._hashes = array("q")

    def add(self, values: Iterable[Hashable]) -> None:
        """Remember these values."""
        self._hashes.extend(map(hash, values))

    def candidates(self) -> set[int]:
        """Hashes (of this process) that came more than once; empty when all values differ."""
        hashes = np.sort(np.frombuffer(self._hashes, np.int64))
        return set(hashes[1:][hashes[1:] == hashes[:-1]].tolist())
