"""On-disk cache of indexes.

An index is a folder of files below `indexes` in the cache folder. Its name is a digest of the
documents and their order, the retriever, the parameters that it depends on, and the version of
both. It is built aside under a lock and renamed when it is whole; its files are held against their
checksums whenever it is opened; what does not fit is built anew, and one line says why.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from harness.dataset.prepare import home
from harness.dataset.remote_store import Shared, shared
from harness.errors import UsageError, near
from harness.files import disk_errors, folder_aside, remove_leftovers
from harness.leftovers import discard, temporary_folder
from harness.records.base import Record, read_json_record, write_json_record
from harness.retrievers.contract import Corpus
from harness.retrievers.locks import locked

_log = logging.getLogger(__name__)

Opened = TypeVar("Opened")
INGESTED = "ingested-"
"""How the name begins of what a system of the user's saved, which may have cost money."""

_ABOUT = "index.json"
_PIECE = 1 << 24
_GIGABYTE = 10**9
_BOUND = 50
"""Gigabytes that all indexes together may take, unless HARNESS_INDEX_GB says another number."""


@dataclass(frozen=True)
class CachedIndex:
    """An index in the cache; `damaged` is what is wrong with it."""

    name: str
    retriever: str
    params: Mapping[str, object]
    documents: int
    bytes: int
    used: float
    damaged: str = ""


class IndexFile(Record):
    """Size and CRC-32 of a file of an index."""

    bytes: int
    crc32: int


class IndexRecord(Record):
    """The file index.json of an index; `crc32` is that of all other fields."""

    retriever: str
    params: dict[str, object]
    documents: int
    files: dict[str, IndexFile]
    crc32: int = 0


class Index:
    """The folder of an index, for as long as this object lives."""

    def __init__(self, folder: Path, lasts: TemporaryDirectory[str] | None = None) -> None:
        self.folder = folder
        self._lasts = lasts


def index_of(
    corpus: Corpus,
    retriever: str,
    params: Mapping[str, object],
    build: Callable[[Path], None],
    opened: Callable[[Path], Opened],
) -> tuple[Index, Opened]:
    """The index of a corpus: the one that is kept, else what `build` writes into a fresh folder.

    With it comes what `opened` makes of the folder, before another process can remove it.

    `params` are all that the index depends on beside the corpus and `retriever`, versions too. A
    corpus that cannot be recognised (see Corpus.fingerprint) gets a folder for the moment.
    Raises UsageError for a full disk and a folder that cannot be written.
    """
    fingerprint = corpus.fingerprint()
    if fingerprint is None:
        temporary = temporary_folder("index")
        with disk_errors(Path(temporary.name), "set TMPDIR to a folder that can be written"):
            build(Path(temporary.name))
        return Index(Path(temporary.name), temporary), opened(Path(temporary.name))
    bound = _bound()  # a wrong one is said before a long build
    made_of = json.dumps([fingerprint, retriever, params], sort_keys=True)
    digest = hashlib.blake2b(made_of.encode(), digest_size=12).hexdigest()
    target = folder() / f"{retriever}-{digest}"
    with disk_errors(folder(), "set HARNESS_HOME to a folder that can be written"):
        target.parent.mkdir(parents=True, exist_ok=True)
        lock = target.with_name(f".{target.name}.lock")
        with locked(lock, lambda: f"another process is at {target}; waiting for it", 0.1):
            remove_leftovers(target.parent, target.name)
            if wrong := _wrong(target):
                _log.warning(f"note: {target}: {wrong}; it is built anew")
            there = shared()
            if wrong is not None and there is not None:
                wrong = _fetched(there, target)
            if wrong is None:
                os.utime(target / _ABOUT)
                return Index(target), opened(target)
            with folder_aside(target) as aside:
                build(aside)
                files = {path.relative_to(aside).as_posix(): path for path in _files(aside)}
                record = IndexRecord(
                    retriever=retriever,
                    params=dict(params),
                    documents=len(corpus),
                    files={
                        name: IndexFile(bytes=path.stat().st_size, crc32=_checksum(path))
                        for name, path in files.items()
                    },
                )
                record = replace(record, crc32=_crc32(record))
                write_json_record(aside / _ABOUT, record)
            if there is not None:
                there.put(target, f"indexes/{target.name}", _ABOUT)
            _keep_bound(target, bound)
            return Index(target), opened(target)


def _fetched(there: Shared, target: Path) -> str | None:
    """Take an index from what machines share, if it is whole there; as `_wrong` says it."""
    name = f"indexes/{target.name}"
    if not there.has(name, _ABOUT):
        return ""
    try:
        with folder_aside(target) as aside:
            there.get(name, aside)
            if wrong := _wrong(aside):
                raise _DamagedError(wrong)
    except _DamagedError as error:
        _log.warning(f"note: {name} in HARNESS_SHARED: {error}; it is built anew")
        there.remove(name, _ABOUT)
        return ""
    return None


