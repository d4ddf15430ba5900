"""On-disk cache of indexes.

An index is a folder in `indexes` of the cache folder. Its name is a digest of the documents and
their order, the retriever, the parameters that affect the index, and the versions of both. It is
built in a temporary folder under a lock and renamed when complete; its files are checked whenever
it is opened. An index that is damaged or of an older version is rebuilt with a note.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from harness.datasets.registry import home
from harness.errors import RunError, UsageError, suggest
from harness.io.checksums import (
    ChecksummedRecord,
    block_digest,
    read_with_checksums,
    write_with_checksums,
)
from harness.io.files import (
    TemporaryFolder,
    discard,
    disk_errors,
    folder_aside,
    replace_folder,
    sweep,
)
from harness.io.records import Record
from harness.retrievers import calls
from harness.retrievers.calls import await_result
from harness.retrievers.contract import Corpus, Retriever
from harness.retrievers.locks import locked

if TYPE_CHECKING:
    from harness.datasets.remote_store import Shared

_log = logging.getLogger(__name__)

Opened = TypeVar("Opened")
INGESTED = "ingested-"
"""Name prefix of indexes that a user's system saved, which may have cost money."""

_ABOUT = "index.json"
_GIGABYTE = 10**9
_BOUND = 50
"""Default limit of the total size of all indexes in gigabytes; set by HARNESS_INDEX_GB."""


@dataclass(frozen=True)
class CachedIndex:
    """An index in the cache; `damaged` describes its damage, if any."""

    name: str
    retriever: str
    params: Mapping[str, object]
    documents: int
    bytes: int
    used: float
    damaged: str = ""


class IndexFile(Record):
    """Size and block digest of a file of an index."""

    bytes: int
    digest: str


class IndexRecord(ChecksummedRecord):
    """The file index.json of an index."""

    retriever: str
    params: dict[str, object]
    documents: int
    files: dict[str, IndexFile]


class IndexFolder:
    """The folder of an index; a temporary one is removed with this object."""

    def __init__(self, folder: Path, lasts: TemporaryDirectory[str] | None = None) -> None:
        self.folder = folder
        self._lasts = lasts


def index_of(
    corpus: Corpus,
    retriever: str,
    params: Mapping[str, object],
    build: Callable[[Path], None],
    opened: Callable[[Path], Opened],
) -> tuple[IndexFolder, Opened]:
    """Returns the cached index of a corpus, else one that `build` writes to a new folder.

    Also returns the result of `opened(folder)`, called before another process can remove it.

    `params` are all further dependencies of the index, including versions. A corpus without a
    fingerprint (see Corpus.fingerprint) gets a temporary folder. Raises UsageError for a full disk
    and a folder that cannot be written.
    """
    fingerprint = corpus.fingerprint()
    if fingerprint is None:
        temporary = TemporaryFolder("index")
        with disk_errors(Path(temporary.name), "set TMPDIR to a folder that can be written"):
            build(Path(temporary.name))
        return IndexFolder(Path(temporary.name), temporary), opened(Path(temporary.name))
    bound = _bound()  # reports an invalid limit before a long build
    made_of = json.dumps([fingerprint, retriever, params], sort_keys=True)
    digest = hashlib.blake2b(made_of.encode(), digest_size=12).hexdigest()
    target = folder() / f"{retriever}-{digest}"
    with disk_errors(folder(), "set HARNESS_HOME to a folder that can be written"):
        target.parent.mkdir(parents=True, exist_ok=True)
        lock = target.with_name(f".{target.name}.lock")
        with locked(lock, lambda: f"another process is at {target}; waiting for it", 0.1):
            sweep(target.parent, again=True)
            if _is_complete(target, str(target)):
                os.utime(target / _ABOUT)
                return IndexFolder(target), opened(target)
            store = _shared_store()
            if store is None or not _fetch(store, target):
                with folder_aside(target) as aside:
                    build(aside)
                    files = {
                        path.relative_to(aside).as_posix(): IndexFile(
                            bytes=path.stat().st_size, digest=block_digest(path)
                        )
                        for path in _files(aside)
                    }
                    record = IndexRecord(
                        retriever=retriever, params=dict(params), documents=len(corpus), files=files
                    )
                    write_with_checksums(aside / _ABOUT, record)
                if store is not None:
                    store.put(target, f"indexes/{target.name}", _ABOUT)
                _keep_bound(target, bound)
            return IndexFolder(target), opened(target)


