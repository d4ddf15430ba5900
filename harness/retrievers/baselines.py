"""Baseline retrievers: newest first, random order, and the oracle."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError
from harness.retrievers.contract import Corpus, Question, Result


class Recency:
    """Returns the latest documents, newest first, also within a session.

    Undated documents are returned in the reverse of the corpus's (shuffled) order.
    """

    def index(self, corpus: Corpus) -> None:
        """Stores the size: dated corpora are in time order."""
        self._newest_first = np.arange(len(corpus))[::-1]

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """Returns the same ranking for every question."""
        top = self._newest_first[:k]
        return [Result(top, np.arange(len(top), 0, -1.0)) for _ in queries]


class Random:
    """Ranks at random; the ranking depends only on seed, question and corpus size."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def index(self, corpus: Corpus) -> None:
        """Stores the size of the corpus."""
        self._size = len(corpus)

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """Draws a ranking per question, independent of the other questions."""
        results = []
        for query in queries:
            rng = np.random.default_rng([self._seed, self._size, zlib.crc32(query.text.encode())])
            scores = rng.random(self._size)
            top = np.argsort(-scores, kind="stable")[:k]
            results.append(Result(top, scores[top]))
        return results


class Oracle:
    """Returns the gold documents, best grade first: the upper bound of every metric.

    It is the only retriever that sees the qrels, and its results are marked: see `is_oracle`.
    """

    sees_gold_labels = True

    def index(self, corpus: Corpus) -> None:
        """Does nothing: `reveal` passes the gold documents."""

    def reveal(self, gold: Sequence[npt.NDArray[np.int64]]) -> None:
        """Sets the positions of the gold documents of the next questions."""
        self._gold = gold

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """Returns only gold documents; abstains from questions without gold documents."""
        return [Result(gold[:k], abstain=len(gold) == 0) for gold in self._gold]


def is_oracle(retriever: object) -> bool:
    """Tests whether this is the built-in oracle, the only retriever that sees the qrels.

    Raises UsageError for other retrievers that set `sees_gold_labels`, so that they are not
    mistaken for an oracle.
    """
    if type(retriever) is Oracle:
        return True
    if getattr(retriever, "sees_gold_labels", False):
        raise UsageError(
            f"{type(retriever).__name__} sets sees_gold_labels, but only the built-in oracle is "
            "given the gold labels: use `--retriever oracle`, or remove it"
        )
    return False
