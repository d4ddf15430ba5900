"""Vector cache on disk, which embeds each text once: a folder of shards for each model.

The key of a vector is the sha256 of its text and prompt. Haystacks, datasets, runs and processes
share the folders. Writers hold the folder's lock, readers need none.

A shard is an .npy file of up to 64 MB, with a file of keys. Vectors are written before their keys,
and a vector without a key does not exist, so a killed process or a full disk leaves a valid shard.
Each key has a checksum of its vector, which a process verifies at the first read. A shard that is
damaged or has an old format is deleted with a note, and its texts are embedded again.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import re
import shutil
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from math import gcd
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from harness.datasets.registry import home
from harness.errors import UsageError, suggest
from harness.extensions.dense.exact_search import Rows, Vectors
from harness.io.files import discard, disk_errors, write_bytes
from harness.io.records import Record, decode, write_json_record
from harness.retrievers.locks import in_turn

_log = logging.getLogger(__name__)

T = TypeVar("T")
Keys = npt.NDArray[np.uint64]
"""Shape (n, 2): the first 16 bytes of a sha256."""

DTYPES = ("float32", "float16")
BYTES = 1 << 26
"""Maximum size of a shard."""

_KEY = np.dtype([("key", "<u8", 2), ("check", "<u8")])
"""One per vector: its key, and the checksum of the vector."""
_HEADER = 128
_MODEL = "model.json"
_REMEDY = "set HARNESS_HOME to a writable folder"


class DamagedVectorsError(UsageError):
    """A shard is damaged, or was written by another version."""


class StoreRecord(Record):
    """The file model.json of a store: its model, and the form of its vectors."""

    model: str
    revision: str
    dtype: str
    dimension: int


@dataclass(frozen=True)
class CachedVectors:
    """The cached vectors of one model; `dimension` and `vectors` are 0 if its files are damaged.
    `damaged` is what `verify` found, None if nothing is wrong or nothing was verified."""

    model: str
    revision: str
    dtype: str
    dimension: int
    vectors: int
    bytes: int
    path: Path
    damaged: str | None = None


class VectorShard:
    """One file of vectors, which other processes may extend."""

    def __init__(self, path: Path, dimension: int, dtype: np.dtype[np.floating]) -> None:
        """Opens the file. Raises FileNotFoundError if it is gone."""
        self.path = path
        self.rows = 0
        self.capacity = max(1, BYTES // (dimension * dtype.itemsize))
        self._keys = path.with_suffix(".keys")
        self._dimension, self._dtype = dimension, dtype
        self._stride = dimension * dtype.itemsize
        self._checks = np.zeros(0, np.uint64)
        self._seen = np.zeros(0, bool)  # rows with a verified checksum
        self._file = os.open(path, os.O_RDONLY)  # readable even after deletion
        weakref.finalize(self, os.close, self._file)

    @classmethod
    def create(cls, path: Path, dimension: int, dtype: np.dtype[np.floating]) -> VectorShard:
        """Creates an empty shard."""
        # Never reuse existing files: other processes may have them open.
        write_bytes(path.with_suffix(".keys"), b"")
        write_bytes(path, _header(0, dimension, dtype))
        return cls(path, dimension, dtype)

    def grown(self) -> Keys:
        """Reads the keys of the rows added since the last call.

        Raises DamagedVectorsError, and FileNotFoundError if the files are gone.
        """
        if self.rows >= self.capacity:
            return np.zeros((0, 2), np.uint64)
        with open(self._keys, "rb") as file:
            file.seek(self.rows * _KEY.itemsize)
            data = file.read()
        new = np.frombuffer(data, _KEY, len(data) // _KEY.itemsize)
        rows = self.rows + len(new)
        if os.fstat(self._file).st_size < _HEADER + rows * self._stride:
            raise DamagedVectorsError(f"{self.path}: damaged (its length)")
        self._checks = np.append(self._checks, new["check"])
        self._seen = np.append(self._seen, np.zeros(len(new), bool))
        self.rows = rows
        return np.ascontiguousarray(new["key"])

    def append(self, keys: Keys, vectors: npt.NDArray[np.floating]) -> int:
        """Appends as many vectors as fit, and returns their number.

        Call it from one process at a time, after `grown`.
        """
        n = min(len(keys), self.capacity - self.rows)
        stored = np.ascontiguousarray(vectors[:n], self._dtype)
        records = np.zeros(n, _KEY)
        records["key"], records["check"] = keys[:n], _checksums(stored)
        with open(self.path, "r+b") as file:
            file.seek(_HEADER + self.rows * self._stride)
            file.write(stored.data.cast("B"))
            file.seek(0)
            file.write(_header(self.rows + n, self._dimension, self._dtype))
            file.flush()
            os.fsync(file.fileno())  # else a power failure could leave keys without vectors
        with open(self._keys, "r+b") as file:
            file.truncate(self.rows * _KEY.itemsize)  # minus the truncated part
            file.seek(0, os.SEEK_END)
            file.write(records.tobytes())
        return n

    def read(self, rows: Rows) -> npt.NDArray[np.floating]:
        """Reads vectors, shape (rows, dimension). Raises DamagedVectorsError."""
        found = np.empty((len(rows), self._dimension), self._dtype)
        ends = np.flatnonzero(np.diff(rows, prepend=-2, append=-2) != 1)
        for start, end in pairwise(ends.tolist()):
            part: Any = found[start:end]
            at = _HEADER + int(rows[start]) * self._stride
            if os.preadv(self._file, [part], at) < part.nbytes:
                raise DamagedVectorsError(f"{self.path}: damaged (its length)")
        new = np.flatnonzero(~self._seen[rows])
        if len(new):
            wrong = rows[new[_checksums(found[new]) != self._checks[rows[new]]]]
            if len(wrong):
                raise DamagedVectorsError(f"{self.path}: damaged (row {wrong[0]})")
            self._seen[rows[new]] = True
        return found


def _checksums(vectors: npt.NDArray[np.floating]) -> npt.NDArray[np.uint64]:
    """Weighted sum of each vector's words of up to 8 bytes, with odd weights, modulo 2^64: a change
    of one word always changes it.
    """
    words = vectors.view(f"<u{gcd(8, vectors.shape[1] * vectors.itemsize)}")
    weights = np.arange(1, 2 * words.shape[1], 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    checksums: npt.NDArray[np.uint64] = words @ weights
    return checksums


def _header(rows: int, dimension: int, dtype: np.dtype[np.floating]) -> bytes:
    """Returns a header in NumPy's format, with space for a larger row count."""
    written = io.BytesIO()
    shape = {"descr": dtype.str, "fortran_order": False, "shape": (rows, dimension)}
    np.lib.format.write_array_header_1_0(written, shape)
    return written.getvalue()


