"""Checksums of a dataset's files by block, held against the bytes where these are read.

A flipped bit in a prepared dataset would give other numbers, or another program's crash. So each
block of 8 kB has a checksum, written with the dataset, and is held against it once, before the
first of its bytes is used: at 10 GB and more a second, and only what is read at all.

A checksum is the sum of the block's 64-bit words, each times an odd weight of its own, modulo 2^64
(multilinear hashing; Lemire and Kaser 2014). Whatever changes within one word changes it for
certain, anything else but for one case in 2^64.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.errors import RunError

FILE = "checksums.arrow"
_WORDS = 1 << 10
BLOCK = 8 * _WORDS
"""Bytes of a block."""
_FEW = 16  # one of so many parts of a buffer: from there on, one go through it costs less
_AT_ONCE = 1 << 12  # blocks whose copy fits in memory wherever anything does
_WEIGHTS = np.frombuffer(hashlib.shake_256(b"checksums").digest(BLOCK), "<u8") | np.uint64(1)
"""Of each word. From a standard, as NumPy's random numbers may change from version to version."""

Sums = npt.NDArray[np.uint64]
FileSums = tuple[npt.NDArray[np.int64], Sums]
"""Of one file: where what is in no column begins and ends, (n, 2), and a checksum a block."""


class DamagedError(RunError):
    """A file of a dataset is not what was written; `what` says no more than that."""

    def __init__(self, path: Path, at: int) -> None:
        super().__init__()
        self.args = path, at  # as it comes back from another process
        self.what = (
            f"{path}: is damaged at byte {at:,} or shortly after it (a checksum does not fit)"
        )
        self._folder = path.parent

    def __str__(self) -> str:
        return f"{self.what}; remove {self._folder}, and the dataset is prepared again"


def sums_of(data: npt.NDArray[np.uint8]) -> Sums:
    """The checksum of every block of a file; the last one is filled up with zeros."""
    whole = len(data) // BLOCK
    words = data[: whole * BLOCK].view(np.uint64).reshape(-1, _WORDS)
    slabs = [_sums(words[at : at + _AT_ONCE]) for at in range(0, whole, _AT_ONCE)]
    sums = np.concatenate([np.zeros(0, np.uint64), *slabs])
    if whole * BLOCK == len(data):
        return sums
    last = np.zeros(BLOCK, np.uint8)
    last[: len(data) - whole * BLOCK] = data[whole * BLOCK :]
    return np.append(sums, _sums(last.view(np.uint64)[None]))


def write_sums(folder: Path, heads: Mapping[str, npt.NDArray[np.int64]]) -> None:
    """Write the checksums of the files of a dataset, whose parts that are no column's `heads` say:
    where each begins and ends, (n, 2) by the file's name."""
    found = [_sums_of_file(folder / name) for name in heads]
    table = pa.table(
        {
            "file": pa.array(list(heads), pa.string()),
            "heads": pa.array([of.ravel().tolist() for of in heads.values()], pa.list_(pa.int64())),
            "sums": pa.ListArray.from_arrays(
                np.cumsum([0, *map(len, found)]).astype(np.int32), pa.array(np.concatenate(found))
            ),
        }
    )
    with pa.OSFile(str(folder / FILE), "wb") as sink, pa.ipc.new_file(sink, table.schema) as file:
        file.write_table(table)


def _sums_of_file(path: Path) -> Sums:
    parts = [np.zeros(0, np.uint64)]
    with open(path, "rb") as file:
        while data := file.read(_AT_ONCE * BLOCK):
            parts.append(sums_of(np.frombuffer(data, np.uint8)))
    return np.concatenate(parts)


def read_sums(folder: Path) -> dict[str, FileSums]:
    """What `write_sums` wrote, by file."""
    with pa.OSFile(str(folder / FILE)) as source:
        table = pa.ipc.open_file(source).read_all()
    return {
        file: (
            np.asarray(table["heads"][at].values.to_numpy()).reshape(-1, 2),
            np.asarray(table["sums"][at].values.to_numpy()),
        )
        for at, file in enumerate(table["file"].to_pylist())
    }


class Blocks:
    """One mapped file and its checksums; each block is looked at once."""

    def __init__(self, path: Path, mapped: mmap.mmap, sums: Sums) -> None:
        self._path, self._sums = path, sums
        self._data = np.frombuffer(mapped, np.uint8)
        self._start: int = self._data.ctypes.data
        self._seen = np.zeros(len(sums), bool)

    def check(self, low: int, high: int) -> None:
        """Hold the bytes from `low` to `high` against their checksums. Raises DamagedError."""
        first, last = low // BLOCK, -(-high // BLOCK)
        self._look(first + np.flatnonzero(~self._seen[first:last]))

    def check_buffer(self, buffer: pa.Buffer | None) -> None:
        """The same of a buffer of a column; one that lies elsewhere is nobody's here."""
        if buffer is not None and buffer.size:
            low = buffer.address - self._start
            if 0 <= low < len(self._data):
                self.check(low, low + buffer.size)

    def check_pieces(self, buffer: pa.Buffer, low: npt.NDArray[np.int64], size: int) -> None:
        """The same of pieces of a buffer that begin at `low`, the longest of which has `size`."""
        start = buffer.address - self._start
        if not 0 <= start < len(self._data):
            return
        if len(low) * (size + BLOCK) * _FEW > buffer.size:  # one go through all of it costs less
            self.check(start, start + buffer.size)
            return
        blocks = (start + low) // BLOCK
        more = np.arange(size // BLOCK + 2)
        blocks = np.unique((blocks[:, None] + more).ravel())
        blocks = blocks[blocks <= (start + buffer.size - 1) // BLOCK]
        self._look(blocks[~self._seen[blocks]])

    def _look(self, blocks: npt.NDArray[np.int64]) -> None:
        if not len(blocks):
            return
        if blocks[-1] >= len(self._sums):
            raise DamagedError(self._path, len(self._data))
        whole = len(self._data) // BLOCK
        words = self._data[: whole * BLOCK].view(np.uint64).reshape(-1, _WORDS)
        inner = blocks[blocks < whole]
        for start in range(0, len(inner), _AT_ONCE):
            some = inner[start : start + _AT_ONCE]
            one_run = some[-1] - some[0] == len(some) - 1
            found = _sums(words[some[0] : some[-1] + 1] if one_run else words[some])
            wrong = some[found != self._sums[some]]
            if len(wrong):
                raise DamagedError(self._path, int(wrong[0]) * BLOCK)
        if blocks[-1] >= whole and sums_of(self._data[whole * BLOCK :])[0] != self._sums[whole]:
            raise DamagedError(self._path, whole * BLOCK)
        self._seen[blocks] = True


def _sums(words: npt.NDArray[np.uint64]) -> Sums:
    found: Sums = np.einsum("ij,j->i", words, _WEIGHTS)
    return found
