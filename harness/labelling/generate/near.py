"""Documents that are nearly the same: by the cosine of their vectors, in blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from harness.retrievers.embeddings import Vectors
from harness.retrievers.nearest import BLOCK

Int64 = npt.NDArray[np.int64]
Embed = Callable[[Sequence[str]], Vectors]
"""Texts to vectors of length 1, shape (texts, dimension)."""

_AT_ONCE = 256  # with a block of documents its cosines take 64 MB
DIGITS = 4
"""Decimals of a similarity: what is left after machines have added up in different orders."""


def pairs(
    some: Vectors, others: Vectors, least: float
) -> tuple[Int64, Int64, npt.NDArray[np.float64]]:
    """Every pair with a cosine of `least` and more: row of `some`, row of `others`, the cosine.

    Shapes (a, d) and (b, d), vectors of length 1; the results have shape (pairs,), sorted by the
    first row, then the second. Cosines are rounded to four decimals, and compared so.
    """
    found = []
    for start in range(0, len(some), _AT_ONCE):
        for low in range(0, len(others), BLOCK):
            cosines = some[start : start + _AT_ONCE] @ others[low : low + BLOCK].T
            rounded = np.round(cosines, DIGITS)
            # float32 holds 0.7 as 0.69999999: compared with half a unit of the last decimal.
            one, other = np.nonzero(rounded >= least - 0.5 * 10.0**-DIGITS)
            values = np.round(rounded[one, other].astype(np.float64), DIGITS)
            found.append((one + start, other + low, values))
    if not found:
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, np.zeros(0)
    one, other, value = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.lexsort((other, one))
    return one[order], other[order], value[order]


def embedder(what: str, model: str = "") -> Embed:
    """The packaged MiniLM, or another BERT model by name or folder, behind the cache of vectors.

    Only the first 256 word pieces of a text (or what the model takes) are seen. Raises UsageError,
    beginning with `what` needs it, where the model or its extra is missing.
    """
    from harness.retrievers.embedder import Embedder
    from harness.retrievers.minilm import PACKAGED, LightEncoder, need_minilm
    from harness.retrievers.nearest import unit

    need_minilm(what, model or PACKAGED)
    embed = Embedder(LightEncoder(model or PACKAGED))
    return lambda texts: unit(embed(list(texts)))
