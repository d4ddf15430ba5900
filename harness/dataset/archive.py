"""Unpacks the archives that raw files come in: whole or not at all, and nowhere else."""

from __future__ import annotations

import errno
import shutil
import stat
import tarfile
import zipfile
import zlib
from lzma import LZMAError
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

from harness.errors import UsageError
from harness.files import folder_aside

# zipfile raises RuntimeError for an encrypted member and for an unknown compression.
_DAMAGED = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    LZMAError,
    EOFError,
    RuntimeError,
)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar (.gz, .bz2, .xz) or zip so that `folder` holds its files and nothing else.

    What stood at `folder` is replaced when all is unpacked; until then, and on any error, it stays
    as it was. Raises UsageError for a missing, damaged or encrypted archive, and for a member that
    is a link, a device, or has a path that leaves the folder: raw data has no use for them.
    """
    if not archive.is_file():
        raise UsageError(f"{archive}: no such file")
    try:
        with folder_aside(folder) as aside:
            if tarfile.is_tarfile(archive):
                _untar(archive, aside)
            else:
                _unzip(archive, aside)
    except _DAMAGED as error:
        raise _damaged(archive, error) from None
    except OSError as error:
        # Decompressors give no number, and zipfile seeks before the file's start: not the disk's.
        if error.errno not in (None, errno.EINVAL):
            raise
        raise _damaged(archive, error) from None


def _damaged(archive: Path, error: Exception) -> UsageError:
    return UsageError(
        f"{archive}: not a tar or zip that can be read ({error}); it is cut off or damaged, get it "
        "again"
    )


def _untar(archive: Path, folder: Path) -> None:
    with tarfile.open(archive) as file:
        for member in file:
            plain = member.isreg() or member.isdir()
            target = _target(archive, folder, member.name, plain=plain)
            content = file.extractfile(member) if member.isreg() else None
            _write(content, target)
        # The checksum stands at the end of the compressed stream, behind what tar reads.
        while file.fileobj is not None and file.fileobj.read(1 << 20):
            pass


def _unzip(archive: Path, folder: Path) -> None:
    with zipfile.ZipFile(archive) as file:
        for member in file.infolist():
            plain = not stat.S_ISLNK(member.external_attr >> 16)
            target = _target(archive, folder, member.filename, plain=plain)
            _write(None if member.is_dir() else file.open(member), target)


def _write(content: IO[bytes] | None, target: Path) -> None:
    """Write a file, or (None) make a folder."""
    if content is None:
        target.mkdir(parents=True, exist_ok=True)
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with content, open(target, "wb") as file:
        shutil.copyfileobj(content, file, 1 << 20)


def _target(archive: Path, folder: Path, name: str, *, plain: bool) -> Path:
    """Where a member goes. Raises UsageError when that would not be inside `folder`."""
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    absolute = posix.is_absolute() or bool(windows.drive or windows.root)
    if absolute or ".." in posix.parts or ".." in windows.parts:
        raise UsageError(
            f"{archive}: its member {name!r} has a path that leaves the folder it is unpacked in; "
            "the archive is not to be trusted, nothing was unpacked"
        )
    if not plain:
        raise UsageError(
            f"{archive}: its member {name!r} is a link or a device, not a file; nothing was "
            "unpacked: unpack it yourself and give the folder with --source PATH"
        )
    return folder / posix
