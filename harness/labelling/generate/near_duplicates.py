"""Texts that repeat others: queries in the words of their documents, documents nearly the same.

The first are found by the longest run of words in common and by the share of common words, the
second by the cosine of their vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.retrievers.bm25.tokenizer import Tokenizer
from harness.retrievers.embeddings import Vectors
from harness.retrievers.exact_search import BLOCK
from harness.scoring.matching.words import WORD, Vocabulary

MIN_QUOTE = 5
"""Words in a row that make a quotation: a query with so many is excluded."""

Int64 = npt.NDArray[np.int64]

Embed = Callable[[Sequence[str]], Vectors]
"""Texts to vectors of length 1, shape (texts, dimension)."""

_AT_ONCE = 256  # with a block of documents its cosines take 64 MB

_DIGITS = 4
"""Decimals of a similarity: what is left after machines have added up in different orders."""


@dataclass(frozen=True)
class WordRun:
    """Words in a row that a query shares with a document: how many, and which."""

    length: int
    words: str


def longest_runs(queries: Sequence[str], documents: Sequence[Sequence[str]]) -> list[WordRun]:
    """The longest run of words that each query has of any of its documents, `documents[i]`."""
    vocabulary = Vocabulary()
    cut: dict[str, Int64] = {}

    def numbers(text: str) -> Int64:
        if text not in cut:
            cut[text] = np.array([vocabulary[word] for word in WORD.findall(text)], np.int64)
        return cut[text]

    found = []
    for query, texts in zip(queries, documents, strict=True):
        runs = [longest_run(numbers(query), numbers(text)) for text in texts]
        length, end = max(runs, default=(0, 0))
        found.append(WordRun(length, " ".join(WORD.findall(query)[end - length : end])))
    return found


def longest_run(some: Int64, other: Int64) -> tuple[int, int]:
    """The most words in a row that two texts share, and where that run ends in the first one.

    The longest common substring by dynamic programming: a row for each word of `some`, all words
    of `other` at once. Shapes (a,) and (b,).
    """
    best, end = 0, 0
    runs = np.zeros(len(other) + 1, np.int64)
    for at, word in enumerate(some.tolist(), 1):
        runs[1:] = np.where(other == word, runs[:-1] + 1, 0)
        longest = int(runs.max())
        if longest > best:
            best, end = longest, at
    return best, end


def shared(
    queries: Sequence[str], relevant: Sequence[Sequence[int]], documents: Sequence[str]
) -> list[float | None]:
    """How much of what each query's words tell stands in its documents; the most of any of them.

    Words are stems without stop words, as the lexical retrievers see them, each weighted by
    ln(1 + N / df), as rare words are what they find by. Left out are words that no document has,
    which tell them nothing, and words of more than a fifth of the queries (and of five at least),
    which are a template's and tell no query apart; None where no other is left. `relevant` are rows
    of `documents`.
    """
    terms = Tokenizer()
    of_query = [np.unique(terms.terms(query)) for query in queries]
    of_document = [np.unique(terms.terms(text)) for text in documents]
    every = np.concatenate([np.zeros(0, np.int32), *of_query, *of_document])
    frequency = np.bincount(
        np.concatenate([np.zeros(0, np.int32), *of_document]),
        minlength=int(every.max(initial=0)) + 1,
    )
    weight = np.where(frequency > 0, np.log1p(len(documents) / np.maximum(frequency, 1)), 0.0)
    asking = np.bincount(np.concatenate([np.zeros(0, np.int32), *of_query]), minlength=len(weight))
    weight[asking > max(len(queries) / 5, 5)] = 0
    found: list[float | None] = []
    for asked, rows in zip(of_query, relevant, strict=True):
        total = float(weight[asked].sum())
        held = (float(weight[np.intersect1d(asked, of_document[row])].sum()) for row in rows)
        found.append(max(held, default=0.0) / total if total and rows else None)
    return found


def content_words(text: str, terms: Tokenizer) -> tuple[int, ...]:
    """The stems of a text, sorted and each once, by their numbers in `terms`.

    Equal for texts that say the same in another order; empty for one of stop words alone.
    """
    return tuple(np.unique(terms.terms(text)).tolist())


# -- Documents that are nearly the same ------------------------------------------------------------


def pairs(
    some: Vectors, others: Vectors, least: float
) -> tuple[Int64, Int64, npt.NDArray[np.float64]]:
    """Every pair with a cosine of `least` and more: row of `some`, row of `others`, the cosine.

    Shapes (a, d) and (b, d), vectors of length 1; the results have shape (pairs,), sorted by the
    first row, then the second. Cosines are rounded to four decimals, and compared so.
    """
    found = []
    for start in range(0, len(some), _AT_ONCE):
        for low in range(0, len(others), BLOCK):
            cosines = some[start : start + _AT_ONCE] @ others[low : low + BLOCK].T
            rounded = np.round(cosines, _DIGITS)
            # float32 holds 0.7 as 0.69999999: compared with half a unit of the last decimal.
            one, other = np.nonzero(rounded >= least - 0.5 * 10.0**-_DIGITS)
            values = np.round(rounded[one, other].astype(np.float64), _DIGITS)
            found.append((one + start, other + low, values))
    if not found:
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, np.zeros(0)
    one, other, value = (np.concatenate(column) for column in zip(*found, strict=True))
    order = np.lexsort((other, one))
    return one[order], other[order], value[order]


def embedder(what: str, model: str = "") -> Embed:
    """The packaged MiniLM, or another BERT model by name or folder, behind the cache of vectors.

    Only the first 256 word pieces of a text (or what the model takes) are seen. Raises UsageError,
    beginning with `what` needs it, where the model or its extra is missing.
    """
    from harness.retrievers.embedder import Embedder
    from harness.retrievers.exact_search import unit
    from harness.retrievers.minilm import PACKAGED, LightEncoder, need_minilm

    need_minilm(what, model or PACKAGED)
    embed = Embedder(LightEncoder(model or PACKAGED))
    return lambda texts: unit(embed(list(texts)))
