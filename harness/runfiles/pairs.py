"""Pairs of a query and a document among the rows of a ranking, found by sorted hashes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.runfiles.arrow import flags, integers, take

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]

_MIX = np.uint64(0x9E3779B97F4A7C15)


class RankedPairs:
    """The pairs of n rows, ready to be looked up.

    One sort of n numbers, each the upper bits of a pair's hash and its row below them, serves both
    questions: where a pair stands, and which pairs stand twice. Equal hashes are suspects only;
    what is returned was compared as text.
    """

    def __init__(self, query: npt.NDArray[np.int32], document: pa.ChunkedArray) -> None:
        """`query`, shape (n,), holds a number for each row's query, `document` its id."""
        self._query, self._document = query, document
        n = len(query)
        self._low = np.uint64((1 << max(n - 1, 1).bit_length()) - 1)
        chunks = [hashes(chunk) for chunk in document.chunks]
        keys = chunks[0] if len(chunks) == 1 else np.concatenate([np.zeros(0, np.uint64), *chunks])
        keys ^= query.astype(np.uint64) * _MIX
        keys &= ~self._low
        keys |= np.arange(n, dtype=np.uint64)
        keys.sort()
        self._keys = keys

    def find(
        self, query: npt.NDArray[Any], document: pa.Array, hashed: Hashes
    ) -> tuple[Ints, Ints]:
        """(index of a wanted pair, row where it stands), a line for each such row, in this order.

        `hashed` is `hashes(document)`.
        """
        wanted = (hashed ^ query.astype(np.uint64) * _MIX) & ~self._low
        first = np.searchsorted(self._keys, wanted)
        counts = np.searchsorted(self._keys, wanted | self._low, side="right") - first
        which = np.repeat(np.arange(len(wanted)), counts)
        within = np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts, counts)
        row = (self._keys[first[which] + within] & self._low).astype(np.int64)
        equal = pc.equal(take(self._document, row), document.take(integers(which)))
        same = flags(equal) & (self._query[row] == query[which])
        return which[same], row[same]

    def repeated(self) -> Ints:
        """Rows, ascending, whose pair stands in a row above them already."""
        twin = (self._keys[1:] ^ self._keys[:-1]) <= self._low
        at = np.flatnonzero(twin)
        if len(at) == 0:
            return np.zeros(0, np.int64)
        suspects = np.unique(self._keys[np.concatenate([at, at + 1])] & self._low).astype(np.int64)
        seen: set[tuple[int, str]] = set()
        again = []
        documents = take(self._document, suspects).to_pylist()
        for row, document in zip(suspects.tolist(), documents, strict=True):
            pair = (int(self._query[row]), document)
            if pair in seen:
                again.append(row)
            seen.add(pair)
        return np.array(again, np.int64)


def hashes(ids: pa.Array) -> Hashes:
    """A 64-bit hash of each string, eight bytes a step over all strings at once."""
    if len(ids) == 0:
        return np.zeros(0, np.uint64)
    offsets = np.frombuffer(ids.buffers()[1], np.int32)[ids.offset : ids.offset + len(ids) + 1]
    data = np.frombuffer(ids.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]]
    at, left = offsets[:-1] - offsets[0], np.diff(offsets)
    # Eight bytes more, so that a word can be read at every place.
    padded = np.concatenate([data, np.zeros(8, np.uint8)])
    words = np.ndarray((len(data) + 1,), "<u8", padded, strides=(1,))
    masks = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
    found = _mixed(left.astype(np.uint64), words[at] & masks[np.minimum(left, 8)])
    for step in range(8, int(left.max()), 8):
        # Only those that go on: a hash must not depend on the strings beside it.
        on = np.flatnonzero(left > step)
        word = words[at[on] + step] & masks[np.minimum(left[on] - step, 8)]
        found[on] = _mixed(found[on], word)
    return found


def _mixed(hashed: Hashes, word: Hashes) -> Hashes:
    hashed ^= word
    hashed *= _MIX
    hashed ^= hashed >> np.uint64(29)
    return hashed
