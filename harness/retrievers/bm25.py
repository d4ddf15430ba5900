"""BM25, with stemming, stop words, k1, b and the formula as options.

The formulas are those of Kamphuis et al., "Which BM25 do you mean?" (ECIR 2020). Scores are, to the
bit, those of bm25s (Lù, 2024): a term's part of the score is worked out in double precision and
rounded to single; parts are added in single precision, in the order of the question.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unicodedata import unidata_version

import numpy as np
import numpy.typing as npt

from harness.errors import near, require_numbers
from harness.retrievers import inverted
from harness.retrievers.contract import Corpus, Question, Result
from harness.retrievers.inverted import Places
from harness.retrievers.kept import Index, index_of
from harness.retrievers.nearest import best
from harness.retrievers.pruned import best_of
from harness.retrievers.words import Words, stemmer_version

Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]

IDF: dict[str, Callable[[int, int], float]] = {
    "lucene": lambda n, df: math.log(1 + (n - df + 0.5) / (df + 0.5)),
    "robertson": lambda n, df: math.log(max((n - df + 0.5) / (df + 0.5), 1)),
    "atire": lambda n, df: math.log(n / df),
    "bm25l": lambda n, df: math.log((n + 1) / (df + 0.5)),
    "bm25+": lambda n, df: math.log((n + 1) / df),
}
"""From the number of documents and how many have the term."""

METHODS = tuple(IDF)
PRUNED = 1 << 16
"""Documents from which on frequent terms are not read whole (see pruned.py)."""
_VERSION = 2
"""Of the files of an index; another one is another index."""


class BM25:
    """Lexical ranking; documents that share no word with the question are not returned.

    `method`: lucene, robertson, atire, bm25l or bm25+ (Kamphuis et al., ECIR 2020). `stemmer`: a
    Snowball language, or none. `stopwords`: english, or none. Tokens are runs of two or more
    letters and digits, in lower case. A text that stands in many haystacks is tokenised once; the
    index of more than 65,536 documents is on disk, and kept (see `harness cache`).
    """

    def __init__(
        self,
        k1: float = 1.2,
        b: float = 0.75,
        delta: float = 0.5,
        method: str = "lucene",
        stemmer: str = "english",
        stopwords: str = "english",
    ) -> None:
        self._analysis = {"stemmer": stemmer, "stopwords": stopwords}
        self._words = Words(stemmer, stopwords)
        self._index = inverted.in_memory(np.zeros(0, np.int32), np.zeros(0, np.int64))[1]
        self.retune(k1, b, delta, method)

    def retune(
        self, k1: float = 1.2, b: float = 0.75, delta: float = 0.5, method: str = "lucene"
    ) -> None:
        """Set what the index does not depend on."""
        require_numbers(k1=k1, b=b, delta=delta)
        if method not in METHODS:
            raise ValueError(f"unknown method {method!r}{near(method, list(METHODS))}")
        self._formula = Formula(k1, b, delta, method)
        self._measure()

    def index(self, corpus: Corpus) -> None:
        """Count terms, or open the index that counted them before."""
        self._kept: Index | None = None
        if len(corpus) > inverted.BLOCK:
            made_of: dict[str, Any] = {
                **self._analysis,
                "version": _VERSION,
                "stemmer version": stemmer_version(),
                "letters": unidata_version,  # what a letter is, and its lower case
            }
            self._kept, (self._index, self._vocabulary) = index_of(
                corpus, "bm25", made_of, lambda to: self._build(corpus, to), inverted.opened
            )
        else:
            documents = self._words.of(corpus.contents)
            terms = np.concatenate([np.zeros(0, np.int32), *documents])
            lengths = np.array([len(document) for document in documents], np.int64)
            self._own, self._index = inverted.in_memory(terms, lengths)
        self._measure()

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """Best first; equal scores keep the corpus's order."""
        return [self._one(self._terms(query.text), k) for query in queries]

    def _measure(self) -> None:
        """What follows from the index and the formula."""
        self._size = len(self._index.lengths)
        self._weights: dict[int, tuple[Places, Singles]] = {}
        self._factors = self._formula.factors(self._index.lengths)
        self._singles = self._factors.astype(np.float32)

    def _build(self, corpus: Corpus, folder: Path) -> None:
        # Words of its own: those of millions of documents are not to stay in memory.
        inverted.build(corpus, Words(**self._analysis), folder)

    def _terms(self, text: str) -> list[int]:
        """The terms of a question that the corpus has, in its order, as the index numbers them."""
        if self._kept is not None:
            numbers = map(self._vocabulary.number, self._words.stemmed(text))
            return [number for number in numbers if number is not None]
        terms = self._words.terms(text)
        known: list[int] = np.searchsorted(self._own, terms[np.isin(terms, self._own)]).tolist()
        return known

    def _one(self, terms: list[int], k: int) -> Result:
        formula, n = self._formula, self._size
        if n > PRUNED and formula.bounded:
            return Result(
                *best_of(
                    self._index,
                    terms,
                    k,
                    lambda df, counts, at: formula.weights(counts, self._factors.take(at), df, n),
                    lambda df, counts, at: formula.near(counts, self._singles.take(at), df, n),
                    lambda df: formula.most(df, n),
                )
            )
        scores = np.zeros(n, np.float32)
        for term in terms:
            documents, weights = self._weighted(term)
            scores[documents] += weights
        if formula.everywhere:
            scores += formula.without(self._index.held(terms), n)
        top = best(scores, k, above=0.0)
        return Result(top, scores[top])

    def _weighted(self, term: int) -> tuple[Places, Singles]:
        """The documents that have a term, and what it adds; kept for the next question."""
        if term not in self._weights:
            documents, counts = self._index.of(term)
            factors = self._factors.take(documents)
            weights = self._formula.weights(counts, factors, len(documents), self._size)
            if self._size > PRUNED:
                return documents, weights
            self._weights[term] = documents, weights
        return self._weights[term]


