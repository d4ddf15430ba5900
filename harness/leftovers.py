"""What a killed process leaves half-made, and who may remove it.

Whatever is made aside, to take its place whole, bears in its name which process makes it:
`.NAME.MACHINE-PID-XXXXXXXX` (a file), with `.new` behind it, `.old` or `.gone` (a folder that is
made, was put aside, or is being removed). Where that process is gone, the next one that writes
there, and every command in its folders, removes it; of another machine's, or before a restart,
where nothing in it has changed for a day.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import shutil
import sys
import tempfile
import time
import uuid
from contextlib import suppress
from functools import cache
from pathlib import Path

_NAME = re.compile(
    r"(?:\.(?P<name>.+)\.|harness-[a-z]+-)(?P<machine>[0-9a-f]{8})-(?P<pid>\d+)-[0-9a-f]{8}"
    r"(?P<kind>\.new|\.old|\.gone|[A-Za-z0-9_]*)"
)
_DAY = 86_400.0
_swept: set[Path] = set()


def mark() -> str:
    """What stands in the name of something half-made by this process."""
    return f"{_machine()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"


def temporary_folder(what: str) -> tempfile.TemporaryDirectory[str]:
    """A folder in the system's place for such, which is removed with the object, or, where the
    process is killed, by a later one; `what` in small letters."""
    sweep(Path(tempfile.gettempdir()))
    return tempfile.TemporaryDirectory(
        prefix=f"harness-{what}-{mark()}", ignore_cleanup_errors=True
    )


def discard(folder: Path) -> None:
    """Remove a folder: gone at once by its name, and whatever happens in time from the disk."""
    gone = folder.with_name(f".gone.{mark()}.gone")
    os.replace(folder, gone)
    shutil.rmtree(gone, ignore_errors=True)


def sweep(folder: Path, *, again: bool = False) -> None:
    """Remove what processes that are gone left half-made in a folder; once a process, or `again`.

    A folder that had been put aside, and whose place is empty, is put back: its process was killed
    before the new one was there. What cannot be removed is left.
    """
    folder = folder.absolute()
    if folder in _swept and not again:
        return
    _swept.add(folder)
    with suppress(OSError):
        for entry in [*os.scandir(folder)]:
            found = _NAME.fullmatch(entry.name)
            if found is not None and _is_left(found, entry):
                _remove(Path(entry.path), found)


def sweep_below(folder: Path) -> None:
    """The same in a folder, those in it and those in them, as the cache has them."""
    if folder.absolute() in _swept:
        return
    sweep(folder)
    for pattern in ("[!.]*", "[!.]*/[!.]*"):
        for path in folder.glob(pattern):
            if path.is_dir():
                sweep(path)


def put_back(old: Path) -> bool:
    """Put a folder back that had been put aside, where its place is empty; whether it was."""
    found = _NAME.fullmatch(old.name)
    if found is None or not found["name"] or (target := old.with_name(found["name"])).exists():
        return False
    os.rename(old, target)
    return True


def _remove(path: Path, found: re.Match[str]) -> None:
    with suppress(OSError):
        if found["kind"] == ".old" and put_back(path):
            return
        if path.is_dir() and not path.is_symlink():
            discard(path)
        else:
            path.unlink()


def _is_left(found: re.Match[str], entry: os.DirEntry[str]) -> bool:
    if found["machine"] == _machine():
        return not _lives(int(found["pid"]))
    path = Path(entry.path)
    inside = path.rglob("*") if entry.is_dir(follow_symlinks=False) else ()
    before = time.time() - _DAY
    if found["kind"] == ".old" and path.lstat().st_ctime >= before:  # when it got that name
        return False
    return all(one.lstat().st_mtime < before for one in (path, *inside))


def _lives(pid: int) -> bool:
    """Whether there is such a process; there may be where the system is not asked."""
    if sys.platform == "win32":  # where a signal of 0 is no question
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


@cache
def _machine() -> str:
    """This machine since it was started, and who sees the same processes."""
    parts = [platform.node(), sys.platform]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
        parts.append(str(os.stat("/proc/self/ns/pid").st_ino))
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:8]
