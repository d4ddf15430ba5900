"""How many words a text and each document share: an inverted index, and token F1 from it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from harness.scoring.matching.words import Chunk

Int64 = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]


class Overlap:
    """For each word the documents that have it, end to end in one array."""

    def __init__(self, documents: Sequence[Int64], words: int) -> None:
        """`documents` are the word numbers of each, below `words`; repetitions do not count."""
        sets = [np.unique(document) for document in documents]
        self._sizes: Int64 = np.array([len(s) for s in sets], np.int64)
        word = np.concatenate([np.zeros(0, np.int64), *sets])
        document = np.repeat(np.arange(len(sets)), self._sizes)
        self._documents = document[np.argsort(word, kind="stable")]
        frequency = np.bincount(word, minlength=words)
        self._starts = np.append(0, np.cumsum(frequency))
        self._rarity: Values = np.log1p(len(sets) / np.maximum(frequency, 1))
        self._weights = np.bincount(document, self._rarity[word], minlength=len(sets))

    def f1(self, chunk: Chunk) -> Values:
        """Token F1 of a text with every document, shape (documents,).

        2 |A and B| / (|A| + |B|) of the sets of words: the harmonic mean of the shares of each that
        the other has. 0 where both are empty.
        """
        shared = np.bincount(self._having(chunk)[0], minlength=len(self._sizes))
        return 2 * shared / np.maximum(self._sizes + chunk.size, 1)

    def rare_f1(self, chunk: Chunk) -> Values:
        """The same with every word counted by its rarity, log(1 + documents / documents with it).

        It tells which of several documents with many common words is meant: `pottery` says more
        than `and it was so`. Words that no document has count as if one had them.
        """
        having, lengths = self._having(chunk)
        rarity = self._rarity[chunk.known]
        shared = np.bincount(having, np.repeat(rarity, lengths), minlength=len(self._sizes))
        unknown = (chunk.size - len(chunk.known)) * np.log1p(len(self._sizes))
        values: Values = 2 * shared / np.maximum(self._weights + rarity.sum() + unknown, 1)
        return values

    def _having(self, chunk: Chunk) -> tuple[Int64, list[int]]:
        """The documents that have each word of the text, end to end, and how many have it."""
        bounds = zip(self._starts[chunk.known], self._starts[chunk.known + 1], strict=True)
        lists = [self._documents[low:high] for low, high in bounds]
        return np.concatenate([np.zeros(0, np.int64), *lists]), [*map(len, lists)]
