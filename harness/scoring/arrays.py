"""Types of columns, sums and ratios by query, and vectors of length 1."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

SAME_COSINE = 1e-6
"""Cosines closer than this are equal: those of equal texts may differ in the last bits."""


def sum_by(query: npt.NDArray[Any], values: npt.NDArray[Any], n: int) -> Values:
    """Sum of `values` for each query 0..n-1."""
    return np.asarray(np.bincount(query, weights=values, minlength=n), np.float64)


def count_by(query: npt.NDArray[Any], n: int) -> Ints:
    """Number of rows of each query 0..n-1."""
    return np.asarray(np.bincount(query, minlength=n), np.int64)


def ratio(part: npt.NDArray[Any], whole: npt.NDArray[Any], empty: float = np.nan) -> Values:
    """part / whole, and `empty` where whole is 0."""
    out = np.full(np.shape(whole), empty)
    np.divide(part, whole, out=out, where=np.asarray(whole) > 0)
    return out


def mean(values: Values) -> float | None:
    """The mean, or None over an empty set: no mean is taken of nothing."""
    # As values.mean() is, in a third of its time: there are thousands of cells.
    return float(values.sum() / len(values)) if len(values) else None


def unit(vectors: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Rows of length 1; a row of zeros stays so."""
    vectors = np.asarray(vectors)
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: npt.NDArray[Any] = vectors / np.where(length > 0, length, 1)
    return scaled
