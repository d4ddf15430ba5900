"""Texts that a public benchmark has too: the same words, or most runs of eight words.

A text is the same as a benchmark's where their words are equal after normalisation (case, marks
and spaces make no difference); nearly the same where at least 70% of its runs of eight words stand
in the benchmark's texts, which is how PaLM's authors looked for contamination (Chowdhery et al.
2022, section 8). A query is nearly the same, too, where it has the same content words in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.labelling.generate.repeated import content_words
from harness.labelling.generate.topics import window_hashes
from harness.retrievers.words import Words
from harness.scoring.matching.words import WORD, Vocabulary, plain

RUN = 8
"""Words of a run that is looked for."""
SHARE = 0.7
"""The share of a text's runs from which on it is nearly the same."""
_BLOCK = 1 << 20

Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Same:
    """Rows of ours that the benchmark has: `exact` with its row, and `near` with the share."""

    exact: dict[int, int]
    near: dict[int, float]


class Texts:
    """Our texts, as hashes of their runs of words."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._vocabulary, self._terms = Vocabulary(), Words()
        self._texts = texts
        cut = [np.array([self._vocabulary[w] for w in WORD.findall(t)], np.int64) for t in texts]
        self._whole: dict[bytes, list[int]] = {}
        for row, words in enumerate(cut):
            if len(words):
                self._whole.setdefault(words.tobytes(), []).append(row)
        runs = [window_hashes(words, RUN) for words in cut]
        self._run = np.concatenate([np.zeros(0, np.uint64), *runs])
        self._row = np.repeat(np.arange(len(texts)), [len(run) for run in runs])

    def within(self, others: Iterator[list[str]], *, any_order: bool = False) -> Same:
        """Which of ours a stream of texts has, given in portions.

        `any_order`: the same content words count as nearly the same (share 1).
        """
        known = _Known(self._vocabulary)
        wanted = np.unique(self._run)
        seen = np.zeros(len(wanted), bool)
        exact: dict[int, int] = {}
        shuffled: set[tuple[int, ...]] = set()
        start = 0
        for portion in others:
            cut = [[known[word] for word in WORD.findall(text)] for text in portion]
            for at, words in enumerate(cut):
                if words and -1 not in words:
                    for row in self._whole.get(np.array(words, np.int64).tobytes(), ()):
                        exact.setdefault(row, start + at)
            joined = np.array([w for words in cut for w in (*words, -1)], np.int64)
            hashes = window_hashes(joined, RUN)
            if len(wanted) and len(hashes):
                place = np.minimum(np.searchsorted(wanted, hashes), len(wanted) - 1)
                seen[place[wanted[place] == hashes]] = True
            if any_order:
                shuffled.update(map(self._content, portion))
            start += len(portion)
        near: dict[int, float] = {}
        if any_order:
            mine = map(self._content, self._texts)
            found = (row for row, of in enumerate(mine) if of and of in shuffled)
            near = {row: 1.0 for row in found if row not in exact}
        if len(wanted):
            of_run = seen[np.searchsorted(wanted, self._run)]
            total = np.bincount(self._row, minlength=len(self._texts))
            share = np.bincount(self._row, of_run, len(self._texts)) / np.maximum(total, 1)
            for row in np.flatnonzero(share >= SHARE).tolist():
                if row not in exact:
                    near[row] = float(share[row])
        return Same(exact, near)

    def _content(self, text: str) -> tuple[int, ...]:
        return content_words(text, self._terms)


class _Known(dict[str, int]):
    """Our number of each word as another text writes it, -1 for one that we have not."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        super().__init__()
        self._numbers = vocabulary.numbers

    def __missing__(self, word: str) -> int:
        self[word] = number = self._numbers.get(plain(word), -1)
        return number
