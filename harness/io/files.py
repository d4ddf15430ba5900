"""Files that are whole or absent (write aside, fsync, rename); JSON and TOML files, checked.

What is being made stands beside its target as `.NAME.RANDOM.new`. A folder that it replaces is
moved to `.NAME.RANDOM.old`, a folder that is being removed to `.NAME.RANDOM.gone`. Whoever makes
one holds a lock on it (flock), which the system releases when the process ends. So one whose lock
is free is abandoned: the next process that writes beside it removes it, or moves an `.old` folder
back if nothing took its place. Where a file system has no locks, it is abandoned after a day.
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
import re
import secrets
import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from harness.errors import UsageError, require_regular

_NAME = re.compile(
    r"(?:\.(?P<name>.+)\.|harness-[a-z]+-)[a-z0-9_]{8}\.(?P<kind>new|old|gone)", re.DOTALL
)
_DAY = 86_400.0
_SPACED_KEY = re.compile(rb'"\s+:')
_NESTED = {dict, list}
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


_NO_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
_DISK_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_DENIED = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR}
_NOT_WRITABLE = _DENIED | {errno.EEXIST}
OF_THE_DISK = _DISK_FULL | _DENIED | _NO_LOCKS | {errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP}
"""Numbers of errors that speak of files and disks, whatever program meets them."""


def fsync_path(path: Path) -> None:
    """Force a file or a folder to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def file_aside(target: Path) -> Iterator[Path]:
    """Yield a path beside `target`; what the block writes there takes its place, whole.

    On any exception it is removed, and `target` stays as it was.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    sweep(target.parent)
    with made_aside(target, Path.touch) as aside:
        try:
            yield aside
            fsync_path(aside)
            os.replace(aside, target)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
    fsync_path(target.parent)


def write_bytes(path: Path, data: bytes) -> None:
    """Write `data` to `path` so that a reader sees the old file or the new one, never a part."""
    with file_aside(path) as aside:
        aside.write_bytes(data)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as indented JSON with sorted keys and a final newline, atomically."""
    import orjson

    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
    write_bytes(path, orjson.dumps(value, option=options | orjson.OPT_SERIALIZE_NUMPY))