def _shared_store() -> Shared | None:
    if "HARNESS_SHARED" not in os.environ:
        return None
    from harness.datasets.remote_store import shared

    return shared()


def _fetch(store: Shared, target: Path) -> bool:
    """Copies an index from the shared store; returns whether it had a complete one."""
    name = f"indexes/{target.name}"
    if not store.has(name, _ABOUT):
        return False
    with TemporaryFolder("fetch", target.parent) as aside:
        store.get(name, Path(aside))
        if _is_complete(Path(aside), f"{name} in HARNESS_SHARED"):
            replace_folder(Path(aside), target)
            return True
    store.remove(name, _ABOUT)
    return False


def _is_complete(target: Path, name: str) -> bool:
    """Tests whether an index exists and is undamaged; logs its damage."""
    fault = _fault(target)
    if fault:
        _log.warning(f"note: {name}: {fault}; it is built again")
    return not fault and target.is_dir()


def folder() -> Path:
    """Returns the folder of all indexes."""
    return home() / "indexes"


def cached_indexes() -> list[CachedIndex]:
    """Lists the cached indexes, the most recently used first."""
    found = []
    for path in folder().glob("[!.]*"):
        with suppress(FileNotFoundError):  # another process may remove it meanwhile
            found += [_look(path)] if path.is_dir() else []
    return sorted(found, key=lambda one: -one.used)


def clear(name: str = "") -> list[CachedIndex]:
    """Removes the named indexes, or all that can be rebuilt; returns them.

    Indexes saved by a user's system may have cost money, so they are only removed by name.

    Raises UsageError for an unknown name.
    """
    known = cached_indexes()
    chosen = [
        one
        for one in known
        if name in (one.name, one.retriever) or (not name and not one.name.startswith(INGESTED))
    ]
    if name and not chosen:
        names = [one.name for one in known] or ["none"]
        raise UsageError(f"no index {name!r} is cached{suggest(name, names)}")
    for one in chosen:
        _remove(folder() / one.name)
    sweep(folder(), again=True)
    return chosen


def verify() -> list[CachedIndex]:
    """Lists the cached indexes after checking all their files."""
    return [
        replace(one, damaged=_fault(folder() / one.name) or one.damaged) for one in cached_indexes()
    ]


def _fault(target: Path) -> str:
    """Returns the damage of an index; empty if it is valid or missing."""
    if not target.is_dir():
        return ""
    try:
        record = read_with_checksums(target / _ABOUT, IndexRecord, required=True)
    except UsageError:
        return f"{_ABOUT} is missing, damaged or of another version"
    for name, file in record.files.items():
        path = target / name
        if not path.is_file() or path.stat().st_size != file.bytes:
            return f"{name} is missing or cut"
        if block_digest(path) != file.digest:
            return f"{name} is damaged (its checksum is another)"
    return ""


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _look(path: Path) -> CachedIndex:
    about = path / _ABOUT
    used = (about if about.is_file() else path).stat().st_mtime
    size = sum(file.stat().st_size for file in _files(path))
    try:
        record = read_with_checksums(about, IndexRecord, required=True)
        return CachedIndex(path.name, record.retriever, record.params, record.documents, size, used)
    except UsageError:
        return CachedIndex(path.name, path.name.rpartition("-")[0], {}, 0, size, used, _ABOUT)


def _bound() -> float:
    """Returns the limit of the total size of all indexes, in bytes."""
    given = os.environ.get("HARNESS_INDEX_GB", str(_BOUND))
    try:
        bound = float(given)
    except ValueError:
        bound = -1.0
    if not 0 <= bound < float("inf"):
        raise UsageError(f"HARNESS_INDEX_GB must be a number of 0 or more, not {given!r}")
    return bound * _GIGABYTE


