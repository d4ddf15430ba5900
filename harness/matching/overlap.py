"""How many words a text and each document share: an inverted index, and token F1 from it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Values = npt.NDArray[np.float64]


class Overlap:
    """For each word the documents that have it, end to end in one array."""

    def __init__(self, documents: Sequence[Int64], words: int) -> None:
        """`documents` are the word numbers of each, below `words`; repetitions do not count."""
        sets = [np.unique(document) for document in documents]
        self.sizes: Int64 = np.array([len(s) for s in sets], np.int64)
        word = np.concatenate([np.zeros(0, np.int64), *sets])
        self._documents = np.repeat(np.arange(len(sets)), self.sizes)[
            np.argsort(word, kind="stable")
        ]
        self._starts = np.append(0, np.cumsum(np.bincount(word, minlength=words)))

    def f1(self, words: Int64, size: int) -> Values:
        """Token F1 of a text with every document, shape (documents,).

        2 |A and B| / (|A| + |B|) of the sets of words: the harmonic mean of the shares of each that
        the other has. `words` are those of the text that any document has, each once; `size` is how
        many different words the text has. Nothing shares nothing: 0 where both are empty.
        """
        starts = self._starts
        lists = [self._documents[starts[w] : starts[w + 1]] for w in words.tolist()]
        found = np.concatenate([np.zeros(0, np.int64), *lists])
        shared = np.bincount(found, minlength=len(self.sizes))
        return 2 * shared / np.maximum(self.sizes + size, 1)
