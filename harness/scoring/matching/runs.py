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


_MOST = 1 << 21
"""Places of a text's seeds that are looked at; more have only texts of one phrase over and over."""


@dataclass(frozen=True, slots=True)
class Runs:
    """Runs that cannot be made longer, as aligned columns in the order of `start`.

    `start` and `first` are the run's first word in the text and in the document, `length` its
    words, `size` the document's.
    """

    document: Int64
    start: Int64
    first: Int64
    length: Int64
    size: Int64


class RunIndex:
    """The words of all documents end to end, and where every run of four of them stands."""

    def __init__(self, documents: Sequence[Int64]) -> None:
        """`documents` are the word numbers (>= 0) of each."""
        self._starts = np.cumsum([0, *map(len, documents)])
        words = np.concatenate([np.zeros(0, np.int64), *documents])
        keys, at = _keys(words)
        inside = at + SEED <= self._starts[self._owner(at) + 1]
        keys, at = keys[inside], at[inside]
        order = np.argsort(keys, kind="stable")
        self._keys, self._at = keys[order], at[order]

    def find(self, text: Int64) -> Runs:
        """All runs of at least four words; words that no document has are -1 in `text`.

        The seeds that stand in the most places are left out where there are too many places, which
        may cut a run in two.
        """
        keys, at = _keys(text)
        low = np.searchsorted(self._keys, keys, side="left")
        count = np.searchsorted(self._keys, keys, side="right") - low
        if count.sum() > _MOST:
            rarest = np.argsort(count, kind="stable")
            few = rarest[np.cumsum(count[rarest]) <= _MOST]
            at, low, count = at[few], low[few], count[few]
        start = np.repeat(at, count)
        step = np.arange(len(start)) - np.repeat(np.cumsum(count) - count, count)
        place = self._at[np.repeat(low, count) + step]
        # Neighbouring seeds at the same distance are one run; none reaches over the end of a
        # document, for no seed does.
        order = np.lexsort((start, place - start))
        start, place = start[order], place[order]
        goes_on = (np.diff(start) == 1) & (np.diff(place) == 1)
        begins = np.flatnonzero(np.append(True, ~goes_on)[: len(start)])
        length = np.diff(np.append(begins, len(start))) + SEED - 1
        start, place = start[begins], place[begins]
        document = self._owner(place)
        begin, end = self._starts[document], self._starts[document + 1]
        order = np.argsort(start, kind="stable")
        columns = (document, start, place - begin, length, end - begin)
        return Runs(*(column[order] for column in columns))

    def _owner(self, places: Int64) -> Int64:
        """The document in which each place is; empty ones own nothing."""
        return np.searchsorted(self._starts, places, side="right") - 1


def _keys(words: Int64) -> tuple[_Keys, Int64]:
    """A key for each run of SEED known words, and where it begins.

    A key is 64 bits: two different runs share one by chance once in 10^19 pairs.
    """
    n = max(0, len(words) - SEED + 1)
    keys = np.zeros(n, np.uint64)
    known = np.ones(n, bool)
    for step in range(SEED):
        part = words[step : step + n]
        known &= part >= 0
        mixed = (part.astype(np.uint64) + np.uint64(1)) * _MIX[step]
        keys ^= mixed ^ (mixed >> np.uint64(29))
        keys *= _MIX[(step + 1) % SEED]
    return keys[known], np.flatnonzero(known)
