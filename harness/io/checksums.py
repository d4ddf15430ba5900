"""Checksums of records and files (sha256), and of blocks of data files (multilinear hash).

Records: the field `checksums` of such a JSON file has `files`, the sha256 of each file in its
folder that belongs to it, and `record`, the sha256 of all other fields and of `files`. Readers
check both and raise errors for flipped bits, manual changes, and files of different versions. A
record without checksums, as other programs write it, is accepted unless they are required.

Blocks: a flipped bit in a prepared dataset, an index or a cached vector would change results or
crash a library. Each block of 8 KiB has a checksum, which is compared with its bytes before they
are first used, at 10 GB/s or more. It is the sum of the block's 64-bit words, each times an odd
weight, modulo 2^64 (multilinear hashing; Lemire and Kaser 2014). It detects every change within one
word, and other changes except with probability 2^-64.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from harness.errors import RunError, UsageError
from harness.io.files import digest, write_bytes
from harness.io.records import ChecksummedRecord as ChecksummedRecord
from harness.io.records import Checksums as Checksums
from harness.io.records import convert, encode, read_json_record, to_plain, with_remedy

if TYPE_CHECKING:
    import pyarrow as pa

BLOCK_SUMS = "checksums.arrow"
_WORDS = 1 << 10
BLOCK = 8 * _WORDS
"""Bytes per block."""
_FEW = 16  # if more than 1/16 of a buffer is needed, checking all of it is faster
_AT_ONCE = 1 << 12  # blocks per batch; a copy has 32 MiB
_WEIGHTS = np.frombuffer(hashlib.shake_256(b"checksums").digest(BLOCK), "<u8") | np.uint64(1)
"""Weight of each word; from SHAKE-256, since NumPy's random numbers may change."""

BlockSums = npt.NDArray[np.uint64]
FileSums = tuple[npt.NDArray[np.int64], BlockSums]
"""Of a file: bounds of the parts outside of columns, shape (n, 2), and a checksum per block."""

_known: dict[Path, tuple[tuple[int, ...], str]] = {}
"""Digests of files by path, with the device, inode, size and time for which they are valid."""


R = TypeVar("R", bound=ChecksummedRecord)


def write_with_checksums(
    path: Path, record: ChecksummedRecord, beside: Iterable[str] = (), *, compact: bool = False
) -> None:
    """Writes a record with checksums of itself and of the files named by `beside` that exist.

    The files must be written first: after a crash in between, the old record does not match them,
    and reading reports that.
    """
    _write(path, record, digests(path.with_name(name) for name in beside), compact=compact)


def rewrite_with_checksums(path: Path, record: ChecksummedRecord) -> None:
    """Writes a changed record with a new checksum of the record; its files are unchanged."""
    files = record.checksums.files if record.checksums else {}
    _write(path, record, files, compact=False)


def read_with_checksums(
    path: Path, kind: type[R], remedy: str = "", *, required: bool = False
) -> R:
    """Reads a record and checks its own checksum; `remedy` is the advice for a damaged file.

    Raises UsageError for a file that is missing, not of this kind or changed since it was written,
    and, if `required`, for one without checksums.
    """
    values = read_json_record(path, dict[str, object], remedy)
    record = convert(values, kind, str(path), remedy)
    if record.checksums is None:
        if required:
            raise UsageError(
                f"{path}: has no checksums; another program wrote it{with_remedy(remedy)}"
            )
        return record
    if record.checksums.record != _digest_of_read(values, record.checksums.files):
        raise UsageError(f"{path}: was changed since it was written{with_remedy(remedy)}")
    return record


def check_file(path: Path, record: ChecksummedRecord, remedy: str = "") -> Path:
    """Returns the path if the file is the one that the record was written with.

    A record without checksums accepts any file. Raises UsageError for a file that is missing, added
    or changed.
    """
    if record.checksums is None:
        return path
    expected = record.checksums.files.get(path.name)
    if expected is None:
        if path.is_file():
            raise UsageError(f"{path}: was not there when the record beside it was written")
        return path
    if not path.is_file():
        raise UsageError(f"{path}: is missing{with_remedy(remedy)}")
    if _cached_digest(path) != expected:
        raise UsageError(
            f"{path}: is not the file that was written with the record beside it (its sha256 is "
            f"another): it was changed, is damaged, or is of another time{with_remedy(remedy)}"
        )
    return path


def digests(files: Iterable[Path]) -> dict[str, str]:
    """Returns the sha256 of each of these files that exists, by name."""
    return {file.name: digest(file) for file in files if file.is_file()}


def has_digest(path: Path, sha256: str) -> bool:
    """Tests whether a file exists and has this sha256."""
    return path.is_file() and _cached_digest(path) == sha256


def _write(
    path: Path, record: ChecksummedRecord, files: Mapping[str, str], *, compact: bool
) -> None:
    values = to_plain(record)
    checksums = Checksums(files=dict(files), record=_digest_of(values, files))
    record = msgspec.structs.replace(record, checksums=checksums)
    write_bytes(path, encode(record, indent=not compact))


