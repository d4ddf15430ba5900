"""BM25 retriever with options for stemming, stop words, k1, b and the formula."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from unicodedata import unidata_version

import numpy as np
import numpy.typing as npt

from harness.errors import require_numbers, suggest
from harness.retrievers.bm25 import index as inverted
from harness.retrievers.bm25.index import IntArray
from harness.retrievers.bm25.tokenizer import TERMS, Tokenizer, analysis, stemmer_version
from harness.retrievers.contract import Corpus, Question, Result
from harness.retrievers.outputs import top_k

if TYPE_CHECKING:
    from harness.retrievers.index_cache import IndexFolder


Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]

IDF: dict[str, Callable[[int, int], float]] = {
    "lucene": lambda n, df: math.log(1 + (n - df + 0.5) / (df + 0.5)),
    "robertson": lambda n, df: math.log(max((n - df + 0.5) / (df + 0.5), 1)),
    "atire": lambda n, df: math.log(n / df),
    "bm25l": lambda n, df: math.log((n + 1) / (df + 0.5)),
    "bm25+": lambda n, df: math.log((n + 1) / df),
}
"""Inverse document frequency by method: functions of (documents, document frequency)."""

METHODS = tuple(IDF)


@dataclass(frozen=True)
class Formula:
    """BM25 formula: the weight of a term in a document."""

    k1: float
    b: float
    delta: float
    method: str

    @property
    def scores_absent_terms(self) -> bool:
        """True if a term also adds to the score of documents without it."""
        return self.method in ("bm25l", "bm25+")

    @property
    def bounded(self) -> bool:
        """True if the weight of a term is always from 0 to `maximum`."""
        return not self.scores_absent_terms and self.k1 >= 0 and 0 <= self.b <= 1

    def factors(self, lengths: IntArray, mean: float) -> Floats:
        """Returns each document's length normalisation; `lengths` and `mean` are in terms."""
        return np.asarray((1 - self.b) + self.b * lengths / mean, np.float64)

    def weights(self, counts: IntArray, factors: Floats, df: int, n: int) -> Singles:
        """Returns the weights of a term with document frequency `df` of `n` in documents with the
        given `counts` and `factors`; with scores_absent_terms, the excess over absent terms."""
        idf = np.float64(np.float32(IDF[self.method](n, df)))
        weights = idf * self._saturated(counts.astype(np.float32), factors)
        if self.scores_absent_terms:
            weights -= self._absent(df, n)
        return weights.astype(np.float32)

    def approximate(self, counts: IntArray, factors: Singles, df: int, n: int) -> Singles:
        """Returns `weights` of a bounded formula in single precision, in half the time."""
        tf = counts.astype(np.float32)
        dampened = factors * np.float32(self.k1)
        dampened += tf
        tf *= np.float32(self.maximum(df, n))
        tf /= dampened
        return tf

    def maximum(self, df: int, n: int) -> float:
        """Returns the upper bound of a term's weight if the formula is bounded."""
        return IDF[self.method](n, df) * (self.k1 + 1 if self.method == "atire" else 1)

    def of_absent(self, frequencies: Sequence[int], n: int) -> np.float32:
        """Returns the weight of absent terms, which are in `frequencies` of `n` documents."""
        return np.float32(np.array([self._absent(df, n) for df in frequencies], np.float32).sum())

    def _absent(self, df: int, n: int) -> np.float32:
        zero = self._saturated(np.zeros(1, np.float32), np.ones(1))[0]
        return np.float32(IDF[self.method](n, df) * zero)

    def _saturated(self, tf: Singles, factors: Floats) -> Floats:
        """Returns the part of the formula that grows with the count."""
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


PRUNED = 1 << 16
"""Number of documents above which MaxScore is used (see maxscore.py)."""
_VERSION = 2
"""Version of the index files; part of the index's key."""


@dataclass(frozen=True)
class CollectionStatistics:
    """Collection statistics on which scores depend.

    `frequencies["having TERM"]` is the document frequency of TERM.
    """

    documents: int
    terms: int
    frequencies: Mapping[str, int]