class _DamagedError(Exception):
    """An index that was fetched is not whole."""


def folder() -> Path:
    """Where the indexes are."""
    return home() / "indexes"


def cached_indexes() -> list[CachedIndex]:
    """The cached indexes, the last used first."""
    found = []
    for path in folder().glob("[!.]*"):
        with suppress(FileNotFoundError):  # another process may remove it meanwhile
            found += [_look(path)] if path.is_dir() else []
    return sorted(found, key=lambda one: -one.used)


def clear(name: str = "") -> list[CachedIndex]:
    """Remove one index, or all that can be built again; returns what was removed.

    What a system took in may have cost money: it is removed where it is named.

    Raises UsageError for a name that there is not.
    """
    known = cached_indexes()
    chosen = [
        one
        for one in known
        if name in (one.name, one.retriever) or (not name and not one.name.startswith(INGESTED))
    ]
    if name and not chosen:
        names = [one.name for one in known] or ["none"]
        raise UsageError(f"no index {name!r} is kept{near(name, names)}")
    for one in chosen:
        _remove(folder() / one.name)
    _remove_all_leftovers()
    return chosen


def verify() -> list[CachedIndex]:
    """What is kept, each read whole and held against its checksums."""
    return [
        CachedIndex(**{**asdict(one), "damaged": _wrong(folder() / one.name) or one.damaged})
        for one in cached_indexes()
    ]


def _wrong(target: Path) -> str | None:
    """What is wrong with an index, empty where there is none; None where it is whole."""
    if not target.is_dir():
        return ""
    try:
        record = read_json_record(target / _ABOUT, IndexRecord)
    except UsageError:
        return f"{_ABOUT} is missing or damaged"
    if record.crc32 != _crc32(record):
        return f"{_ABOUT} is damaged (its checksum is another)"
    for name, file in record.files.items():
        path = target / name
        if not path.is_file() or path.stat().st_size != file.bytes:
            return f"{name} is missing or cut"
        if _checksum(path) != file.crc32:
            return f"{name} is damaged (its checksum is another)"
    return None


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _checksum(path: Path) -> int:
    """CRC-32 over the checksums of the file's pieces, which two threads work out."""
    pieces = range(0, path.stat().st_size, _PIECE)
    with open(path, "rb") as file:
        number = file.fileno()
        with ThreadPoolExecutor(2) as pool:
            sums = pool.map(lambda at: zlib.crc32(os.pread(number, _PIECE, at)), pieces)
            return zlib.crc32(b"".join(one.to_bytes(4, "little") for one in sums))


def _crc32(record: IndexRecord) -> int:
    """CRC-32 of all fields but `crc32`."""
    return zlib.crc32(msgspec.json.encode(replace(record, crc32=0), order="sorted"))


def _look(path: Path) -> CachedIndex:
    about = path / _ABOUT
    used = (about if about.is_file() else path).stat().st_mtime
    size = sum(file.stat().st_size for file in _files(path))
    try:
        record = read_json_record(about, IndexRecord)
        return CachedIndex(path.name, record.retriever, record.params, record.documents, size, used)
    except UsageError:
        return CachedIndex(path.name, path.name.rpartition("-")[0], {}, 0, size, used, _ABOUT)


def _bound() -> float:
    """Bytes that all indexes together may take."""
    given = os.environ.get("HARNESS_INDEX_GB", str(_BOUND))
    try:
        bound = float(given)
    except ValueError:
        bound = -1.0
    if not 0 <= bound < float("inf"):
        raise UsageError(f"HARNESS_INDEX_GB must be a number of 0 or more, not {given!r}")
    return bound * _GIGABYTE


def _keep_bound(newest: Path, bound: float) -> None:
    """Remove what was used longest ago until all fit, but never the newest, nor what was paid."""
    _remove_all_leftovers()
    known = [one for one in cached_indexes() if not one.name.startswith(INGESTED)]
    total = sum(one.bytes for one in known)
    for one in reversed(known):
        if total > bound and one.name != newest.name:
            _remove(folder() / one.name)
            total -= one.bytes


def _remove_all_leftovers() -> None:
    """What killed processes left of any index that nobody is at now."""
    from filelock import FileLock, Timeout

    left = [*folder().glob(".*.new"), *folder().glob(".*.old")]
    for name in {path.name[1:].rsplit(".", 2)[0] for path in left}:
        with suppress(Timeout), FileLock(folder() / f".{name}.lock", timeout=0):
            remove_leftovers(folder(), name)


def _remove(path: Path) -> None:
    from filelock import FileLock, Timeout

    # Renamed first: nobody opens what is half removed. Who has it open reads on.
    with (
        suppress(Timeout, FileNotFoundError),  # who is just opening it needs it; gone is gone
        FileLock(path.with_name(f".{path.name}.lock"), timeout=1),
    ):
        discard(path)