def _keep_bound(newest: Path, bound: float) -> None:
    """Removes the least recently used indexes until all fit, except `newest` and ingested ones."""
    sweep(folder(), again=True)
    known = [one for one in cached_indexes() if not one.name.startswith(INGESTED)]
    total = sum(one.bytes for one in known)
    for one in reversed(known):
        if total > bound and one.name != newest.name:
            _remove(folder() / one.name)
            total -= one.bytes


def _remove(path: Path) -> None:
    from filelock import FileLock, Timeout

    # Renamed before removal, so that no process opens a partial index; open files stay readable.
    with (
        suppress(Timeout, FileNotFoundError),  # in use, or already removed
        FileLock(path.with_name(f".{path.name}.lock"), timeout=1),
    ):
        discard(path)


def ingest_in_own_store(retriever: Any, corpus: Corpus, name: str, require_cached: bool) -> bool:
    """Indexes a corpus unless the system's store has it; returns whether it did so, under a lock.

    A store may report a haystack that a killed run ingested only in part, so it is indexed again
    until `index` has returned once.
    """
    calls.release(retriever)  # avoids a deadlock with a process that waits here
    folder().mkdir(parents=True, exist_ok=True)
    lock = folder() / f".ingesting-{name}.lock"
    begun = folder() / f".ingesting-{name}.begun"
    note = "waiting for another process that is ingesting the same haystack"
    with locked(lock, lambda: note):
        if _asked(retriever, name, corpus):
            if not begun.exists():
                return False
            _log.warning(
                f"note: the system says that it has a haystack of {len(corpus):,} documents, whose "
                "`index` did not return before; it is indexed again"
            )
        if require_cached:
            raise RunError(_not_kept(corpus))
        begun.touch()
        calls.index(retriever, corpus)
        begun.unlink()
        return True


def key(retriever: Retriever, corpus: Corpus, system: Mapping[str, object]) -> str:
    """Returns the hexadecimal key of this system's index of a corpus."""
    made_of = {"corpus": corpus.key.hex(), "system": _of_index(retriever, system)}
    plain = json.dumps(made_of, sort_keys=True, default=str)
    return hashlib.blake2b(plain.encode(), digest_size=16).hexdigest()


def _of_index(retriever: Retriever, system: Mapping[str, object]) -> dict[str, object]:
    """Returns the system without the parameters that only affect `search`."""
    free = set(getattr(retriever, "search_params", ()))
    set_params = getattr(type(retriever), "set_params", None)
    if set_params is not None:
        free |= set(inspect.signature(set_params).parameters)
    params = system.get("params")
    kept = params.items() if isinstance(params, Mapping) else ()
    return {**system, "params": {name: value for name, value in kept if name not in free}}


def _asked(retriever: Any, name: str, corpus: Corpus) -> bool:
    wants = len(inspect.signature(retriever.has_index).parameters)
    return bool(
        await_result(retriever.has_index(name, corpus) if wants > 1 else retriever.has_index(name))
    )


def ingest_and_save(
    retriever: Any, corpus: Corpus, system: Mapping[str, object], require_cached: bool
) -> bool:
    """Loads the cached index, else indexes and saves; returns whether it indexed."""
    now = False

    def build(aside: Path) -> None:
        nonlocal now
        if require_cached:
            raise RunError(_not_kept(corpus))
        calls.index(retriever, corpus)
        now = True
        await_result(retriever.save(aside))

    def opened(whole: Path) -> None:
        if not now:
            loaded = await_result(retriever.load(whole))
            if loaded is not None and loaded is not retriever:
                raise TypeError("load(folder) must load into the object that it is called on")

    about = {"key": key(retriever, corpus, system), "system": system.get("name", "")}
    name = INGESTED + "".join(c if c.isalnum() else "-" for c in str(about["system"]))[-40:]
    try:
        index_of(corpus, name, about, build, opened)
    except Exception as error:
        if not now:
            raise
        # The index works and may have cost money, so failing to save it is only logged.
        _log.warning(f"note: the ingested haystack could not be saved: {error}")
    return now


def _not_kept(corpus: Corpus) -> str:
    return (
        f"--require-cached-index: a haystack of {len(corpus):,} documents has no cached index of "
        "this system with these parameters; run without --require-cached-index to build it"
    )
