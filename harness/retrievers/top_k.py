"""The k best of many scores. Equal scores keep their order, in every retriever."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def top_k(
    scores: npt.NDArray[np.floating[Any]], k: int, above: float = -np.inf
) -> npt.NDArray[np.int64]:
    """Return the positions of the k best scores that are greater than `above`, best first.

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
