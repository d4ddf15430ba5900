"""Temporary files and folders, and the removal of those that killed processes left.

What is being made stands beside its target as `.NAME.RANDOM.new`. A folder that it replaces is
moved to `.NAME.RANDOM.old`, a folder that is being removed to `.NAME.RANDOM.gone`. Whoever makes
one holds a lock on it (flock), which the system releases when the process ends. So one whose lock
is free is abandoned: the next process that writes beside it removes it, or moves an `.old` folder
back if nothing took its place. Where a file system has no locks, it is abandoned after a day.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_NAME = re.compile(
    r"(?:\.(?P<name>.+)\.|harness-[a-z]+-)[a-z0-9_]{8}\.(?P<kind>new|old|gone)", re.DOTALL
)
_DAY = 86_400.0
_swept: set[Path] = set()


def temporary_path(target: Path, kind: str = "new") -> Path:
    """Returns a free temporary path beside `target`."""
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.{kind}")


@contextmanager
def made_aside(target: Path, make: Callable[[Path], object]) -> Iterator[Path]:
    """Yields a temporary file or folder beside `target`, locked, which `make` creates empty."""
    path, handle = _create(target, make)
    try:
        yield path
    finally:
        os.close(handle)


@contextmanager
def lock_of(path: Path) -> Iterator[None]:
    """Holds the lock of a file or folder, under whatever name it goes meanwhile."""
    handle = _lock(path)
    try:
        yield
    finally:
        os.close(handle)


class TemporaryFolder(tempfile.TemporaryDirectory[str]):
    """A locked temporary folder that is removed with the object.

    It is in the system's folder for such, or in `folder`. `what` is in small letters.
    """

    def __init__(self, what: str, folder: Path | None = None) -> None:
        sweep(folder or Path(tempfile.gettempdir()))
        prefix = f".{what}." if folder else f"harness-{what}-"
        super().__init__(".new", prefix, folder, ignore_cleanup_errors=True)
        weakref.finalize(self, os.close, _lock(Path(self.name)))


def discard(folder: Path) -> None:
    """Removes a folder: its name disappears at once, its files as soon as possible."""
    gone = temporary_path(folder, "gone")
    os.replace(folder, gone)
    shutil.rmtree(gone, ignore_errors=True)


def sweep(folder: Path, *, again: bool = False) -> None:
    """Removes what is abandoned in a folder, once a process unless `again`.

    What cannot be removed stays.
    """
    folder = folder.absolute()
    if folder in _swept and not again:
        return
    _swept.add(folder)
    with suppress(OSError):
        for entry in [*os.scandir(folder)]:
            if (name := _NAME.fullmatch(entry.name)) is not None:
                with suppress(OSError):
                    _remove_abandoned(Path(entry.path), name)


def sweep_below(folder: Path) -> None:
    """Removes what is abandoned in a folder and in two levels of folders below it."""
    if folder.absolute() in _swept:
        return
    sweep(folder)
    for pattern in ("[!.]*", "[!.]*/[!.]*"):
        for path in folder.glob(pattern):
            if path.is_dir():
                sweep(path)


def _remove_abandoned(path: Path, name: re.Match[str]) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        if not _is_abandoned(path, handle):
            return
        if name["kind"] == "old" and not (target := path.with_name(name["name"])).exists():
            os.rename(path, target)
        elif path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink()
    finally:
        os.close(handle)


def _is_abandoned(path: Path, handle: int) -> bool:
    """Takes the lock if it is free; else, where there are no locks, looks at the age."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        before = time.time() - _DAY
        return all(one.lstat().st_ctime < before for one in (path, *path.rglob("*")))
    return True


def _create(target: Path, make: Callable[[Path], object]) -> tuple[Path, int]:
    """Creates a locked temporary file or folder; returns its path and open handle."""
    while True:
        path = temporary_path(target)
        make(path)
        # Another process may take it for abandoned before it is locked, and remove it.
        with suppress(FileNotFoundError):
            handle = _lock(path)
            if path.exists():
                return path, handle
            os.close(handle)


def _lock(path: Path) -> int:
    """Opens a file or folder and takes its lock, if the file system has locks."""
    handle = os.open(path, os.O_RDONLY)
    with suppress(ImportError, OSError):
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX)
    return handle
