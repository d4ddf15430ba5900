"""BM25 Okapi exactly as LongMemEval's script uses rank_bm25: k1 1.5, b 0.75, epsilon 0.25.

score(d) = sum over the query's tokens t, repeated ones too, of
idf(t) * tf * (k1 + 1) / (tf + k1 * (1 - b + b * len(d) / mean length)),
idf(t) = ln(N - df + 0.5) - ln(df + 0.5); where that is negative, epsilon * the mean over all terms.
Tokens are cut at single blanks and keep their case (`tokens=split`, the script's way), or are runs
of letters and digits in lower case (`tokens=words`). Equal scores keep the corpus's order, which
for dated documents puts the earlier one first; the script leaves them to an unstable sort.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from harness.retrievers.contract import Corpus, Question, Result

_WORD = re.compile(r"\w+")

TOKENIZERS: dict[str, Callable[[str], list[str]]] = {
    "split": lambda text: text.split(" "),
    "words": lambda text: _WORD.findall(text.lower()),
}


class Okapi:
    """rank_bm25's BM25Okapi; a text that stands in many haystacks is tokenised once."""

    def __init__(
        self, k1: float = 1.5, b: float = 0.75, epsilon: float = 0.25, tokens: str = "split"
    ) -> None:
        if tokens not in TOKENIZERS:
            raise ValueError(f"tokens must be one of {', '.join(TOKENIZERS)}, not {tokens!r}")
        self._k1, self._b, self._epsilon = k1, b, epsilon
        self._tokenize = TOKENIZERS[tokens]
        self._vocabulary: dict[str, int] = {}
        # text -> (term ids, their frequencies, number of tokens)
        self._texts: dict[str, tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], int]] = {}

    def index(self, corpus: Corpus) -> None:
        """Count terms; only haystack-wide sums are computed again for every haystack."""
        found = [self._counts(text) for text in corpus.contents]
        self._n = len(found)
        sizes = [len(terms) for terms, _, _ in found]
        empty = np.zeros(0, np.int32)
        terms = np.concatenate([empty, *(t for t, _, _ in found)])
        frequencies = np.concatenate([empty, *(f for _, f, _ in found)])
        owners = np.repeat(np.arange(self._n), sizes)
        order = np.argsort(terms, kind="stable")
        self._terms, first, df = np.unique(terms[order], return_index=True, return_counts=True)
        self._owners, self._frequencies = owners[order], frequencies[order]
        self._slices = np.append(first, len(terms))
        length = np.array([n for _, _, n in found], float)
        mean_length = length.sum() / self._n if self._n else 0.0
        with np.errstate(invalid="ignore", divide="ignore"):
            self._norm = self._k1 * (1 - self._b + self._b * length / mean_length)
        idf = np.log(self._n - df + 0.5) - np.log(df + 0.5)
        if len(idf):
            idf[idf < 0] = self._epsilon * (idf.sum() / len(idf))
        self._idf = idf

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """The k best documents of all; those without a query term score 0 and come last."""
        results = []
        for query in queries:
            scores = self._scores(query.text)
            top = np.argsort(-scores, kind="stable")[:k]
            results.append(Result(top, scores[top]))
        return results

    def _scores(self, text: str) -> npt.NDArray[np.float64]:
        scores = np.zeros(self._n)
        for token in self._tokenize(text):
            term = self._vocabulary.get(token, -1)
            at = np.searchsorted(self._terms, term)
            if at == len(self._terms) or self._terms[at] != term:
                continue
            part = slice(self._slices[at], self._slices[at + 1])
            tf, owners = self._frequencies[part], self._owners[part]
            scores[owners] += self._idf[at] * (tf * (self._k1 + 1) / (tf + self._norm[owners]))
        return scores

    def _counts(self, text: str) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], int]:
        known = self._texts.get(text)
        if known is None:
            tokens = self._tokenize(text)
            counts = Counter(tokens)
            vocabulary = self._vocabulary
            terms = [vocabulary.setdefault(token, len(vocabulary)) for token in counts]
            known = (
                np.array(terms, np.int32),
                np.fromiter(counts.values(), np.int32, len(counts)),
                len(tokens),
            )
            self._texts[text] = known
        return known
