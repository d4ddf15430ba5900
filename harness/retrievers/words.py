"""Texts as numbers of their terms, and an inverted index of them: for the lexical retrievers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.errors import near

Ints = npt.NDArray[np.int64]

_WORD = re.compile(r"(?u)\b\w\w+\b")


class Words:
    """Cuts texts into terms; a text that stands in many haystacks is cut once.

    Tokens are runs of two or more letters and digits, in lower case. `stemmer`: a Snowball
    language, or none. `stopwords`: english, or none. Raises ValueError for any other.
    """

    def __init__(self, stemmer: str = "english", stopwords: str = "english") -> None:
        if stopwords not in ("english", "none"):
            raise ValueError(f"stopwords must be english or none, not {stopwords!r}")
        self._stem = _stemmer(stemmer)
        self._stopwords = _english() if stopwords == "english" else frozenset()
        self._vocabulary: dict[str, int] = {}  # word as written -> term, -1 for a stop word
        self._terms: dict[str, int] = {}  # stem -> term
        self._texts: dict[str, npt.NDArray[np.int32]] = {}

    def terms(self, text: str) -> npt.NDArray[np.int32]:
        """The text's terms in their order, stop words left out; equal terms have equal numbers."""
        terms = self._texts.get(text)
        if terms is None:
            vocabulary = self._vocabulary
            words = _WORD.findall(text.lower())
            for word in dict.fromkeys(words):  # a set's order is another in every process
                if word not in vocabulary:
                    vocabulary[word] = self._term(word)
            numbers = np.fromiter((vocabulary[w] for w in words), np.int32, len(words))
            terms = self._texts[text] = numbers[numbers >= 0]
        return terms

    def _term(self, word: str) -> int:
        if word in self._stopwords:
            return -1
        stem = self._stem(word) if self._stem else word
        return self._terms.setdefault(stem, len(self._terms))


def postings(
    terms: npt.NDArray[np.integer[Any]], documents: Ints, n_terms: int, n_documents: int
) -> tuple[Ints, Ints, Ints]:
    """An inverted index of tokens: for each its term, and the document that it stands in.

    Returns `starts`, shape (n_terms + 1,), `documents` and `counts`: the rows from starts[t] to
    starts[t + 1] are the documents that have term t, in their order, and how often each has it.
    """
    # One sorted number for each token, term before document: equal ones are its frequency.
    n = max(n_documents, 1)
    pairs, counts = np.unique(terms.astype(np.int64) * n + documents, return_counts=True)
    owned, owners = np.divmod(pairs, n)
    return np.append(0, np.cumsum(np.bincount(owned, minlength=n_terms))), owners, counts


def _stemmer(language: str) -> Callable[[str], str] | None:
    if language == "none":
        return None
    import Stemmer

    if language not in Stemmer.algorithms():
        raise ValueError(f"unknown stemmer {language!r}{near(language, Stemmer.algorithms())}")
    stem: Callable[[str], str] = Stemmer.Stemmer(language).stemWord
    return stem


def _english() -> frozenset[str]:
    from bm25s.stopwords import STOPWORDS_EN

    return frozenset(STOPWORDS_EN)
