"""Vectors on disk, so that a text is embedded once, ever: a folder of shards for each model.

A vector's key is the sha256 of its text and prompt. Haystacks, datasets, runs and processes share
the folders; whoever embeds holds the folder's lock meanwhile, and who reads needs none. A shard
that is damaged, or that an older version wrote, is removed with a note, and its texts are embedded
again.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import shutil
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from harness.datasets.prepare import home
from harness.errors import UsageError, near
from harness.extensions.dense.exact_search import Rows, Vectors
from harness.extensions.dense.vector_file import DamagedVectorsError, Keys, KeyTable, VectorShard
from harness.io.files import disk_errors
from harness.io.leftovers import discard
from harness.io.records import Record, decode, write_json_record
from harness.retrievers.locks import in_turn

_log = logging.getLogger(__name__)

T = TypeVar("T")
DTYPES = ("float32", "float16")

_MODEL = "model.json"
_REMEDY = "set HARNESS_HOME to a folder that can be written"
_MAPPED = 1 << 28
"""Bytes of shards that are mapped before their pages are let go: these count as memory in use."""


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


class Store:
    """The vectors of one model at one revision. A place is where one of them lies (int64).

    Places hold for this object alone, and as long as it lives: what is cleared meanwhile stays
    mapped. In memory are 24 to 48 bytes a vector that is kept.
    """

    def __init__(self, model: str, revision: str, dtype: str = "float32") -> None:
        """`dtype` is what vectors have on disk. Raises ValueError for one that is not known."""
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
        self._damaged: set[tuple[str, int]] = set()
        self._table = KeyTable()
        self._mapped = 0
        self._touched: set[VectorShard] = set()
        self._looking = threading.RLock()

    def dimension(self) -> int | None:
        """Length of a vector; None while there is none."""
        if self._dimension is None and (self.path / _MODEL).is_file():
            try:
                self._dimension = _record(self.path).dimension
            except UsageError as error:
                _log.warning(f"note: {error}; its texts are embedded again")
                discard(self.path)
        return self._dimension

    def create(self, dimension: int) -> None:
        """Make the folder, unless another process has."""
        with self.alone():
            self._create(dimension)

    def find(self, keys: Keys) -> Rows:
        """The place of each key, -1 where there is none."""
        with self._looking:
            places = self._table.find(keys)
            if (places < 0).any():
                with disk_errors(self.path.parent, _REMEDY):
                    self._look()
                places = self._table.find(keys)
            return places

    def read(self, places: Rows, into: Vectors, lengths: Vectors | None = None) -> None:
        """Copy the vectors at `places`, divided by `lengths` of shape (n, 1), into those of `into`.

        Raises DamagedVectorsError after removing a shard that is not what was written; see
        `until_undamaged`.
        """
        if (places < 0).any():
            raise ValueError("-1 is no place: what is not kept cannot be read")
        numbers, rows = places >> 32, places & 0xFFFFFFFF
        with self._looking:
            # Nearly always one or two blocks, one after the other.
            for number in np.unique(numbers).tolist():
                at = np.flatnonzero(numbers == number)
                by = None if lengths is None else lengths[at]
                shard = self._shards[number]
                try:
                    self._mapped += shard.read(rows[at], into, at, by)
                except DamagedVectorsError as error:
                    self._drop(shard, error)
                    raise
                self._touched.add(shard)
                if self._mapped > _MAPPED:
                    for one in self._touched:
                        one.release()
                    self._mapped, self._touched = 0, set()

    def add(self, keys: Keys, vectors: Vectors) -> None:
        """Keep vectors whose keys are not there. Only inside of `alone`.

        Raises UsageError for a full disk, for what is no finite number, and for numbers that the
        dtype cannot hold.
        """
        if not np.isfinite(vectors).all():
            raise UsageError(
                f"{self._model} gave a vector with NaN or infinity in it, by which "
                "nothing can be ranked; it is not kept"
            )
        if np.abs(vectors).max(initial=0) > np.finfo(self._dtype).max:
            raise UsageError(
                f"vectors of {self._model} have numbers that {self._dtype.name} cannot "
                "hold; take dtype=float32"
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
        """Embed alone, so that no two processes embed one text; the others wait for their turn."""
        with ExitStack() as turn:
            with _writable(self.path):
                model = self._model
                turn.enter_context(in_turn(_lock(self.path), f"embeds with {model} too"))
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
        """Take in what was added since, by whomever."""
        dimension = self.dimension()
        new_keys, new_places = [], []
        for path, inode in _files(self.path) if dimension else ():
            if (path.name, inode) in self._damaged:
                continue
            try:
                number = self._number(path, inode)
                start = self._shards[number].rows
                keys = self._shards[number].grown()
            except FileNotFoundError:  # cleared in this moment
                continue
            except DamagedVectorsError as error:
                self._remove(path, inode, error)
                continue
            if len(keys):
                new_keys.append(keys)
                new_places.append((number << 32) + np.arange(start, self._shards[number].rows))
        if new_keys:
            self._table.add(np.concatenate(new_keys), np.concatenate(new_places))

    def _number(self, path: Path, inode: int) -> int:
        """The number of a shard, which is opened if it is not known yet."""
        number = self._known.get((path.name, inode))
        if number is None:
            self._shards.append(VectorShard(path, self._dimension or 0, self._dtype))
            number = self._known[path.name, inode] = len(self._shards) - 1
        return number

    def _drop(self, shard: VectorShard, error: DamagedVectorsError) -> None:
        """Remove a damaged shard, and forget the places of its keys; others get new places."""
        number = self._shards.index(shard)
        name, inode = next(known for known, one in self._known.items() if one == number)
        self._remove(self.path / name, inode, error)
        self._known, self._table = {}, KeyTable()

    def _remove(self, path: Path, inode: int, error: DamagedVectorsError) -> None:
        _log.warning(f"note: {error}; its texts are embedded again")
        self._known.pop((path.name, inode), None)
        try:
            if path.stat().st_ino == inode:  # else another process has begun a new one
                path.unlink()
                path.with_suffix(".keys").unlink(missing_ok=True)
        except FileNotFoundError:
            pass
        except OSError:  # it stays; a file that is gone may hand its inode to the next one
            self._damaged.add((path.name, inode))

    def _last(self) -> VectorShard:
        """The shard that has room, made if there is none."""
        files = _files(self.path)
        if files:
            path, inode = files[-1]
            number = self._known.get((path.name, inode))
            if number is not None and self._shards[number].rows < self._shards[number].capacity:
                return self._shards[number]
        following = int(files[-1][0].stem) + 1 if files else 0
        path = self.path / f"{following:06d}.npy"
        shard = VectorShard.create(path, self.dimension() or 0, self._dtype)
        self._shards.append(shard)
        self._known[path.name, path.stat().st_ino] = len(self._shards) - 1
        return shard


def until_undamaged(read: Callable[[], T]) -> T:
    """Calls `read`, again after each damaged shard that it meets, which is removed by then."""
    while True:
        with suppress(DamagedVectorsError):
            return read()


def digests(texts: Iterable[str], prompt: str = "") -> Keys:
    """What the vectors of texts are kept under."""
    begun = hashlib.sha256(f"{prompt}\0".encode("utf-8", "surrogatepass"))
    found = []
    for text in texts:
        digest = begun.copy()
        digest.update(text.encode("utf-8", "surrogatepass"))
        found.append(digest.digest()[:16])
    return np.frombuffer(b"".join(found), "<u8").reshape(-1, 2)


def folder() -> Path:
    """Where the vectors of all models are."""
    return home() / "embeddings"


def cached_vectors() -> list[CachedVectors]:
    """The cached vectors of every model, by name."""
    found = [_kept(path) for path in sorted(folder().glob("*")) if path.is_dir()]
    return [one for one in found if one.vectors or not one.dimension]


def verify() -> list[CachedVectors]:
    """What is kept, every vector of it held against its checksum."""
    return [replace(one, damaged=_wrong(one.path)) for one in cached_vectors()]


def _wrong(path: Path) -> str | None:
    """The first thing that is wrong with what is kept of a model; None where it is whole."""
    try:
        record = _record(path)
        for file, _ in _files(path):
            shard = VectorShard(file, record.dimension, np.dtype(record.dtype).newbyteorder("<"))
            shard.grown()
            shard.check()
    except FileNotFoundError:  # cleared in this moment
        return None
    except UsageError as error:
        return str(error)
    return None


def clear(model: str = "") -> list[CachedVectors]:
    """Forget the vectors of `model`, or of every model; returns what was kept of them.

    Raises UsageError for a model of which nothing is kept.
    """
    from filelock import FileLock

    known = cached_vectors()
    chosen = [one for one in known if model in ("", one.model)]
    if model and not chosen:
        known_names = [one.model for one in known] or ["none"]
        raise UsageError(f"no vectors of {model!r} are kept{near(model, known_names)}")
    for one in chosen:
        with _writable(one.path), FileLock(_lock(one.path)):
            shutil.rmtree(one.path)
    return chosen


def _kept(path: Path) -> CachedVectors:
    size = _size(path)
    try:
        record = _record(path)
        dtype = np.dtype(record.dtype)
        shards = [VectorShard(file, record.dimension, dtype) for file, _ in _files(path)]
        vectors = sum(len(shard.grown()) for shard in shards)
        return CachedVectors(
            record.model, record.revision, record.dtype, record.dimension, vectors, size, path
        )
    except (UsageError, FileNotFoundError):  # the latter: cleared in this moment
        return _damaged(path, size)


def _damaged(path: Path, size: int) -> CachedVectors:
    return CachedVectors(path.name.partition("@")[0], "damaged", "", 0, 0, size, path)


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
    """The shards' files and inodes, in the order in which they were begun."""
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
