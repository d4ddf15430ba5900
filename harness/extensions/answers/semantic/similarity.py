"""Semantic precision and recall of one query from cosines of texts, and the texts' vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError
from harness.scoring.arrays import SAME_COSINE, Ints, Values, unit

Vectors = npt.NDArray[np.float32]
Embed = Callable[[Sequence[str]], npt.NDArray[Any]]

METRICS = (
    "semantic_recall",
    "semantic_precision",
    "semantic_precision_returned",
    "soft_recall",
    "soft_precision",
)


def accuracy(
    cosines: npt.ArrayLike, piece: Ints, pieces: int, cutoffs: Sequence[int], threshold: float
) -> dict[str, float]:
    """Every metric at every k.

    `cosines`, shape (returned, gold), has the returned texts best first; `piece`, shape (gold,), is
    the piece of evidence that a gold text carries, 0 to `pieces` - 1: a piece may be carried by
    several texts, or by none that is known. With best(r) the highest cosine of a returned text with
    any gold text, and best(p) that of a piece with any of the top k:

    * semantic_recall@k: pieces with best(p) >= threshold / pieces
    * semantic_precision@k: texts of the top k with best(r) >= threshold / k
    * semantic_precision_returned@k: the same / texts in the top k; 0 when nothing was returned
    * soft_recall@k: mean of best(p); soft_precision@k: mean of best(r) over the top k; 0 when
      nothing was returned (BERTScore's R and P, Zhang et al., ICLR 2020, of texts for tokens)
    """
    matrix = np.asarray(cosines, np.float64)
    best_of_text = matrix.max(axis=1, initial=-1.0)
    # The best of each piece among the first 1, 2, ... returned.
    so_far = np.maximum.accumulate(by_piece(matrix, piece, pieces), axis=0)
    found: dict[str, float] = {}
    for cutoff in cutoffs:
        n = min(cutoff, len(matrix))
        best = best_of_text[:n]
        similar = int((best >= threshold - SAME_COSINE).sum())
        found_best = so_far[n - 1] if n else np.zeros(pieces)
        found |= {
            f"semantic_recall@{cutoff}": float((found_best >= threshold - SAME_COSINE).mean()),
            f"semantic_precision@{cutoff}": similar / cutoff,
            f"semantic_precision_returned@{cutoff}": similar / n if n else 0.0,
            f"soft_recall@{cutoff}": float(found_best.mean()),
            f"soft_precision@{cutoff}": float(best.mean()) if n else 0.0,
        }
    return found


def random_baseline(
    cosines: npt.ArrayLike, piece: Ints, pieces: int, cutoffs: Sequence[int], threshold: float
) -> dict[str, float]:
    """What k texts drawn at random from a haystack score on average, exactly.

    `cosines`, shape (haystack, gold); the rest as in `accuracy`. With N texts of which m are
    similar to a piece, k of them hold none with probability C(N - m, k) / C(N, k); the highest of k
    values is the i-th of all with probability C(N - i, k - 1) / C(N, k).
    """
    matrix = np.asarray(cosines, np.float64)
    size = len(matrix)
    best = matrix.max(axis=1, initial=-1.0)
    share = float((best >= threshold - SAME_COSINE).mean())
    pieces_of = by_piece(matrix, piece, pieces)
    similar = (pieces_of >= threshold - SAME_COSINE).sum(axis=0)
    ordered = -np.sort(-pieces_of, axis=0)
    found: dict[str, float] = {}
    for cutoff in cutoffs:
        n = min(cutoff, size)
        i = np.arange(n)
        missed = np.prod(np.maximum(size - similar[:, None] - i, 0) / (size - i), axis=1)
        found |= {
            f"semantic_recall@{cutoff}": float((1 - missed).mean()),
            f"semantic_precision@{cutoff}": share * n / cutoff,
            f"semantic_precision_returned@{cutoff}": share,
            f"soft_recall@{cutoff}": float((_of_the_highest(size, n) @ ordered).mean()),
            f"soft_precision@{cutoff}": float(best.mean()),
        }
    return found


@dataclass(frozen=True)
class SimilarityModel:
    """A model: `embed` gives vectors of shape (texts, dimension), of any length."""

    name: str
    revision: str
    embed: Embed

    def __str__(self) -> str:
        return f"{self.name}@{self.revision}" if self.revision else self.name


class TextVectors:
    """Unit vectors of texts, each distinct one embedded once. A blank text is like no other."""

    def __init__(self, texts: Iterable[str], embed: Embed) -> None:
        """Raises UsageError where the model gives no matrix of numbers with a row for each text."""
        blank: dict[str, None] = {}
        self._row: dict[str, int] = {}
        for text in texts:
            if text.strip():
                self._row.setdefault(text, len(self._row))
            else:
                blank[text] = None
        vectors = np.zeros((0, 1), np.float32)
        if self._row:
            vectors = np.asarray(embed(list(self._row)), np.float32)
        if vectors.ndim != 2 or len(vectors) != len(self._row) or not np.isfinite(vectors).all():
            raise UsageError(
                f"the embedding of {len(self._row)} texts must be a matrix of so many rows of "
                f"numbers, not of shape {vectors.shape}"
            )
        nothing = np.zeros((1, vectors.shape[1]))
        self._vectors = np.concatenate([unit(vectors), nothing]).astype(np.float32)
        self._row |= dict.fromkeys(blank, len(self._row))

    def __getitem__(self, texts: Sequence[str]) -> Vectors:
        return self._vectors[[self._row[text] for text in texts]]


def by_piece(cosines: Values, piece: Ints, pieces: int) -> Values:
    """The highest cosine with any text of each piece, shape (texts, pieces), of cosines with each
    gold text, shape (texts, gold); 0 for a piece without a text."""
    if np.array_equal(piece, np.arange(pieces)):
        return cosines
    best = np.zeros((len(cosines), pieces))
    for one in np.unique(piece).tolist():
        best[:, one] = cosines[:, piece == one].max(axis=1)
    return best


def _of_the_highest(size: int, drawn: int) -> Values:
    """P(the highest of k drawn is the i-th of all), i = 1..size: k/N, then by (N-i-k+1)/(N-i).

    SciPy's nhypergeom has the same to ten digits, and takes ten times as long.
    """
    i = np.arange(1, size)
    ratios = np.maximum(size - i - drawn + 1, 0) / (size - i)
    return np.concatenate([[1.0], np.cumprod(ratios)]) * drawn / size
