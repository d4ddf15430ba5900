"""BM25 on bm25s (Lù, 2024), with stemming, stop words, k1, b and the formula as options."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import near
from harness.retrievers.contract import Corpus, Question, Result

METHODS = ("lucene", "robertson", "atire", "bm25l", "bm25+")
_WORD = re.compile(r"(?u)\b\w\w+\b")


class BM25:
    """Lexical ranking; documents that share no word with the question are not returned.

    `method`: lucene, robertson, atire, bm25l or bm25+ (Kamphuis et al., ECIR 2020). `stemmer`: a
    Snowball language, or none. `stopwords`: english, or none. Tokens are runs of two or more
    letters and digits, in lower case. A text that stands in many haystacks is tokenised once.
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
        if method not in METHODS:
            raise ValueError(f"unknown method {method!r}{near(method, list(METHODS))}")
        if stopwords not in ("english", "none"):
            raise ValueError(f"stopwords must be english or none, not {stopwords!r}")
        self._options = {"k1": k1, "b": b, "delta": delta, "method": method}
        self._stem = _stemmer(stemmer)
        self._stopwords = _english() if stopwords == "english" else frozenset()
        self._vocabulary: dict[str, int] = {}  # word as written -> term, -1 for a stop word
        self._terms: dict[str, int] = {}  # stem -> term
        self._texts: dict[str, npt.NDArray[np.int32]] = {}

    def index(self, corpus: Corpus) -> None:
        """Tokenise what is new, then build the index of this corpus."""
        import bm25s
        from bm25s.tokenization import Tokenized

        documents = [self._tokens(text) for text in corpus.contents]
        self._size = len(documents)
        empty = np.zeros(0, np.int32)
        # Numbers of this corpus's own terms, so that a small haystack has a small index.
        self._own, numbers = np.unique(np.concatenate([empty, *documents]), return_inverse=True)
        self._engine: Any = None
        if len(self._own):
            cuts = np.cumsum([len(document) for document in documents])[:-1]
            ids = [part.tolist() for part in np.split(numbers, cuts)]
            tokens = Tokenized(ids=ids, vocab={str(n): n for n in range(len(self._own))})
            self._engine = bm25s.BM25(**self._options)
            self._engine.index(tokens, create_empty_token=False, show_progress=False)

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """Best first; equal scores keep the corpus's order."""
        results = []
        for query in queries:
            terms = self._tokens(query.text)
            terms = terms[np.isin(terms, self._own)]
            known = np.searchsorted(self._own, terms)
            if self._engine is None or len(known) == 0:
                results.append(Result([], []))
                continue
            scores = self._engine.get_scores_from_ids(known.tolist())
            results.append(_top(scores, k))
        return results

    def _tokens(self, text: str) -> npt.NDArray[np.int32]:
        tokens = self._texts.get(text)
        if tokens is None:
            vocabulary = self._vocabulary
            words = _WORD.findall(text.lower())
            for word in set(words).difference(vocabulary):
                vocabulary[word] = self._term(word)
            numbers = np.fromiter((vocabulary[w] for w in words), np.int32, len(words))
            tokens = self._texts[text] = numbers[numbers >= 0]
        return tokens

    def _term(self, word: str) -> int:
        if word in self._stopwords:
            return -1
        stem = self._stem(word) if self._stem else word
        return self._terms.setdefault(stem, len(self._terms))


def _top(scores: npt.NDArray[np.float32], k: int) -> Result:
    """The k best positive scores, best first, stable."""
    if k < len(scores) // 4:
        threshold = np.partition(scores, len(scores) - k)[len(scores) - k]
        candidates = np.flatnonzero(scores >= max(threshold, np.finfo(np.float32).tiny))
    else:
        candidates = np.flatnonzero(scores > 0)
    order = candidates[np.argsort(-scores[candidates], kind="stable")][:k]
    return Result(order, scores[order])


def _stemmer(language: str) -> Any:
    if language == "none":
        return None
    import Stemmer

    if language not in Stemmer.algorithms():
        raise ValueError(f"unknown stemmer {language!r}{near(language, Stemmer.algorithms())}")
    return Stemmer.Stemmer(language).stemWord


def _english() -> frozenset[str]:
    from bm25s.stopwords import STOPWORDS_EN

    return frozenset(STOPWORDS_EN)
