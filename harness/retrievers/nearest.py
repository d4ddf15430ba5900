"""The k best of many scores, and exact nearest neighbours by dot product.

Equal scores keep their order, in every retriever.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from harness.retrievers.contract import Result
from harness.retrievers.embeddings import Vectors

BLOCK = 65_536
"""Documents a block: with 256 questions its scores take 64 MB."""


def best(
    scores: npt.NDArray[np.floating[Any]], k: int, above: float = -np.inf
) -> npt.NDArray[np.int64]:
    """Positions of the k best scores that are greater than `above`, best first.

    `scores` has shape (n,). Of equal scores the first ones are taken, so that the answer does not
    depend on how the search was cut into blocks.
    """
    n = len(scores)
    wanted = scores > above
    if k < n // 4:
        threshold = np.partition(scores, n - k)[n - k]
        if threshold > above:
            wanted = scores >= threshold
    candidates = np.flatnonzero(wanted)
    return candidates[np.argsort(-scores[candidates], kind="stable")[:k]]


def nearest(queries: Vectors, documents: Vectors, k: int) -> list[Result]:
    """The k documents of the highest dot product with each query, best first.

    Shapes: (q, d) and (n, d). Equal scores keep the documents' order.
    """
    found = [(np.zeros(0, np.int64), np.zeros(0, np.float32)) for _ in queries]
    for start in range(0, len(documents), BLOCK):
        scores = queries @ documents[start : start + BLOCK].T
        for i, row in enumerate(scores):
            top = best(row, k)
            positions = np.concatenate([found[i][0], top + start])
            values = np.concatenate([found[i][1], row[top]])
            # Earlier blocks come first, so that a stable order keeps the documents' order.
            keep = best(values, k)
            found[i] = positions[keep], values[keep]
    return [Result(positions, values) for positions, values in found]


def unit(vectors: Vectors) -> Vectors:
    """The vectors scaled to length 1; a vector of zeros stays."""
    length: Vectors = np.sqrt((vectors * vectors).sum(axis=1, keepdims=True))
    length[length == 0] = 1
    scaled: Vectors = vectors / length
    return scaled
