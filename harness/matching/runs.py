"""Runs of words that a text and documents have in common, from an index of all runs of four."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
_Keys = npt.NDArray[np.uint64]

SEED = 4
"""Words of the shortest run that is found: shorter ones stand in most texts."""

# Odd numbers with many bits set (from SplitMix64 and its kin); a key mixes SEED words into one.
_MIX = np.array(
    [0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93], np.uint64
)


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs that cannot be made longer, as aligned columns.

    `text` is the number of the text, rising; `start` and `first` are the run's first word in the text and
    in the document, `length` its words.
    """

    text: Int64
    document: Int64
    start: Int64
    first: Int64
    length: Int64


class RunIndex:
    """The words of all documents end to end, and where every run of four of them stands."""

    def __init__(self, documents: Sequence[Int64]) -> None:
        """`documents` are the word numbers (>= 0) of each."""
        self.words = _joined(documents)
        self.starts = _starts(documents)
        keys, at = _keys(self.words, self.starts)
        order = np.argsort(keys, kind="stable")
        self._keys, self._at = keys[order], at[order]

    def find(self, texts: Sequence[Int64]) -> Runs:
        """All runs of at least four words; words that no document has are -1 in `texts`."""
        words, starts = _joined(texts), _starts(texts)
        keys, at = _keys(words, starts)
        low = np.searchsorted(self._keys, keys, side="left")
        count = np.searchsorted(self._keys, keys, side="right") - low
        place = np.repeat(at, count)
        step = np.arange(len(place)) - np.repeat(np.cumsum(count) - count, count)
        document_place = self._at[np.repeat(low, count) + step]
        # Neighbouring places with the same shift are one run; none reaches over the end of a text
        # or a document, for the places of their last SEED - 1 words have no key.
        shift = document_place - place
        order = np.lexsort((place, shift))
        place, shift = place[order], shift[order]
        goes_on = (np.diff(shift) == 0) & (np.diff(place) == 1)
        first = np.flatnonzero(np.append(True, ~goes_on)[: len(place)])
        length = np.diff(np.append(first, len(place))) + SEED - 1
        place, document_place = place[first], (place + shift)[first]
        text, document = _owner(starts, place), _owner(self.starts, document_place)
        by_text = np.lexsort((place, text))
        start, within = place - starts[text], document_place - self.starts[document]
        return Runs(*(c[by_text] for c in (text, document, start, within, length)))

    def document(self, number: int) -> Int64:
        """The words of a document."""
        return self.words[self.starts[number] : self.starts[number + 1]]


def _joined(parts: Sequence[Int64]) -> Int64:
    return np.concatenate([np.zeros(0, np.int64), *parts])


def _starts(parts: Sequence[Int64]) -> Int64:
    return np.cumsum([0, *map(len, parts)])


def _owner(starts: Int64, places: Int64) -> Int64:
    """Which part each place is in; empty parts own nothing."""
    return np.searchsorted(starts, places, side="right") - 1


def _keys(words: Int64, starts: Int64) -> tuple[_Keys, Int64]:
    """A key for each run of SEED words that lies within one part, and where the run begins.

    A key is 64 bits: two different runs share one by chance once in 10^19 pairs.
    """
    n = len(words) - SEED + 1
    if n <= 0:
        return np.zeros(0, np.uint64), np.zeros(0, np.int64)
    at = np.arange(n)
    inside = at + SEED <= starts[1:][_owner(starts, at)]
    keys = np.zeros(n, np.uint64)
    known = np.ones(n, bool)
    for step in range(SEED):
        part = words[step : step + n]
        known &= part >= 0
        mixed = (part.astype(np.uint64) + np.uint64(1)) * _MIX[step]
        keys ^= mixed ^ (mixed >> np.uint64(29))
        keys *= _MIX[(step + 1) % SEED]
    use = inside & known
    return keys[use], at[use]
