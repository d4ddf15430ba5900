"""Baselines that frame every other number: the latest, a random order, and the best order."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError
from harness.retrievers.contract import Corpus, Question, Result


class Recency:
    """The latest documents, newest first; what was said last in a session before what came first.

    Undated documents have no newest: they come in the corpus's own (shuffled) order, reversed.
    """

    def index(self, corpus: Corpus) -> None:
        """Only the size matters: dated corpora come in time order."""
        self._newest_first = np.arange(len(corpus))[::-1]

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """The same answer to every question."""
        top = self._newest_first[:k]
        return [Result(top, np.arange(len(top), 0, -1.0)) for _ in queries]


class Random:
    """A random ranking; the same one for the same seed, question and corpus size."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed

    def index(self, corpus: Corpus) -> None:
        """Only the size matters."""
        self._size = len(corpus)

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """Independent draws, so that order and number of questions change nothing."""
        results = []
        for query in queries:
            rng = np.random.default_rng([self._seed, self._size, zlib.crc32(query.text.encode())])
            scores = rng.random(self._size)
            top = np.argsort(-scores, kind="stable")[:k]
            results.append(Result(top, scores[top]))
        return results


class Oracle:
    """The gold documents first, best grade first: the upper bound of every metric.

    It is the one retriever that is shown the answer key, and results say so: see `is_oracle`.
    """

    sees_gold_labels = True

    def index(self, corpus: Corpus) -> None:
        """Nothing to do: the key comes with `reveal`."""

    def reveal(self, gold: Sequence[npt.NDArray[np.int64]]) -> None:
        """Positions of the gold documents of the questions that `search` is asked next."""
        self._gold = gold

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """Gold and nothing else; for a question without gold, an explicit abstention."""
        return [Result(gold[:k], abstain=len(gold) == 0) for gold in self._gold]


def is_oracle(retriever: object) -> bool:
    """Whether this is the built-in oracle, which alone is shown the key and marked for it.

    What a retriever says of itself plays no part; raises UsageError for another that asks for the
    key by `sees_gold_labels`, so that nobody takes it for an oracle.
    """
    if type(retriever) is Oracle:
        return True
    if getattr(retriever, "sees_gold_labels", False):
        raise UsageError(
            f"{type(retriever).__name__} sets sees_gold_labels, but only the built-in oracle is "
            "shown the answer key: take `--retriever oracle`, or remove it"
        )
    return False
