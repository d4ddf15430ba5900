"""Array types, sums and ratios by query, and unit vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

SAME_COSINE = 1e-6
"""Tolerance for equal cosines, since those of equal texts may differ in the last bits."""


def sum_by(query: npt.NDArray[Any], values: npt.NDArray[Any], n: int) -> Values:
    """Returns the sum of `values` for each query 0..n-1."""
    return np.asarray(np.bincount(query, weights=values, minlength=n), np.float64)


def count_by(query: npt.NDArray[Any], n: int) -> Ints:
    """Returns the number of rows of each query 0..n-1."""
    return np.asarray(np.bincount(query, minlength=n), np.int64)


def ratio(part: npt.NDArray[Any], whole: npt.NDArray[Any], empty: float = np.nan) -> Values:
    """Returns part / whole, or `empty` where whole is 0."""
    out = np.full(np.shape(whole), empty)
    np.divide(part, whole, out=out, where=np.asarray(whole) > 0)
    return out


def mean(values: Values) -> float | None:
    """Returns the mean; None for no values."""
    # Takes a third of the time of values.mean(); there are thousands of results.
    return float(values.sum() / len(values)) if len(values) else None


def unit(vectors: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Scales rows to length 1; rows of zeros are unchanged."""
    vectors = np.asarray(vectors)
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    scaled: npt.NDArray[Any] = vectors / np.where(length > 0, length, 1)
    return scaled
