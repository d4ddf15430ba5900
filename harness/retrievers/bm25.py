"""BM25 on bm25s (Lù, 2024), with stemming, stop words, k1, b and the formula as options."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.errors import near, require_numbers
from harness.retrievers.contract import Corpus, Question, Result
from harness.retrievers.nearest import best
from harness.retrievers.words import Words

METHODS = ("lucene", "robertson", "atire", "bm25l", "bm25+")


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
        require_numbers(k1=k1, b=b, delta=delta)
        if method not in METHODS:
            raise ValueError(f"unknown method {method!r}{near(method, list(METHODS))}")
        self._options = {"k1": k1, "b": b, "delta": delta, "method": method}
        self._words = Words(stemmer, stopwords)

    def index(self, corpus: Corpus) -> None:
        """Tokenise what is new, then build the index of this corpus."""
        import bm25s
        from bm25s.tokenization import Tokenized

        documents = [self._words.terms(text) for text in corpus.contents]
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
            terms = self._words.terms(query.text)
            terms = terms[np.isin(terms, self._own)]
            known = np.searchsorted(self._own, terms)
            if self._engine is None or len(known) == 0:
                results.append(Result([], []))
                continue
            scores = self._engine.get_scores_from_ids(known.tolist())
            top = best(scores, k, above=0.0)
            results.append(Result(top, scores[top]))
        return results
