"""BM25, with stemming, stop words, k1, b and the formula as options.

The formulas are those of Kamphuis et al., "Which BM25 do you mean?" (ECIR 2020). Scores are, to the
bit, those of bm25s (Lù, 2024): a term's part of the score is worked out in double precision and
rounded to single; parts are added in single precision, in the order of the question.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from unicodedata import unidata_version

import numpy as np
import numpy.typing as npt

from harness.errors import near, require_numbers
from harness.retrievers import inverted
from harness.retrievers.contract import Corpus, Question, Result
from harness.retrievers.exact_search import best
from harness.retrievers.index_cache import IndexFolder, index_of
from harness.retrievers.inverted import Places
from harness.retrievers.maxscore import best_of
from harness.retrievers.tokenizer import Tokenizer, stemmer_version

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
"""Documents from which on frequent terms are not read whole (see maxscore.py)."""
_VERSION = 2
"""Of the files of an index; another one is another index."""


class BM25:
    """Lexical ranking; documents that share no word with the question are not returned.

    `method`: lucene, robertson, atire, bm25l or bm25+ (Kamphuis et al., ECIR 2020). `stemmer`: a
    Snowball language, or none. `stopwords`: english, or none. Tokens are runs of two or more
    letters and digits, in lower case. A text that stands in many haystacks is tokenised once; the
    index of more than 65,536 documents is on disk, and kept (see `harness cache`).
    """

    supports_sharding = True

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
        self._words = Tokenizer(stemmer, stopwords)
        self._index = inverted.in_memory(np.zeros(0, np.int32), np.zeros(0, np.int64))[1]
        self._collection: Collection | None = None
        self.set_params(k1, b, delta, method)

    def set_params(
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
        self._kept: IndexFolder | None = None
        self._collection = None
        if len(corpus) > inverted.BLOCK:
            made_of: dict[str, object] = {
                **self._analysis,
                "version": _VERSION,
                "stemmer version": stemmer_version(),
                "letters": unidata_version,  # what a letter is, and its lower case
            }
            self._kept, (self._index, self._vocabulary) = index_of(
                corpus, "bm25", made_of, lambda to: self._build(corpus, to), inverted.opened
            )
        else:
            documents = self._words.encode(corpus.contents)
            terms = np.concatenate([np.zeros(0, np.int32), *documents])
            lengths = np.array([len(document) for document in documents], np.int64)
            self._own, self._index = inverted.in_memory(terms, lengths)
        self._measure()

    def statistics(self, queries: Sequence[Question]) -> dict[str, int]:
        """Of a shard: its documents, their terms, and how many documents have each term asked for.

        They add up over shards to those of the whole collection.
        """
        stems = dict.fromkeys(stem for query in queries for stem in self._words.stemmed(query.text))
        known = {stem: number for stem in stems if (number := self._number(stem)) is not None}
        held = dict(zip(known, self._index.held([*known.values()]), strict=True))
        lengths = self._index.lengths
        size = {"documents": len(lengths), "terms": int(lengths.sum(dtype=np.int64))}
        return {**size, **{f"having {stem}": n for stem, n in held.items()}}

    def set_collection_stats(self, statistics: Mapping[str, int]) -> None:
        """Score what is indexed as a shard of a collection with these statistics."""
        found = Collection(statistics["documents"], statistics["terms"], statistics)
        size = self._collection and (self._collection.documents, self._collection.terms)
        self._collection = found
        if (found.documents, found.terms) != size:
            self._measure()

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """Best first; equal scores keep the corpus's order."""
        return [self._one(*self._asked(query.text), k) for query in queries]

    def _measure(self) -> None:
        """What follows from the index and the formula, and the collection if this is a shard."""
        lengths = self._index.lengths
        whole = self._collection or Collection(len(lengths), int(lengths.sum(dtype=np.int64)), {})
        self._documents = whole.documents
        self._weights: dict[int, tuple[Places, Singles]] = {}
        # Without any term nothing is asked of it.
        mean = (whole.terms / whole.documents if whole.documents else 0.0) or 1.0
        self._factors = self._formula.factors(lengths, mean)
        self._singles = self._factors.astype(np.float32)

    def _build(self, corpus: Corpus, folder: Path) -> None:
        # Words of its own: those of millions of documents are not to stay in memory.
        inverted.build(corpus, Tokenizer(**self._analysis), folder)

    def _asked(self, text: str) -> tuple[list[int], list[int]]:
        """The terms of a question that the collection has, in its order, as the index numbers them
        (-1: a term of other shards alone), and how many documents of the collection have each."""
        if self._collection is not None:
            having = self._collection.having
            stems = [s for s in self._words.stemmed(text) if having.get(f"having {s}")]
            numbers = [-1 if (n := self._number(stem)) is None else n for stem in stems]
            return numbers, [having[f"having {stem}"] for stem in stems]
        terms = self._terms(text)
        return terms, self._index.held(terms)

    def _terms(self, text: str) -> list[int]:
        """The terms of a question that the index has, in its order, as the index numbers them."""
        if self._kept is not None:
            numbers = map(self._vocabulary.number, self._words.stemmed(text))
            return [number for number in numbers if number is not None]
        terms = self._words.terms(text)
        known: list[int] = np.searchsorted(self._own, terms[np.isin(terms, self._own)]).tolist()
        return known

    def _number(self, stem: str) -> int | None:
        """The number of a term in the index, None where no document has it."""
        if self._kept is not None:
            return self._vocabulary.number(stem)
        term = self._words.number(stem)
        place = int(np.searchsorted(self._own, term)) if term is not None else len(self._own)
        return place if place < len(self._own) and self._own[place] == term else None

    def _one(self, terms: list[int], held: list[int], k: int) -> Result:
        formula, n = self._formula, self._documents
        size = len(self._index.lengths)
        if size > PRUNED and formula.bounded:
            having = dict(zip(terms, held, strict=True))
            return Result(
                *best_of(
                    self._index,
                    [term for term in terms if term >= 0],
                    k,
                    lambda term, counts, at: formula.weights(
                        counts, self._factors.take(at), having[term], n
                    ),
                    lambda term, counts, at: formula.near(
                        counts, self._singles.take(at), having[term], n
                    ),
                    lambda term: formula.most(having[term], n),
                )
            )
        scores = np.zeros(size, np.float32)
        for term, having_it in zip(terms, held, strict=True):
            if term >= 0:
                documents, weights = self._weighted(term, having_it)
                scores[documents] += weights
        if formula.everywhere:
            scores += formula.without(held, n)
        top = best(scores, k, above=0.0)
        return Result(top, scores[top])

    def _weighted(self, term: int, held: int) -> tuple[Places, Singles]:
        """The documents that have a term, and what it adds; kept for the next question."""
        if term not in self._weights:
            documents, counts = self._index.of(term)
            factors = self._factors.take(documents)
            weights = self._formula.weights(counts, factors, held, self._documents)
            if len(self._index.lengths) > PRUNED:
                return documents, weights
            self._weights[term] = documents, weights
        return self._weights[term]


@dataclass(frozen=True)
class Collection:
    """What scores depend on beside a document and the question.

    `having` tells under "having TERM" how many documents have a term.
    """

    documents: int
    terms: int
    having: Mapping[str, int]


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

    def factors(self, lengths: Places, mean: float) -> Floats:
        """How much each document's length, in terms, dampens the counts of its terms."""
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