def read_json(path: Path) -> Any:
    """Read a JSON file. Raises UsageError that names the file when it is missing or broken, or
    cannot be read."""
    import orjson

    require_regular(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except OSError as error:  # a folder, for instance
        raise UsageError(f"{path}: cannot be read ({error.strerror})") from None
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise UsageError(
            f"{path}: not valid JSON ({error}); the file is truncated or damaged, get it again"
        ) from None


def doubled_key(data: bytes | memoryview, value: Any) -> str | None:
    """A key that stands twice in one object of a JSON text, which is valid; None if there is none.

    `value` is what was read of it. It has as many keys as there are colons after quotation marks
    that are not escaped, unless a key is doubled or a text begins with a colon, or the like; only
    then the text is looked at closely.
    """
    import json

    data = bytes(data)
    colons = data.count(b'":') - data.count(b'\\":') + len(_SPACED_KEY.findall(data))
    if colons == _count_keys(value):
        return None
    doubled: list[str] = []

    def look(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            doubled.extend(name for name in names if names.count(name) > 1)

    try:
        json.loads(data, object_pairs_hook=look, parse_int=str, parse_float=str)
    except RecursionError:
        return "(nested too deep)"
    return doubled[0] if doubled else None


def _count_keys(value: Any) -> int:
    """How many keys a JSON value has, in all its objects."""
    keys, left = 0, [value] if type(value) in _NESTED else []
    while left:  # by hand: a text may be nested deeper than Python calls
        one = left.pop()
        inside = one.values() if isinstance(one, dict) else one
        keys += len(one) if isinstance(one, dict) else 0
        left += [held for held in inside if type(held) in _NESTED]
    return keys


def read_toml(path: Path, option: str = "") -> dict[str, Any]:
    """Read a TOML file.

    Raises UsageError that names it, after `option`, when it is missing or broken, or holds what no
    setting is: integers of more than 64 bits, which TOML does not have, and tables or lists that
    are nested deeper than `DEEPEST`.
    """
    import tomllib

    where = f"{option} {path}".strip()
    require_regular(path)
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{where}: no such file") from None
    except OSError as error:
        raise UsageError(f"{where}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{where}: not valid TOML ({error})") from None
    except ValueError:  # which int() alone raises, of thousands of digits
        raise UsageError(f"{where}: {_TOO_LARGE}") from None
    except RecursionError:
        raise UsageError(f"{where}: {_TOO_DEEP}") from None
    if odd := _beyond(found):
        raise UsageError(f"{where}: {odd}")
    if odd := not_finite(found):
        raise UsageError(f"{where}: {odd}, which nothing can be held against; write a number")
    return found


DEEPEST = 50
"""Tables and lists of a TOML file in each other: whoever reads them calls himself for each."""

_TOO_LARGE = "an integer has more than 64 bits, which TOML does not have; write a smaller one"
_TOO_DEEP = f"tables or lists are nested deeper than {DEEPEST}; take some out"


def _beyond(values: object) -> str:
    """What of a TOML file's values is larger or deeper than any setting; empty where nothing is."""
    left: list[tuple[object, int]] = [(values, 0)]
    while left:  # by hand: dotted keys nest deeper than Python calls
        value, depth = left.pop()
        if isinstance(value, dict | list):
            if depth > DEEPEST:
                return _TOO_DEEP
            inside = value.values() if isinstance(value, dict) else value
            left += [(one, depth + 1) for one in inside]
        elif isinstance(value, int) and not -(2**63) <= value < 2**63:
            return _TOO_LARGE
    return ""


def not_finite(value: Any, name: str = "") -> str:
    """`by is nan`, of the first number in a value that is none, or a whole one beyond 64 bits, at
    any depth; empty without one."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"{name} is {value}"
    if isinstance(value, int) and value.bit_length() > 63:
        return f"{name} is beyond 64 bits"
    if isinstance(value, Mapping):
        parts = ((f"{name}.{key}" if name else str(key), one) for key, one in value.items())
    elif isinstance(value, list | tuple):
        parts = ((name, one) for one in value)
    else:
        return ""
    return next((odd for key, one in parts if (odd := not_finite(one, key))), "")


@contextmanager
def folder_aside(
    target: Path, *, ours: Collection[str] | None = None, keep: Path | None = None
) -> Iterator[Path]:
    """Yield a fresh folder beside `target` that takes its place, whole, when the block succeeds.

    What stood there is moved to `keep`, or removed. With `ours`, the names of what is made anew,
    everything else in it is carried over into the new one. On any exception the fresh folder is
    removed and `target` stays as it was.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    sweep(target.parent)
    with made_aside(target, Path.mkdir) as aside:
        try:
            yield aside
            if ours is not None and target.is_dir():
                _carry_over(target, aside, ours)
            for path in aside.rglob("*"):
                fsync_path(path)
            fsync_path(aside)
            replace_folder(aside, target, keep=keep)
        except BaseException:
            shutil.rmtree(aside, ignore_errors=True)
            raise


def _carry_over(old: Path, new: Path, ours: Collection[str]) -> None:
    """Copy what is not ours; it stays in the old folder until the new one stands whole."""
    for path in old.iterdir():
        if path.name in ours:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.copytree(path, new / path.name, symlinks=True)
        else:
            shutil.copy2(path, new / path.name, follow_symlinks=False)


def replace_folder(new: Path, target: Path, *, keep: Path | None = None) -> None:
    """Rename the folder `new` to `target`; what stood there is moved to `keep`, or removed."""
    if not target.exists():
        os.rename(new, target)
    else:
        old = keep or temporary_path(target, "old")
        old.parent.mkdir(parents=True, exist_ok=True)
        with lock_of(target):
            os.rename(target, old)
            os.rename(new, target)
            if keep is None:
                discard(old)
    fsync_path(target.parent)


def digest(path: Path, algorithm: str = "sha256") -> str:
    """Hexadecimal digest of a file, read in blocks."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


@contextmanager
def disk_errors(folder: Path, remedy: str) -> Iterator[None]:
    """Let what the disk refuses in the block, which writes into `folder` alone, be one line.

    `remedy` says what a person can do where `folder` cannot be written. Raises UsageError for a
    folder that cannot be written, a full disk, and a file elsewhere that may not be read.
    """
    try:
        yield
    except OSError as error:
        if _is_of(folder, error):
            raise UsageError(
                f"{folder}: cannot be written ({os.strerror(error.errno or 0)}): free space there, "
                f"or {remedy}"
            ) from None
        if isinstance(error, PermissionError):
            raise UsageError(
                f"{error.filename}: cannot be read ({error.strerror}): change its permissions"
            ) from None
        raise


def _is_of(folder: Path, error: OSError) -> bool:
    """True when an error is that of the disk under `folder`."""
    if error.errno in _DISK_FULL | _NO_LOCKS:  # comes from a write or a lock, which name no file
        return True
    if not isinstance(error.filename, str):
        return False
    place = Path(error.filename)
    near = place.is_relative_to(folder) or folder.is_relative_to(place)
    return near and (error.errno in _NOT_WRITABLE or not folder.is_dir())