class BM25:
    """Lexical ranking; documents that share no word with the question are not returned.

    `method`: lucene, robertson, atire, bm25l or bm25+ (Kamphuis et al., ECIR 2020). `language`: of
    Snowball, of the package stop-words (extra languages), or none; sets `stemmer` and `stopwords`
    that are auto. Terms are those of harness/io/scripts.py, of two or more letters and digits. A
    text in many haystacks is tokenised once; the index of more than 65,536 documents is on disk and
    cached (see `harness cache`).
    """

    supports_sharding = True
    revision = TERMS

    def __init__(
        self,
        k1: float = 1.2,
        b: float = 0.75,
        delta: float = 0.5,
        method: str = "lucene",
        language: str = "english",
        stemmer: str = "auto",
        stopwords: str = "auto",
    ) -> None:
        self._analysis = analysis(language, stemmer, stopwords)
        self._tokenizer = Tokenizer(**self._analysis)
        self._index = inverted.index_in_memory(np.zeros(0, np.int32), np.zeros(0, np.int64))[1]
        self._collection: CollectionStatistics | None = None
        self.set_params(k1, b, delta, method)

    def set_params(
        self, k1: float = 1.2, b: float = 0.75, delta: float = 0.5, method: str = "lucene"
    ) -> None:
        """Sets parameters that do not affect the index."""
        require_numbers(k1=k1, b=b, delta=delta)
        if method not in METHODS:
            raise ValueError(f"unknown method {method!r}{suggest(method, list(METHODS))}")
        self._formula = Formula(k1, b, delta, method)
        self._prepare_scoring()

    def index(self, corpus: Corpus) -> None:
        """Indexes the corpus, or opens its cached index."""
        self._cached: IndexFolder | None = None
        self._collection = None
        if len(corpus) > inverted.BLOCK:
            from harness.retrievers.bm25.disk_index import open_index
            from harness.retrievers.index_cache import index_of

            made_of: dict[str, object] = {
                **self._analysis,
                "version": _VERSION,
                "terms": TERMS,
                "stemmer version": stemmer_version(),
                "letters": unidata_version,  # defines letters and lower case
            }
            self._cached, (self._index, self._vocabulary) = index_of(
                corpus, "bm25", made_of, lambda to: self._build(corpus, to), open_index
            )
        else:
            documents = self._tokenizer.encode(corpus.contents)
            terms = np.concatenate([np.zeros(0, np.int32), *documents])
            lengths = np.array([len(document) for document in documents], np.int64)
            self._own_terms, self._index = inverted.index_in_memory(terms, lengths)
        self._prepare_scoring()

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """Returns the best documents first; ties keep the corpus's order."""
        return [self._search_one(*self._query_terms(query.text), k) for query in queries]

    def statistics(self, queries: Sequence[Question]) -> dict[str, int]:
        """Returns a shard's number of documents and of terms, and its query terms' frequencies.

        Frequencies count documents. Sums over shards are those of the whole collection.
        """
        stems = dict.fromkeys(
            stem for query in queries for stem in self._tokenizer.stem_text(query.text)
        )
        known = {stem: number for stem in stems if (number := self._term_of(stem)) is not None}
        frequencies = self._index.document_frequencies([*known.values()])
        lengths = self._index.lengths
        size = {"documents": len(lengths), "terms": int(lengths.sum(dtype=np.int64))}
        return size | {f"having {stem}": n for stem, n in zip(known, frequencies, strict=True)}

    def set_collection_stats(self, statistics: Mapping[str, int]) -> None:
        """Scores the indexed shard with the statistics of the whole collection."""
        new = CollectionStatistics(statistics["documents"], statistics["terms"], statistics)
        size = self._collection and (self._collection.documents, self._collection.terms)
        self._collection = new
        if (new.documents, new.terms) != size:
            self._prepare_scoring()

    def _prepare_scoring(self) -> None:
        """Computes values that depend on the index, the formula and the collection."""
        lengths = self._index.lengths
        whole = self._collection or CollectionStatistics(
            len(lengths), int(lengths.sum(dtype=np.int64)), {}
        )
        self._documents = whole.documents
        self._weights: dict[int, tuple[IntArray, Singles]] = {}
        # Without any term, the mean is not used.
        mean = (whole.terms / whole.documents if whole.documents else 0.0) or 1.0
        self._factors = self._formula.factors(lengths, mean)
        self._single_factors = self._factors.astype(np.float32)

    def _build(self, corpus: Corpus, folder: Path) -> None:
        from harness.retrievers.bm25.disk_index import build_index

        # A separate tokenizer, so that the terms of millions of documents do not stay in memory.
        build_index(corpus, Tokenizer(**self._analysis), folder)

    def _query_terms(self, text: str) -> tuple[list[int], list[int]]:
        """Returns the question's terms that occur in the collection, in the question's order.

        Terms are numbers of the index (-1: only in other shards); the second list has their
        document frequencies in the collection.
        """
        if self._collection is not None:
            frequencies = self._collection.frequencies
            stems = [s for s in self._tokenizer.stem_text(text) if frequencies.get(f"having {s}")]
            terms = [-1 if (term := self._term_of(stem)) is None else term for stem in stems]
            return terms, [frequencies[f"having {stem}"] for stem in stems]
        terms = self._indexed_terms(text)
        return terms, self._index.document_frequencies(terms)

    def _indexed_terms(self, text: str) -> list[int]:
        """Returns the question's terms that are in the index, in the question's order."""
        if self._cached is not None:
            terms = map(self._vocabulary.number, self._tokenizer.stem_text(text))
            return [term for term in terms if term is not None]
        own, asked = self._own_terms, self._tokenizer.terms(text)
        known: list[int] = np.searchsorted(own, asked[np.isin(asked, own)]).tolist()
        return known

    def _term_of(self, stem: str) -> int | None:
        """Returns the number of a term in the index; None if no document has it."""
        if self._cached is not None:
            return self._vocabulary.number(stem)
        own, number = self._own_terms, self._tokenizer.term_of(stem)
        term = int(np.searchsorted(own, number)) if number is not None else len(own)
        return term if term < len(own) and own[term] == number else None

    def _search_one(self, terms: list[int], frequencies: list[int], k: int) -> Result:
        formula, n = self._formula, self._documents
        size = len(self._index.lengths)
        if size > PRUNED and formula.bounded:
            from harness.retrievers.bm25 import maxscore

            df = dict(zip(terms, frequencies, strict=True))
            found = maxscore.top_k(
                self._index,
                [term for term in terms if term >= 0],
                k,
                lambda term, counts, rows: formula.weights(
                    counts, self._factors.take(rows), df[term], n
                ),
                lambda term, counts, rows: formula.approximate(
                    counts, self._single_factors.take(rows), df[term], n
                ),
                lambda term: formula.maximum(df[term], n),
            )
            return Result(*found)
        scores = np.zeros(size, np.float32)
        for term, frequency in zip(terms, frequencies, strict=True):
            if term >= 0:
                documents, weights = self._weighted_postings(term, frequency)
                scores[documents] += weights
        if formula.scores_absent_terms:
            scores += formula.of_absent(frequencies, n)
        top = top_k(scores, k, above=0.0)
        return Result(top, scores[top])

    def _weighted_postings(self, term: int, frequency: int) -> tuple[IntArray, Singles]:
        """Returns a term's documents and weights, cached unless the index is large."""
        if term not in self._weights:
            documents, counts = self._index.postings(term)
            factors = self._factors.take(documents)
            weights = self._formula.weights(counts, factors, frequency, self._documents)
            if len(self._index.lengths) > PRUNED:
                return documents, weights
            self._weights[term] = documents, weights
        return self._weights[term]
