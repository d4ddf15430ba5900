"""The formulas of BM25, from Kamphuis et al., "Which BM25 do you mean?" (ECIR 2020).

Scores are, to the bit, those of bm25s (Lù, 2024): a term's part of the score is worked out in
double precision and rounded to single; parts are added in single precision, in the order of the
question.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.retrievers.bm25.index import IntArray

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]

IDF: dict[str, Callable[[int, int], float]] = {
    "lucene": lambda n, df: math.log(1 + (n - df + 0.5) / (df + 0.5)),
    "robertson": lambda n, df: math.log(max((n - df + 0.5) / (df + 0.5), 1)),
    "atire": lambda n, df: math.log(n / df),
    "bm25l": lambda n, df: math.log((n + 1) / (df + 0.5)),
    "bm25+": lambda n, df: math.log((n + 1) / df),
}
"""Inverse document frequency, of the number of documents and how many have the term."""

METHODS = tuple(IDF)


@dataclass(frozen=True)
class Formula:
    """What a term adds to the score of a document."""

    k1: float
    b: float
    delta: float
    method: str

    @property
    def scores_absent_terms(self) -> bool:
        """Whether a term adds to the score of documents that lack it, too."""
        return self.method in ("bm25l", "bm25+")

    @property
    def bounded(self) -> bool:
        """Whether no document gets less than nothing from a term, or more than `maximum`."""
        return not self.scores_absent_terms and self.k1 >= 0 and 0 <= self.b <= 1

    def factors(self, lengths: IntArray, mean: float) -> Floats:
        """Return how much each document's length, in terms, dampens the counts of its terms."""
        return np.asarray((1 - self.b) + self.b * lengths / mean, np.float64)

    def weights(self, counts: IntArray, factors: Floats, df: int, n: int) -> Singles:
        """Of a term that `df` of `n` documents have, in some of those: `counts` times, with their
        `factors`. Where it adds scores_absent_terms, what it adds beyond that."""
        idf = np.float64(np.float32(IDF[self.method](n, df)))
        weights = idf * self._saturated(counts.astype(np.float32), factors)
        if self.scores_absent_terms:
            weights -= self._absent(df, n)
        return weights.astype(np.float32)

    def approximate(self, counts: IntArray, factors: Singles, df: int, n: int) -> Singles:
        """Return `weights` of a bounded formula in single precision: in half the time."""
        tf = counts.astype(np.float32)
        dampened = factors * np.float32(self.k1)
        dampened += tf
        tf *= np.float32(self.maximum(df, n))
        tf /= dampened
        return tf

    def maximum(self, df: int, n: int) -> float:
        """Return what a document gets from a term at most, where the formula is bounded."""
        return IDF[self.method](n, df) * (self.k1 + 1 if self.method == "atire" else 1)

    def of_absent(self, frequencies: Sequence[int], n: int) -> np.float32:
        """Return what terms add to documents without them; each is in `frequencies` of `n`."""
        return np.float32(np.array([self._absent(df, n) for df in frequencies], np.float32).sum())

    def _absent(self, df: int, n: int) -> np.float32:
        zero = self._saturated(np.zeros(1, np.float32), np.ones(1))[0]
        return np.float32(IDF[self.method](n, df) * zero)

    def _saturated(self, tf: Singles, factors: Floats) -> Floats:
        """Return the part of the formula that grows with the count."""
        k1, delta = self.k1, self.delta
        saturated: Floats
        if self.method == "atire":
            saturated = (tf * np.float32(k1 + 1)) / (tf + k1 * factors)
        elif self.method == "bm25l":
            scaled = tf / factors
            saturated = ((k1 + 1) * (scaled + delta)) / (k1 + scaled + delta)
        elif self.method == "bm25+":
            saturated = np.float32(k1 + 1) * tf / (k1 * factors + tf) + delta
        else:
            saturated = tf / (k1 * factors + tf)
        return saturated
