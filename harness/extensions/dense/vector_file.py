"""Shards of vectors on disk: .npy files that grow to 64 MB, each with a file of its keys beside it.

Vectors are written first, then their keys: what has no key is not there, so that a process that is
killed, or a disk that is full, leaves what was complete before. Vectors that were added together
have one checksum beside their keys, which is compared when a process first reads one of them.
"""

from __future__ import annotations

import errno
import hashlib
import io
import mmap
import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError
from harness.extensions.dense.exact_search import Rows, Vectors
from harness.io.checksums import sums_of
from harness.io.files import write_bytes

Keys = npt.NDArray[np.uint64]
"""Shape (n, 2): the first 16 bytes of a sha256."""

BYTES = 1 << 26
"""A block of this size is full."""

TOGETHER = 1024
"""Most vectors under one checksum."""

_RECORD = np.dtype([("key", "<u8", 2), ("start", "<u4"), ("rows", "<u4"), ("check", "<u8")])
"""One a vector: its key; first row and number of those it was added with, and their checksum."""
_HEADER = 128
_FEW_KEYS = 1 << 16
"""So many keys are sorted again whenever some are added."""


class DamagedVectorsError(UsageError):
    """A shard is not what was written, or was written by another version."""


class VectorShard:
    """One block, mapped into memory; other processes may add to it meanwhile."""

    def __init__(self, path: Path, dimension: int, dtype: np.dtype[np.floating]) -> None:
        """Map the file. Raises FileNotFoundError where it is gone."""
        self.path = path
        self.rows = 0
        self.capacity = max(1, BYTES // (dimension * dtype.itemsize))
        self._keys = path.with_suffix(".keys")
        self._dimension, self._dtype = dimension, dtype
        self._heads = np.zeros(0, np.int64)  # first rows of what was added together
        self._checks: list[int] = []
        self._seen = np.zeros(0, bool)  # whose checksum was looked at
        self._map()

    @classmethod
    def create(cls, path: Path, dimension: int, dtype: np.dtype[np.floating]) -> VectorShard:
        """A new, empty block."""
        # New files also where there are some: other processes may have those mapped.
        write_bytes(path.with_suffix(".keys"), b"")
        write_bytes(path, _header(0, dimension, dtype))
        return cls(path, dimension, dtype)

    def grown(self) -> Keys:
        """Keys of the rows that came since the last call.

        Raises DamagedVectorsError, and FileNotFoundError where the files are gone.
        """
        if self.rows >= self.capacity:
            return np.zeros((0, 2), np.uint64)
        with open(self._keys, "rb") as file:
            file.seek(self.rows * _RECORD.itemsize)
            data = file.read()
        new = np.frombuffer(data[: len(data) // _RECORD.itemsize * _RECORD.itemsize], _RECORD)
        number = np.arange(self.rows, self.rows + len(new))
        heads = np.flatnonzero(new["start"] == number)
        ends = number[heads] + new["rows"][heads]
        if len(heads) and ends[-1] > self.rows + len(new):  # cut short while it was written
            new, heads, ends = new[: heads[-1]], heads[:-1], ends[:-1]
        whole = np.append(number[heads[1:]], self.rows + len(new))
        if len(new) and (not len(heads) or heads[0] != 0 or (ends != whole).any()):
            raise self._damaged("its keys")
        if len(new):
            self._heads = np.append(self._heads, number[heads])
            self._checks += new["check"][heads].tolist()
            self._seen = np.append(self._seen, np.zeros(len(heads), bool))
            self.rows += len(new)
            self._map()
        return np.ascontiguousarray(new["key"])

    def append(self, keys: Keys, vectors: npt.NDArray[np.floating]) -> int:
        """Keep as many as there is room for, all or none of them; returns how many.

        One process at a time, after `grown`.
        """
        n = min(len(keys), self.capacity - self.rows)
        stored = np.ascontiguousarray(vectors[:n], self._dtype)
        records = np.zeros(n, _RECORD)
        records["key"] = keys[:n]
        for start in range(0, n, TOGETHER):
            part = slice(start, start + TOGETHER)
            records["start"][part] = self.rows + start
            records["rows"][part] = len(records[part])
            records["check"][part] = _checksum(stored[part])
        with open(self.path, "r+b") as file:
            file.seek(_HEADER + self.rows * self._stride)
            file.write(stored.data.cast("B"))
            file.seek(0)
            file.write(_header(self.rows + n, self._dimension, self._dtype))
            file.flush()
            os.fsync(file.fileno())  # else a power cut could leave keys without vectors
        with open(self._keys, "r+b") as file:
            file.truncate(self.rows * _RECORD.itemsize)  # less what was cut short
            file.seek(0, os.SEEK_END)
            file.write(records.tobytes())
        return n

    def read(self, rows: Rows, into: Vectors, at: Rows, lengths: Vectors | None = None) -> int:
        """Copy `rows`, divided by their `lengths` of shape (n, 1), into the rows `at` of `into`.

        Returns how many bytes of the file are mapped for it at most. Raises DamagedVectorsError.
        """
        checked = self._check(rows)
        first, n = int(rows[0]), len(rows)
        in_order = rows[-1] - first == n - 1 == at[-1] - at[0] and bool((np.diff(rows) == 1).all())
        if not in_order:
            found = self._vectors[rows]
            into[at] = found if lengths is None else found / lengths
            return len(self._mapped)  # each page brings its neighbours along
        target, found = into[at[0] : at[0] + n], self._vectors[first : first + n]
        if lengths is None:
            target[:] = found
        else:
            np.divide(found, lengths, out=target)
        return checked + n * self._stride

    def check(self) -> None:
        """Checks all vectors. Raises DamagedVectorsError."""
        if self.rows:
            self._check(np.arange(self.rows))

    def release(self) -> None:
        """Let go of the pages that were read; they stay in the system's cache of files."""
        self._mapped.madvise(mmap.MADV_DONTNEED)

    @property
    def _stride(self) -> int:
        return self._dimension * self._dtype.itemsize

    def _map(self) -> None:
        try:
            with open(self.path, "rb") as file:
                self._mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:  # an empty file
            raise self._damaged("its length") from None
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
            raise UsageError(
                f"{self.path}: more blocks than this process may have files open: ulimit -n 65536"
            ) from None
        count = self.rows * self._dimension
        if len(self._mapped) < _HEADER + count * self._dtype.itemsize:
            raise self._damaged("its length")
        flat = np.frombuffer(self._mapped, self._dtype, count, _HEADER)
        self._vectors = flat.reshape(self.rows, self._dimension)

    def _check(self, rows: Rows) -> int:
        """Look at the checksums over `rows`; returns how many bytes were read for it."""
        read = 0
        touched = np.zeros(len(self._heads), bool)
        touched[np.searchsorted(self._heads, rows, side="right") - 1] = True
        for number in np.flatnonzero(touched & ~self._seen).tolist():
            start = self._heads[number]
            end = self._heads[number + 1] if number + 1 < len(self._heads) else self.rows
            found = self._vectors[start:end]
            if _checksum(found) != self._checks[number]:
                raise self._damaged(f"rows {start} to {end - 1}")
            self._seen[number] = True
            read += int(end - start) * self._stride
        return read

    def _damaged(self, what: str) -> DamagedVectorsError:
        return DamagedVectorsError(f"{self.path}: damaged ({what})")


def _checksum(vectors: npt.NDArray[np.floating]) -> int:
    sums = sums_of(vectors.reshape(-1).view(np.uint8))
    return int.from_bytes(hashlib.sha256(sums.data).digest()[:8], "little")


def _header(rows: int, dimension: int, dtype: np.dtype[np.floating]) -> bytes:
    """That of NumPy's format, which leaves room for more rows."""
    written = io.BytesIO()
    shape = {"descr": dtype.str, "fortran_order": False, "shape": (rows, dimension)}
    np.lib.format.write_array_header_1_0(written, shape)
    return written.getvalue()


class KeyTable:
    """Keys that are looked up by bisection: most in a large table, the last ones in a small one."""

    def __init__(self) -> None:
        self._large = self._small = _Sorted(np.zeros((0, 2), np.uint64), np.zeros(0, np.int64))

    def add(self, keys: Keys, places: Rows) -> None:
        """Take in keys with their places, both of length n."""
        self._small = self._small.with_(keys, places)
        if len(self._small) > max(_FEW_KEYS, len(self._large) // 4):
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