class KeyTable:
    """Maps keys to places, by bisection."""

    def __init__(self) -> None:
        self._first = self._second = np.zeros(0, np.uint64)  # the halves of the keys
        self._places = np.zeros(0, np.int64)

    def add(self, keys: Keys, places: Rows) -> None:
        """Adds keys with their places, both of length n."""
        first = np.append(self._first, keys[:, 0])
        order = np.argsort(first, kind="stable")  # fast, because most of it is sorted
        self._first = first[order]
        self._second = np.append(self._second, keys[:, 1])[order]
        self._places = np.append(self._places, places)[order]

    def find(self, keys: Keys) -> Rows:
        """Returns the place of each key, or -1."""
        found = np.full(len(keys), -1, np.int64)
        wanted = np.arange(len(keys))
        at = np.searchsorted(self._first, keys[:, 0])
        # Keys with an equal first half are adjacent: rarely more than one step.
        while len(wanted):
            there = at < len(self._first)
            there[there] = self._first[at[there]] == keys[wanted[there], 0]
            wanted, at = wanted[there], at[there]
            same = self._second[at] == keys[wanted, 1]
            found[wanted[same]] = self._places[at[same]]
            wanted, at = wanted[~same], at[~same] + 1
        return found


class Store:
    """The vectors of one model at one revision. A place is the location of a vector (int64).

    Places are valid for this object while it exists: cleared files stay open. Memory: 34 bytes per
    cached vector.
    """

    def __init__(self, model: str, revision: str, dtype: str = "float32") -> None:
        """`dtype` is that of vectors on disk. Raises ValueError for an unknown one."""
        if dtype not in DTYPES:
            raise ValueError(f"dtype must be {' or '.join(DTYPES)}, not {dtype!r}")
        name = re.sub(r"[^\w.-]+", "--", model).strip("-.")[-80:]
        kind = "" if dtype == "float32" else f"-{dtype}"
        self.path = folder() / f"{name}@{revision[:16]}{kind}"
        self._model, self._revision = model, revision
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._dimension: int | None = None
        self._shards: list[VectorShard] = []
        self._known: dict[tuple[str, int], int] = {}  # name and inode of a shard, its number
        self._table = KeyTable()
        self._looking = threading.RLock()

    def dimension(self) -> int | None:
        """Returns the dimension of a vector, or None if there are none."""
        if self._dimension is None and (self.path / _MODEL).is_file():
            try:
                self._dimension = _record(self.path).dimension
            except UsageError as error:
                _log.warning(f"note: {error}; its texts are embedded again")
                discard(self.path)
        return self._dimension

    def create(self, dimension: int) -> None:
        """Creates the folder, unless another process has."""
        with self.alone():
            self._create(dimension)

    def find(self, keys: Keys) -> Rows:
        """Returns the place of each key, or -1."""
        with self._looking:
            places = self._table.find(keys)
            if (places < 0).any():
                with disk_errors(self.path.parent, _REMEDY):
                    self._look()
                places = self._table.find(keys)
            return places

    def read(self, places: Rows) -> Vectors:
        """Reads the vectors at `places`, shape (n, dimension).

        Raises DamagedVectorsError after deleting a damaged shard; see `until_undamaged`.
        """
        if (places < 0).any():
            raise ValueError("-1 is not a place: the vector is not cached")
        vectors = np.empty((len(places), self.dimension() or 0), np.float32)
        numbers, rows = places >> 32, places & 0xFFFFFFFF
        with self._looking:
            for number in np.unique(numbers).tolist():
                at = np.flatnonzero(numbers == number)
                try:
                    vectors[at] = self._shards[number].read(rows[at])
                except DamagedVectorsError as error:
                    # Forgets the places of all keys; those of other shards get new ones.
                    inode = next(one[1] for one, known in self._known.items() if known == number)
                    self._remove(self._shards[number].path, inode, error)
                    self._known, self._table = {}, KeyTable()
                    raise
        return vectors

    def add(self, keys: Keys, vectors: Vectors) -> None:
        """Adds vectors with new keys. Call it only inside `alone`.

        Raises UsageError for a full disk, for NaN or infinity, and for values out of range of the
        dtype.
        """
        if not np.isfinite(vectors).all():
            raise UsageError(
                f"{self._model} returned a vector with NaN or infinity, which cannot be ranked; "
                "it is not cached"
            )
        if np.abs(vectors).max(initial=0) > np.finfo(self._dtype).max:
            raise UsageError(
                f"vectors of {self._model} exceed the range of {self._dtype.name}; use "
                "dtype=float32"
            )
        done = 0
        with self._looking, _writable(self.path):
            self._create(vectors.shape[1])
            self._look()
            while done < len(keys):
                done += self._last().append(keys[done:], vectors[done:])
                self._look()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Holds the lock for embedding, so that no two processes embed one text."""
        with ExitStack() as turn:
            with _writable(self.path):
                turn.enter_context(in_turn(_lock(self.path), f"embeds with {self._model} too"))
            yield

    def bytes(self) -> int:
        """Size of the files."""
        return _size(self.path)

    def _create(self, dimension: int) -> None:
        if not (self.path / _MODEL).is_file():
            self.path.mkdir(parents=True, exist_ok=True)
            record = StoreRecord(
                model=self._model,
                revision=self._revision,
                dtype=self._dtype.name,
                dimension=dimension,
            )
            write_json_record(self.path / _MODEL, record)

    def _look(self) -> None:
        """Reads what any process has added since."""
        new_keys, new_places = [], []
        for path, inode in _files(self.path) if self.dimension() else ():
            try:
                number = self._number(path, inode)
                start = self._shards[number].rows
                keys = self._shards[number].grown()
            except FileNotFoundError:  # cleared just now
                continue
            except DamagedVectorsError as error:
                self._remove(path, inode, error)
                continue
            new_keys.append(keys)
            new_places.append((number << 32) + np.arange(start, start + len(keys)))
        if any(map(len, new_keys)):
            self._table.add(np.concatenate(new_keys), np.concatenate(new_places))

    def _number(self, path: Path, inode: int) -> int:
        """Returns the number of a shard, and opens it if it is new."""
        if (path.name, inode) not in self._known:
            self._shards.append(VectorShard(path, self._dimension or 0, self._dtype))
            self._known[path.name, inode] = len(self._shards) - 1
        return self._known[path.name, inode]

    def _remove(self, path: Path, inode: int, error: DamagedVectorsError) -> None:
        _log.warning(f"note: {error}; its texts are embedded again")
        self._known.pop((path.name, inode), None)
        with disk_errors(self.path.parent, _REMEDY), suppress(FileNotFoundError):
            if path.stat().st_ino == inode:  # else another process has started a new one
                path.unlink()
                path.with_suffix(".keys").unlink(missing_ok=True)

    def _last(self) -> VectorShard:
        """Returns the shard with free space, or creates one."""
        files = _files(self.path)
        if files and (shard := self._shards[self._number(*files[-1])]).rows < shard.capacity:
            return shard
        following = int(files[-1][0].stem) + 1 if files else 0
        path = self.path / f"{following:06d}.npy"
        VectorShard.create(path, self.dimension() or 0, self._dtype)
        return self._shards[self._number(path, path.stat().st_ino)]


def until_undamaged(read: Callable[[], T]) -> T:
    """Calls `read` again after each damaged shard, which is deleted by then."""
    while True:
        with suppress(DamagedVectorsError):
            return read()


def digests(texts: Iterable[str], prompt: str = "") -> Keys:
    """Returns the cache keys of texts."""
    begun = hashlib.sha256(f"{prompt}\0".encode("utf-8", "surrogatepass"))
    found = []
    for text in texts:
        digest = begun.copy()
        digest.update(text.encode("utf-8", "surrogatepass"))
        found.append(digest.digest()[:16])
    return np.frombuffer(b"".join(found), "<u8").reshape(-1, 2)


def folder() -> Path:
    """Folder of the vectors of all models."""
    return home() / "embeddings"


def cached_vectors(check: bool = False) -> list[CachedVectors]:
    """Returns the cached vectors of every model, by name; `check` verifies their checksums."""
    found = [_kept(path, check) for path in sorted(folder().glob("*")) if path.is_dir()]
    return [one for one in found if one.vectors or not one.dimension]


def verify() -> list[CachedVectors]:
    """Returns the cached vectors after verifying every checksum."""
    return cached_vectors(check=True)


def clear(model: str = "") -> list[CachedVectors]:
    """Deletes the vectors of `model`, or of every model; returns what was cached.

    Raises UsageError if nothing is cached for the model.
    """
    from filelock import FileLock

    known = cached_vectors()
    chosen = [one for one in known if model in ("", one.model)]
    if model and not chosen:
        known_names = [one.model for one in known] or ["none"]
        raise UsageError(f"no cached vectors of {model!r}{suggest(model, known_names)}")
    for one in chosen:
        with _writable(one.path), FileLock(_lock(one.path)):
            shutil.rmtree(one.path)
    return chosen


def _kept(path: Path, check: bool) -> CachedVectors:
    size, damaged = _size(path), None
    try:
        record = _record(path)
        dtype = np.dtype(record.dtype).newbyteorder("<")
        shards = [VectorShard(file, record.dimension, dtype) for file, _ in _files(path)]
        vectors = sum(len(shard.grown()) for shard in shards)
    except (UsageError, FileNotFoundError) as error:  # the latter: cleared just now
        damaged = str(error) if check and isinstance(error, UsageError) else None
        name = path.name.partition("@")[0]
        return CachedVectors(name, "damaged", "", 0, 0, size, path, damaged)
    try:
        for shard in shards if check else ():
            shard.read(np.arange(shard.rows))
    except DamagedVectorsError as error:
        damaged = str(error)
    return CachedVectors(
        record.model, record.revision, record.dtype, record.dimension, vectors, size, path, damaged
    )


def _record(path: Path) -> StoreRecord:
    file = path / _MODEL
    data = file.read_bytes()
    try:
        record = decode(data, StoreRecord, str(file))
        whole = record.dtype in DTYPES and 0 < record.dimension < 2**20
    except UsageError:
        whole = False
    if not whole:
        raise UsageError(f"{file}: damaged")
    return record


def _files(path: Path) -> list[tuple[Path, int]]:
    """Returns the shards' files and inodes, in order of creation."""
    try:
        with os.scandir(path) as entries:
            found = [(entry.name, entry.inode()) for entry in entries]
    except FileNotFoundError:
        return []
    names = {name for name, _ in found}
    return [
        (path / name, inode)
        for name, inode in sorted(found)
        if name.endswith(".npy") and f"{name[:-4]}.keys" in names
    ]


def _size(path: Path) -> int:
    try:
        with os.scandir(path) as entries:
            return sum(entry.stat().st_size for entry in entries)
    except FileNotFoundError:
        return 0


def _lock(path: Path) -> Path:
    return path.with_name(f"{path.name}.lock")


@contextmanager
def _writable(path: Path) -> Iterator[None]:
    with disk_errors(path.parent, _REMEDY):
        path.parent.mkdir(parents=True, exist_ok=True)
        yield
