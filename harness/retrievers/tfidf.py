"""Vector space model (cosine of tf-idf vectors with scikit-learn's weights) and BM25Okapi."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import require_numbers
from harness.retrievers.bm25.index import IntArray, index_in_memory
from harness.retrievers.bm25.tokenizer import TERMS, Tokenizer, analysis, split_words
from harness.retrievers.contract import Corpus, Question, Result
from harness.retrievers.outputs import top_k


class TfIdf:
    """Lexical ranking by tf-idf; documents that share no term with the question are not returned.

    The weight of a term is tf * idf, with tf its count (`sublinear`: 1 + ln of its count) and
    idf = ln((1 + N) / (1 + df)) + 1, the default of scikit-learn's TfidfVectorizer; the score is
    the cosine. Terms, `language`, `stemmer` and `stopwords` are those of bm25.
    """

    revision = TERMS

    def __init__(
        self,
        sublinear: bool = False,
        language: str = "english",
        stemmer: str = "auto",
        stopwords: str = "auto",
    ) -> None:
        self._sublinear = sublinear
        self._words = Tokenizer(**analysis(language, stemmer, stopwords))

    def index(self, corpus: Corpus) -> None:
        """Computes the tf-idf vector of each document, scaled to length 1."""
        documents = self._words.encode(corpus.contents)
        n = self._size = len(documents)
        lengths = np.array([len(document) for document in documents], np.int64)
        empty = np.zeros(0, np.int32)
        # Terms are renumbered per corpus, so that a small haystack has a small index, and in order
        # of occurrence, so that sums and near ties do not depend on earlier corpora.
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
        """Returns the best documents first; ties keep the corpus's order."""
        results = []
        for query in queries:
            scores = self._scores(self._words.terms(query.text))
            top = top_k(scores, k, above=0.0)
            results.append(Result(top, scores[top]))
        return results

    def _scores(self, words: npt.NDArray[np.int32]) -> npt.NDArray[np.float64]:
        """Returns the cosine with every document; terms not in the corpus are ignored."""
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


def _split(texts: list[str]) -> pa.ListArray:
    return pc.split_pattern(pa.array(texts, pa.string()), " ")


def _words(texts: list[str]) -> pa.ListArray:
    return pa.array([split_words(text, 1) for text in texts], pa.list_(pa.string()))


def _is_unspaced(texts: list[str]) -> bool:
    if all(map(str.isascii, texts)):
        return False
    from harness.io.scripts import is_unspaced

    return is_unspaced(texts)


TOKENIZERS: dict[str, Callable[[list[str]], pa.ListArray]] = {"split": _split, "words": _words}
"""Functions that split texts into tokens."""


class Okapi:
    """rank_bm25's BM25Okapi; a text in many haystacks is tokenised once.

    `tokens`: split (at blanks, as LongMemEval's scripts do), or words, those of bm25 of any length.
    A haystack in a script without spaces (a quarter of its characters) always has words.
    """

    revision = TERMS

    def __init__(
        self, k1: float = 1.5, b: float = 0.75, epsilon: float = 0.25, tokens: str = "split"
    ) -> None:
        require_numbers(k1=k1, b=b, epsilon=epsilon)
        if tokens not in TOKENIZERS:
            raise ValueError(f"tokens must be one of {', '.join(TOKENIZERS)}, not {tokens!r}")
        self._k1, self._b, self._epsilon = k1, b, epsilon
        self._requested = self._tokenize = TOKENIZERS[tokens]
        self._texts: dict[str, pa.Array] = {}  # text -> its tokens

    def index(self, corpus: Corpus) -> None:
        """Counts terms. Tokens are Arrow columns, since a haystack has thousands of them."""
        texts = corpus.contents
        tokenize = self._requested
        if tokenize is _split and _is_unspaced(texts):
            tokenize = _words
        if tokenize is not self._tokenize:
            self._tokenize, self._texts = tokenize, {}
        documents = self._tokens(texts)
        n = self._n = len(documents)
        tokens = pa.concat_arrays([pa.array([], pa.string()), *documents]).dictionary_encode()
        self._terms = tokens.dictionary
        self._numbers: dict[str, int] | None = None
        length = np.array([len(document) for document in documents], np.int64)
        # The dictionary has exactly the terms that occur.
        _, index = index_in_memory(tokens.indices.to_numpy(), length)
        self._slices, self._owners, self._frequencies = index.starts, index.documents, index.counts
        df = np.diff(self._slices)
        mean_length = length.sum() / n if n else 0.0
        with np.errstate(invalid="ignore", divide="ignore"):
            self._norm = self._k1 * (1 - self._b + self._b * length / mean_length)
        idf = np.log(n - df + 0.5) - np.log(df + 0.5)
        if len(idf):
            idf[idf < 0] = self._epsilon * (idf.sum() / len(idf))
        self._idf = idf

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """Returns the k best of all documents; those without a query term score 0."""
        results = []
        for query in queries:
            scores = self._scores(query.text)
            top = np.argsort(-scores, kind="stable")[:k]
            results.append(Result(top, scores[top]))
        return results

    def _scores(self, text: str) -> npt.NDArray[np.float64]:
        scores = np.zeros(self._n)
        for term in self._known(text):
            part = slice(self._slices[term], self._slices[term + 1])
            tf, owners = self._frequencies[part], self._owners[part]
            scores[owners] += self._idf[term] * (tf * (self._k1 + 1) / (tf + self._norm[owners]))
        return scores

    def _known(self, text: str) -> list[int]:
        """Returns the numbers of the text's tokens that occur in the corpus, in order."""
        tokens = self._tokenize([text]).values
        if self._numbers is None:
            # A dictionary pays off only from the second question on.
            self._numbers = {}
            found: list[int] = pc.index_in(tokens, value_set=self._terms).drop_null().to_pylist()
            return found
        if not self._numbers:
            self._numbers = {term: number for number, term in enumerate(self._terms.to_pylist())}
        numbers = (self._numbers.get(token) for token in tokens.to_pylist())
        return [number for number in numbers if number is not None]

    def _tokens(self, texts: list[str]) -> list[pa.Array]:
        """Returns the tokens of each text; tokenises new texts together."""
        new = list(dict.fromkeys(text for text in texts if text not in self._texts))
        for text, tokens in zip(new, self._tokenize(new), strict=True):
            self._texts[text] = tokens.values
        return [self._texts[text] for text in texts]
