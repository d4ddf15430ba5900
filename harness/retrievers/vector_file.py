"""A block of vectors on disk: a .npy file that grows to 64 MB, and a file of their keys beside it.

Vectors are written first, then their keys: what has no key is not there, so that a process that is
killed, or a disk that is full, leaves what was whole before. The vectors that were added together
have a checksum (CRC-32) beside their keys, which is looked at when a process first reads one of
them.
"""

from __future__ import annotations

import errno
import io
import mmap
import os
import zlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError
from harness.files import write_bytes

Vectors = npt.NDArray[np.float32]
Keys = npt.NDArray[np.uint64]
"""Shape (n, 2): the first 16 bytes of a sha256."""
Rows = npt.NDArray[np.int64]

BYTES = 1 << 26
"""A block of this size is full."""

TOGETHER = 1024
"""Most vectors under one checksum."""

_RECORD = np.dtype([("key", "<u8", 2), ("start", "<u4"), ("rows", "<u4"), ("check", "<u4")])
"""One a vector: its key; first row and number of those it was added with, and their checksum."""
_HEADER = 128


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

        Raises UsageError where the files are damaged, FileNotFoundError where they are gone.
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
            records["check"][part] = zlib.crc32(stored[part].data.cast("B"))
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

        Returns how many bytes of the file are mapped for it at most. Raises UsageError, once a
        process, for vectors that are not what was written.
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
        """Hold all that is there against its checksums. Raises UsageError."""
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
            if zlib.crc32(found.data.cast("B")) != self._checks[number]:
                raise self._damaged(f"rows {start} to {end - 1}")
            if not np.isfinite(found).all():  # an older version kept what a model gave
                raise self._damaged(f"no numbers in rows {start} to {end - 1}")
            self._seen[number] = True
            read += int(end - start) * self._stride
        return read

    def _damaged(self, what: str) -> UsageError:
        return UsageError(
            f"{self.path}: damaged ({what}); remove this file, and its texts alone, at most "
            f"{self.capacity:,}, are embedded again"
        )


def _header(rows: int, dimension: int, dtype: np.dtype[np.floating]) -> bytes:
    """That of NumPy's format, which leaves room for more rows."""
    written = io.BytesIO()
    shape = {"descr": dtype.str, "fortran_order": False, "shape": (rows, dimension)}
    np.lib.format.write_array_header_1_0(written, shape)
    return written.getvalue()
