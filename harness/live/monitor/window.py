"""The last N recalls as columns that are written over from their beginning: a ring."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Columns = dict[str, npt.NDArray[Any]]

COLUMNS: dict[str, tuple[Any, Any]] = {
    "time": (np.float64, np.nan),
    "seconds": (np.float64, np.nan),
    "ability": (np.int16, -1),  # a code; -1: not known
    "known": (np.bool_, False),  # the recall says what was returned
    "empty": (np.bool_, False),  # nothing was returned
    "abstained": (np.bool_, False),
    "failed": (np.bool_, False),
    "unanswerable": (np.int8, -1),  # by the labels; -1: not labelled
    "labelled": (np.bool_, False),
    "click": (np.int32, -1),  # rank of the first click; 0: watched, and none; -1: not watched
    "rating": (np.float64, np.nan),
    "request": (np.uint64, 0),  # a hash of its name; 0: it has none
}
"""Column -> type, and what stands where nothing is known."""


class Window:
    """A ring of `size` recalls. Memory is `size` times about 50 bytes, and 8 a metric."""

    def __init__(self, size: int, metrics: int) -> None:
        self.size, self.total = size, 0
        self.columns: Columns = {
            name: np.full(size, empty, kind) for name, (kind, empty) in COLUMNS.items()
        }
        self.values = np.full((size, metrics), np.nan)

    def append(self, columns: Columns, values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Add rows, the newest last; returns the slots that they took.

        Of more rows than the window holds, the last ones stay.
        """
        n = len(values)
        slots = np.arange(self.total, self.total + n) % self.size
        keep = slice(max(0, n - self.size), n)
        for name, column in columns.items():
            self.columns[name][slots[keep]] = column[keep]
        self.values[slots[keep]] = values[keep]
        self.total += n
        return slots

    @property
    def n(self) -> int:
        """How many recalls it holds."""
        return min(self.total, self.size)

    def holds(self, serial: int) -> bool:
        """Whether the recall of that number, from 0, is in the window still."""
        return self.total - self.n <= serial < self.total
