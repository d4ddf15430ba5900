"""From the keys of vectors to their places: sorted arrays, 24 bytes a key."""

from __future__ import annotations

import numpy as np

from harness.retrievers.vector_file import Keys, Rows

_SMALL = 1 << 16
"""So many are sorted anew whenever some are added."""


class KeyTable:
    """Keys that are looked up by bisection: most in a large table, the last ones in a small one."""

    def __init__(self) -> None:
        self._large = self._small = _Sorted(np.zeros((0, 2), np.uint64), np.zeros(0, np.int64))

    def add(self, keys: Keys, places: Rows) -> None:
        """Take in keys with their places, both of length n."""
        self._small = self._small.with_(keys, places)
        if len(self._small) > max(_SMALL, len(self._large) // 4):
            self._large = self._large.with_(self._small.keys(), self._small.places)
            self._small = _Sorted(np.zeros((0, 2), np.uint64), np.zeros(0, np.int64))

    def find(self, keys: Keys) -> Rows:
        """The place of each key, -1 where there is none."""
        places = self._large.find(keys)
        return np.where(places < 0, self._small.find(keys), places)


class _Sorted:
    def __init__(self, keys: Keys, places: Rows) -> None:
        order = np.argsort(keys[:, 0], kind="stable")
        self._first, self._second = keys[order, 0], keys[order, 1]
        self.places = places[order]

    def __len__(self) -> int:
        return len(self.places)

    def keys(self) -> Keys:
        return np.column_stack([self._first, self._second])

    def with_(self, keys: Keys, places: Rows) -> _Sorted:
        together = np.concatenate([self.keys(), keys])
        return _Sorted(together, np.concatenate([self.places, places]))

    def find(self, keys: Keys) -> Rows:
        found = np.full(len(keys), -1, np.int64)
        if not len(self):
            return found
        wanted = np.arange(len(keys))
        at = np.searchsorted(self._first, keys[:, 0])
        # Two keys of one first half stand next to each other: hardly ever more than one step.
        while len(wanted):
            there = at < len(self)
            wanted, at = wanted[there], at[there]
            there = self._first[at] == keys[wanted, 0]
            wanted, at = wanted[there], at[there]
            same = self._second[at] == keys[wanted, 1]
            found[wanted[same]] = self.places[at[same]]
            wanted, at = wanted[~same], at[~same] + 1
        return found
