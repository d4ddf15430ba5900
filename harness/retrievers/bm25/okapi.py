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
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import require_numbers
from harness.retrievers.bm25.index import index_in_memory
from harness.retrievers.contract import Corpus, Question, Result

_WORD = re.compile(r"\w+")


def _split(texts: list[str]) -> pa.ListArray:
    return pc.split_pattern(pa.array(texts, pa.string()), " ")


def _words(texts: list[str]) -> pa.ListArray:
    return pa.array([_WORD.findall(text.lower()) for text in texts], pa.list_(pa.string()))


TOKENIZERS: dict[str, Callable[[list[str]], pa.ListArray]] = {"split": _split, "words": _words}
"""From texts to the tokens of each."""


class Okapi:
    """rank_bm25's BM25Okapi; a text that stands in many haystacks is tokenised once."""

    def __init__(
        self, k1: float = 1.5, b: float = 0.75, epsilon: float = 0.25, tokens: str = "split"
    ) -> None:
        require_numbers(k1=k1, b=b, epsilon=epsilon)
        if tokens not in TOKENIZERS:
            raise ValueError(f"tokens must be one of {', '.join(TOKENIZERS)}, not {tokens!r}")
        self._k1, self._b, self._epsilon = k1, b, epsilon
        self._tokenize = TOKENIZERS[tokens]
        self._texts: dict[str, pa.Array] = {}  # text -> its tokens

    def index(self, corpus: Corpus) -> None:
        """Count terms. Tokens stay Arrow columns: a haystack has thousands of them."""
        documents = self._tokens(corpus.contents)
        n = self._n = len(documents)
        tokens = pa.concat_arrays([pa.array([], pa.string()), *documents]).dictionary_encode()
        self._terms = tokens.dictionary
        self._numbers: dict[str, int] | None = None
        length = np.array([len(document) for document in documents], np.int64)
        # Every token has a number of the dictionary, and every number a token.
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
        """The k best documents of all; those without a query term score 0 and come last."""
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
        """Numbers of the text's tokens that the corpus holds, in the text's order."""
        tokens = self._tokenize([text]).values
        if self._numbers is None:
            # A dictionary pays only where several questions are asked of one haystack.
            self._numbers = {}
            found: list[int] = pc.index_in(tokens, value_set=self._terms).drop_null().to_pylist()
            return found
        if not self._numbers:
            self._numbers = {term: number for number, term in enumerate(self._terms.to_pylist())}
        numbers = (self._numbers.get(token) for token in tokens.to_pylist())
        return [number for number in numbers if number is not None]

    def _tokens(self, texts: list[str]) -> list[pa.Array]:
        """Tokens of each text; those of new texts are found together."""
        new = list(dict.fromkeys(text for text in texts if text not in self._texts))
        for text, tokens in zip(new, self._tokenize(new), strict=True):
            self._texts[text] = tokens.values
        return [self._texts[text] for text in texts]