def _digest_of(values: Mapping[str, object], files: Mapping[str, str]) -> str:
    """Computes the sha256 of a record's values, with `files` as its checksums, in one spelling."""
    return _digest_of_read(msgspec.json.decode(msgspec.json.encode(values)), files)


def _digest_of_read(values: Mapping[str, object], files: Mapping[str, str]) -> str:
    """Computes the same of values that were read from JSON."""
    whole = {**values, "checksums": dict(files)}
    return hashlib.sha256(msgspec.json.encode(whole, order="sorted")).hexdigest()


def _cached_digest(path: Path) -> str:
    """Returns the sha256 of a file; one that is unchanged since the last call is not read again."""
    stat = path.stat()
    stamp = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
    known = _known.get(path)
    if known is None or known[0] != stamp:
        known = _known[path] = (stamp, digest(path))
    return known[1]


# -- Blocks ----------------------------------------------------------------------------------------


class DamagedError(RunError):
    """Raised for a damaged file of a dataset; `what` describes the damage without advice."""

    def __init__(self, path: Path, at: int) -> None:
        super().__init__()
        self.args = path, at  # for pickling between processes
        self.what = (
            f"{path}: is damaged at byte {at:,} or shortly after it (a checksum does not fit)"
        )
        self._folder = path.parent

    def __str__(self) -> str:
        return f"{self.what}; remove {self._folder}, and the dataset is prepared again"


def sums_of(data: npt.NDArray[np.uint8]) -> BlockSums:
    """Computes the checksum of every block of a file; the last one is padded with zeros."""
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
    """Writes the block checksums of the files of a dataset.

    `heads` are the bounds of the parts of each file outside of columns, shape (n, 2).
    """
    import pyarrow as pa

    found = [np.concatenate([*_sums_by_chunk(folder / name)]) for name in heads]
    table = pa.table(
        {
            "file": pa.array(list(heads), pa.string()),
            "heads": pa.array([of.ravel().tolist() for of in heads.values()], pa.list_(pa.int64())),
            "sums": pa.ListArray.from_arrays(
                np.cumsum([0, *map(len, found)]).astype(np.int32), pa.array(np.concatenate(found))
            ),
        }
    )
    with (
        pa.OSFile(str(folder / BLOCK_SUMS), "wb") as sink,
        pa.ipc.new_file(sink, table.schema) as file,
    ):
        file.write_table(table)


def block_digest(path: Path) -> str:
    """Computes the sha256 of a file's block checksums, several times as fast as of the file."""
    whole = hashlib.sha256()
    for sums in _sums_by_chunk(path):
        whole.update(sums.data)
    return whole.hexdigest()


def _sums_by_chunk(path: Path) -> Iterator[BlockSums]:
    """Yields arrays of checksums of a file's blocks; empty ones for an empty file."""
    yield np.zeros(0, np.uint64)
    with open(path, "rb") as file:
        while data := file.read(_AT_ONCE * BLOCK):
            yield sums_of(np.frombuffer(data, np.uint8))


def read_sums(folder: Path) -> dict[str, FileSums]:
    """Reads the checksums that `write_sums` wrote, by file."""
    import pyarrow as pa

    with pa.OSFile(str(folder / BLOCK_SUMS)) as source:
        table = pa.ipc.open_file(source).read_all()
    return {
        file: (
            np.asarray(table["heads"][at].values.to_numpy()).reshape(-1, 2),
            np.asarray(table["sums"][at].values.to_numpy()),
        )
        for at, file in enumerate(table["file"].to_pylist())
    }


class Blocks:
    """A memory-mapped file and its checksums; each block is checked once."""

    def __init__(self, path: Path, mapped: mmap.mmap, sums: BlockSums) -> None:
        self._path, self._sums = path, sums
        self._data = np.frombuffer(mapped, np.uint8)
        self._start: int = self._data.ctypes.data
        self._seen = np.zeros(len(sums), bool)

    def check(self, low: int, high: int) -> None:
        """Checks the bytes from `low` to `high`. Raises DamagedError."""
        first, last = low // BLOCK, -(-high // BLOCK)
        self._look(first + np.flatnonzero(~self._seen[first:last]))

    def check_buffer(self, buffer: pa.Buffer | None) -> None:
        """Checks a buffer of a column; ignores buffers outside this file."""
        if buffer is not None and buffer.size:
            low = buffer.address - self._start
            if 0 <= low < len(self._data):
                self.check(low, low + buffer.size)

    def check_pieces(self, buffer: pa.Buffer, low: npt.NDArray[np.int64], size: int) -> None:
        """Checks parts of a buffer that begin at `low` and have at most `size` bytes."""
        start = buffer.address - self._start
        if not 0 <= start < len(self._data):
            return
        if len(low) * (size + BLOCK) * _FEW > buffer.size:  # checking all of it is faster
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


def _sums(words: npt.NDArray[np.uint64]) -> BlockSums:
    found: BlockSums = np.einsum("ij,j->i", words, _WEIGHTS)
    return found