@dataclass(frozen=True)
class Formula:
    """What a term adds to the score of a document."""

    k1: float
    b: float
    delta: float
    method: str

    @property
    def everywhere(self) -> bool:
        """True where a term adds to documents that lack it, too."""
        return self.method in ("bm25l", "bm25+")

    @property
    def bounded(self) -> bool:
        """True where no document gets less than nothing from a term, or more than `most`."""
        return not self.everywhere and self.k1 >= 0 and 0 <= self.b <= 1

    def factors(self, lengths: Places) -> Floats:
        """How much each document's length, in terms, dampens the counts of its terms."""
        # Without any term nothing is asked of it.
        mean = (float(lengths.mean(dtype=float)) if len(lengths) else 0.0) or 1.0
        return np.asarray((1 - self.b) + self.b * lengths / mean, np.float64)

    def weights(self, counts: Places, factors: Floats, df: int, n: int) -> Singles:
        """Of a term that `df` of `n` documents have, in some of those: `counts` times, with their
        `factors`. Where it adds everywhere, what it adds beyond that."""
        idf = np.float64(np.float32(IDF[self.method](n, df)))
        weights = idf * self._saturated(counts.astype(np.float32), factors)
        if self.everywhere:
            weights -= self._absent(df, n)
        return weights.astype(np.float32)

    def near(self, counts: Places, factors: Singles, df: int, n: int) -> Singles:
        """`weights` of a bounded formula in single precision throughout: in half the time."""
        tf = counts.astype(np.float32)
        dampened = factors * np.float32(self.k1)
        dampened += tf
        tf *= np.float32(self.most(df, n))
        tf /= dampened
        return tf

    def most(self, df: int, n: int) -> float:
        """What a document gets from a term at most, where the formula is bounded."""
        return IDF[self.method](n, df) * (self.k1 + 1 if self.method == "atire" else 1)

    def without(self, found: Sequence[int], n: int) -> np.float32:
        """What terms, of which `found` of `n` documents have each, add to documents without."""
        return np.float32(np.array([self._absent(df, n) for df in found], np.float32).sum())

    def _absent(self, df: int, n: int) -> np.float32:
        zero = self._saturated(np.zeros(1, np.float32), np.ones(1))[0]
        return np.float32(IDF[self.method](n, df) * zero)

    def _saturated(self, tf: Singles, factors: Floats) -> Floats:
        """The part of the formula that grows with the count."""
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
