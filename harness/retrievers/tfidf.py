"""Cosine of tf-idf vectors: the vector space model, with scikit-learn's default weights."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harness.retrievers.bm25.index import IntArray, index_in_memory
from harness.retrievers.bm25.tokenizer import Tokenizer
from harness.retrievers.contract import Corpus, Question, Result
from harness.retrievers.top_k import top_k


class TfIdf:
    """Lexical ranking by tf-idf; documents that share no term with the question do not return.

    The weight of a term is tf * idf, with tf its count (`sublinear`: 1 + ln of its count) and
    idf = ln((1 + N) / (1 + df)) + 1, which is what TfidfVectorizer of scikit-learn does by default;
    the score is the cosine. `stemmer` and `stopwords` are those of bm25.
    """

    def __init__(
        self, sublinear: bool = False, stemmer: str = "english", stopwords: str = "english"
    ) -> None:
        self._sublinear = sublinear
        self._words = Tokenizer(stemmer, stopwords)

    def index(self, corpus: Corpus) -> None:
        """Count the terms of each document, weigh them, and scale each document to length 1."""
        documents = self._words.encode(corpus.contents)
        n = self._size = len(documents)
        lengths = np.array([len(document) for document in documents], np.int64)
        empty = np.zeros(0, np.int32)
        # Numbers of this corpus's own terms, so that a small haystack has a small index; in their
        # order here, so that sums, and with them near ties, are the same whatever was read before.
        self._own, first, numbers = np.unique(
            np.concatenate([empty, *documents]), return_index=True, return_inverse=True
        )
        self._number = np.argsort(np.argsort(first))
        _, index = index_in_memory(self._number[numbers].astype(np.int32), lengths)
        self._slices, self._owners, counts = index.starts, index.documents, index.counts
        df = np.diff(self._slices)
        self._idf = np.log((1 + n) / (1 + df)) + 1
        weights = self._tf(counts) * np.repeat(self._idf, df)
        length = np.sqrt(np.bincount(self._owners, weights**2, minlength=n))
        self._weights = weights / length[self._owners]

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """Best first; equal scores keep the corpus's order."""
        results = []
        for query in queries:
            scores = self._scores(self._words.terms(query.text))
            top = top_k(scores, k, above=0.0)
            results.append(Result(top, scores[top]))
        return results

    def _scores(self, words: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:
        """Cosine with every document; terms that the corpus lacks have no weight."""
        scores = np.zeros(self._size)
        known = np.searchsorted(self._own, words[np.isin(words, self._own)])
        terms, counts = np.unique(self._number[known], return_counts=True)
        weights = self._tf(counts) * self._idf[terms]
        length = np.sqrt((weights**2).sum())
        for term, weight in zip(terms, weights / length if length else weights, strict=True):
            part = slice(self._slices[term], self._slices[term + 1])
            scores[self._owners[part]] += weight * self._weights[part]
        return scores

    def _tf(self, counts: IntArray) -> npt.NDArray[np.float64]:
        return 1 + np.log(counts) if self._sublinear else counts.astype(float)
