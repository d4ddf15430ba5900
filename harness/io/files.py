"""Atomic writes of files and folders (temporary path, fsync, rename); reads JSON and TOML.

A new file or folder is written as `.NAME.RANDOM.new` in the folder of its target. A folder that it
replaces is moved to `.NAME.RANDOM.old`, a folder to be removed to `.NAME.RANDOM.gone`. The process
holds a lock on it (flock), which the system releases when the process ends. If the lock is free, it
is abandoned: the next process that writes in this folder removes it, or moves an `.old` folder back
if its target is missing. On file systems without locks, it counts as abandoned after a day.
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
from itertools import chain
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
    """Returns a new temporary path in the folder of `target`."""
    return target.with_name(f".{target.name}.{secrets.token_hex(4)}.{kind}")


@contextmanager
def made_aside(target: Path, make: Callable[[Path], object]) -> Iterator[Path]:
    """Yields a locked, empty temporary file or folder, created by `make` next to `target`."""
    path, handle = _create(target, make)
    try:
        yield path
    finally:
        os.close(handle)


@contextmanager
def lock_of(path: Path) -> Iterator[None]:
    """Holds the lock of a file or folder, even if it is renamed."""
    handle = _lock(path)
    try:
        yield
    finally:
        os.close(handle)


class TemporaryFolder(tempfile.TemporaryDirectory[str]):
    """A locked temporary folder that is removed with the object.

    It is in the system's temporary folder, or in `folder`. `what` must be lower case.
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
    """Removes abandoned files in a folder, once per process unless `again`.

    Ignores files that cannot be removed.
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
    """Removes abandoned files in a folder and in two levels of subfolders."""
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
    """Tries to take the lock; without locks, tests whether all files are older than a day."""
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
        # Before it is locked, another process may remove it as abandoned.
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
"""Numbers of errors that concern files and disks."""


def fsync_path(path: Path) -> None:
    """Flushes a file or a folder to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def file_aside(target: Path) -> Iterator[Path]:
    """Yields a temporary path; the file written there atomically replaces `target`.

    On any exception it is removed, and `target` is unchanged.
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
    """Writes `data` to `path` atomically: readers see either the old or the new file."""
    with file_aside(path) as aside:
        aside.write_bytes(data)


def write_json(path: Path, value: Any) -> None:
    """Writes `value` as indented JSON with sorted keys and a final newline, atomically."""
    import orjson

    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
    write_bytes(path, orjson.dumps(value, option=options | orjson.OPT_SERIALIZE_NUMPY))


def read_json(path: Path) -> Any:
    """Reads a JSON file. Raises UsageError, naming the file, if it is missing, invalid or
    unreadable."""
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


def doubled_key(data: bytes | memoryview, value: Any, colons: int | None = None) -> str | None:
    """Returns a key that occurs twice in one object of a valid JSON text; None if there is none.

    `value` is the parsed text, `colons` the number outside its strings, if known; else those after
    unescaped quotation marks. Only if there are more or fewer keys is the text parsed again.
    """
    import json

    if colons is None:
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
        json.loads(bytes(data), object_pairs_hook=look, parse_int=str, parse_float=str)
    except RecursionError:
        return "(nested too deep)"
    return doubled[0] if doubled else None


def _count_keys(value: Any) -> int:
    """Counts the keys of all objects in a JSON value."""
    keys, level = 0, [value]
    while level:  # level by level: values may be nested deeper than Python's recursion limit
        objects = [one for one in level if type(one) is dict]
        keys += sum(map(len, objects))
        lists = [one for one in level if type(one) is list]
        inside = chain.from_iterable([*map(dict.values, objects), *lists])
        level = [held for held in inside if type(held) in _NESTED]
    return keys


def read_toml(path: Path, option: str = "") -> dict[str, Any]:
    """Reads a TOML file.

    Raises UsageError, naming the option and the file, if it is missing or invalid, or has integers
    of more than 64 bits, which TOML does not allow, numbers that are not finite, or tables or lists
    nested deeper than `DEEPEST`.
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
    except ValueError:  # raised only by int(), for thousands of digits
        raise UsageError(f"{where}: {_TOO_LARGE}") from None
    except RecursionError:
        raise UsageError(f"{where}: {_TOO_DEEP}") from None
    if odd := _beyond(found):
        raise UsageError(f"{where}: {odd}")
    if odd := not_finite(found):
        raise UsageError(f"{where}: {odd}, which nothing can be compared with; write a number")
    return found


DEEPEST = 50
"""Maximum nesting of tables and lists in a TOML file; limits the recursion of its readers."""

_TOO_LARGE = "an integer has more than 64 bits, which TOML does not have; write a smaller one"
_TOO_DEEP = f"tables or lists are nested deeper than {DEEPEST}; take some out"


def _beyond(values: object) -> str:
    """Describes a value of a TOML file that is too large or too deep; empty if there is none."""
    left: list[tuple[object, int]] = [(values, 0)]
    while left:  # iterative: dotted keys may exceed Python's recursion limit
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
    """Describes the first number in a value, at any depth, that is not finite or beyond 64 bits,
    for example `by is nan`; empty without one."""
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
    """Yields a temporary folder that atomically replaces `target` when the block succeeds.

    The old folder is moved to `keep`, or removed. With `ours`, the names of the files that the
    block writes, all other files of the old folder are copied to the new one. On any exception the
    temporary folder is removed and `target` is unchanged.
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
    """Copies all files except `ours`; they stay in the old folder until it is replaced."""
    for path in old.iterdir():
        if path.name in ours:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.copytree(path, new / path.name, symlinks=True)
        else:
            shutil.copy2(path, new / path.name, follow_symlinks=False)


def replace_folder(new: Path, target: Path, *, keep: Path | None = None) -> None:
    """Renames the folder `new` to `target`; the old folder is moved to `keep`, or removed."""
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
    """Returns the hexadecimal digest of a file, read in blocks."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


@contextmanager
def disk_errors(folder: Path, remedy: str) -> Iterator[None]:
    """Converts disk errors in the block, which writes only to `folder`, to UsageError.

    `remedy` is the advice if `folder` cannot be written. Raises UsageError for a folder that cannot
    be written, a full disk, and a file elsewhere that may not be read.
    """
    try:
        yield
    except OSError as error:
        if _is_of(folder, error):
            advice = f"free space there, or {remedy}" if error.errno in _DISK_FULL else remedy
            raise UsageError(
                f"{folder}: cannot be written ({os.strerror(error.errno or 0)}): {advice}"
            ) from None
        if isinstance(error, PermissionError):
            raise UsageError(
                f"{error.filename}: cannot be read ({error.strerror}): change its permissions"
            ) from None
        raise


def _is_of(folder: Path, error: OSError) -> bool:
    """Tests whether an error concerns the disk of `folder`."""
    if error.errno in _DISK_FULL | _NO_LOCKS:  # from a write or a lock; has no file name
        return True
    if not isinstance(error.filename, str):
        return False
    place = Path(error.filename)
    near = place.is_relative_to(folder) or folder.is_relative_to(place)
    return near and (error.errno in _NOT_WRITABLE or not folder.is_dir())
