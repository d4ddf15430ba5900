"""A file of a log that is followed: how far it was read, and by what it is known again."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.online.logs.read import PACKED, blocks

HEAD = 512
"""First bytes by which a file is known again."""

Key = tuple[int, int]
"""Device and inode of a file."""

_BLOCK = 1 << 20


@dataclass
class LogFile:
    """How far a file was read. `head` is a digest of its first `head_bytes`."""

    name: str
    offset: int = 0
    line: int = 1
    head_bytes: int = 0
    head: str = ""
    seen: int = -1  # its size on disk at the last look
    whole: bool = False  # it was read to its end then

    def is_at(self, path: Path, descriptor: int | None = None) -> bool:
        """Whether a file begins with the bytes of this one, and is as long as was read of it."""
        try:
            stat = path.stat() if descriptor is None else os.fstat(descriptor)
            if not is_packed(path) and stat.st_size < self.offset:
                return False
            head = head_of(path, self.head_bytes, descriptor)
        except (OSError, UsageError):
            return False
        return hashlib.sha256(head).hexdigest() == self.head if self.head_bytes else True

    def know(self, path: Path, descriptor: int | None = None) -> None:
        """Keep the digest of its first bytes, until there are enough of them."""
        if self.head_bytes < HEAD:
            head = head_of(path, HEAD, descriptor)
            self.head_bytes, self.head = len(head), hashlib.sha256(head).hexdigest()


def begun(path: Path) -> LogFile:
    """A file by its first bytes alone, none of which is read."""
    file = LogFile(path.name)
    with suppress(OSError, UsageError):  # of one that cannot be read nothing is known
        file.know(path)
    return file


def key_of(path: Path) -> Key:
    """Of a file by its name. Raises OSError."""
    return as_key(path.stat())


def as_key(stat: os.stat_result) -> Key:
    """Of a file by what the system says of it."""
    return stat.st_dev, stat.st_ino


def is_packed(path: Path) -> bool:
    """By its name."""
    return path.suffix in PACKED


def head_of(path: Path, n: int, descriptor: int | None = None) -> bytes:
    """The first `n` bytes, of a packed file those of what is packed."""
    if descriptor is not None:
        return os.pread(descriptor, n, 0)
    if is_packed(path):
        return next(blocks(path), b"")[:n]
    with open(path, "rb") as file:
        return file.read(n)


def blocks_from(path: Path, offset: int, descriptor: int | None = None) -> Iterator[bytes]:
    """The bytes behind `offset`, of a packed file those of what is packed."""
    if descriptor is not None:
        while block := os.pread(descriptor, _BLOCK, offset):
            yield block
            offset += len(block)
        return
    if is_packed(path):
        for block in blocks(path):
            if offset < len(block):
                yield block[offset:]
            offset = max(0, offset - len(block))
        return
    with open(path, "rb") as file:
        file.seek(offset)
        while block := file.read(_BLOCK):
            yield block
