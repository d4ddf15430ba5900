"""Reads external files: decompressed, without a byte-order mark, with size limits."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.errors import UsageError, require_names, require_regular

LONGEST_LINE = 1 << 28
"""Maximum bytes of a line; limits memory and time for files without line ends."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MARKED = "begins with a byte-order mark: were two files joined? remove the mark"
BOMB_BYTES, BOMB_RATIO = 1 << 30, 200
"""Size in bytes and compression ratio; a file that exceeds both is refused as no text."""

_BLOCK = 1 << 18
csv.field_size_limit(LONGEST_LINE)  # csv's default of 128 KiB is too small for documents


class Unpacked:
    """Stream of a file's bytes, decompressed according to its ending.

    Skips a byte-order mark at the beginning. Reading raises UsageError for decompression bombs, and
    OSError for damaged files.
    """

    def __init__(self, path: Path, stream: Any) -> None:
        """`stream` reads the file `path`."""
        self._path, self._stream = path, stream
        self._packed = path.stat().st_size
        self._head: bytes = stream.read(len(BYTE_ORDER_MARK))
        self._read = len(self._head)
        self._head = self._head.removeprefix(BYTE_ORDER_MARK)

    def read(self, most: int) -> bytes:
        """Reads up to `most` bytes, at least one unless the file has ended."""
        if self._head:
            data, self._head = self._head[:most], self._head[most:]
            return data
        found: bytes = self._stream.read(most)
        self._count(len(found))
        return found

    def readinto(self, buffer: memoryview) -> int:
        """Fills a buffer by one read; returns the number of bytes."""
        if self._head:
            n: int = min(len(self._head), len(buffer))
            buffer[:n], self._head = self._head[:n], self._head[n:]
            return n
        n = self._stream.readinto(buffer)
        self._count(n)
        return n

    def _count(self, n: int) -> None:
        self._read += n
        refuse_a_bomb(self._path, self._read, self._packed)


def refuse_a_bomb(path: object, unpacked: int, packed: int) -> None:
    """Raises UsageError for sizes that exceed BOMB_BYTES and BOMB_RATIO."""
    if unpacked > max(BOMB_BYTES, BOMB_RATIO * packed):
        raise UsageError(
            f"{path}: unpacks to more than {BOMB_RATIO} times its {packed:,} bytes; no text "
            "shrinks so far, so do not use this file"
        )


@contextmanager
def unpacked(path: Path) -> Iterator[Unpacked]:
    """Opens a file for reading. Raises UsageError if it cannot be read."""
    require_names(path)
    require_regular(path)
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            yield Unpacked(path, stream)
    except OSError as error:
        said = " ".join(str(error).split())
        raise UsageError(f"{path}: cannot be read ({said})") from None


def read_bytes(path: Path, most: int | None = None) -> bytes:
    """Reads a file, or its first `most` bytes. Raises UsageError if it cannot be read."""
    parts, left = [], most
    with unpacked(path) as stream:
        while left is None or left > 0:
            data = stream.read(_BLOCK if left is None else min(left, _BLOCK))
            if not data:
                break
            parts.append(data)
            left = None if left is None else left - len(data)
    return b"".join(parts)


def read_lines(path: Path) -> Iterator[bytes]:
    """Yields the lines of a file without line feeds, including an unterminated last line.

    Raises UsageError if the file cannot be read, and for a line longer than LONGEST_LINE.
    """
    number, parts, size = 1, list[bytes](), 0
    with unpacked(path) as stream:
        while data := stream.read(_BLOCK):
            first, *rest = data.split(b"\n")
            parts.append(first)
            size += len(first)
            if rest:
                yield b"".join(parts)
                yield from rest[:-1]
                number, parts, size = number + len(rest), rest[-1:], len(rest[-1])
            refuse_without_end(f"{path}, line {number}", size)
    yield b"".join(parts)


def refuse_without_end(where: str, size: int) -> None:
    """Raises UsageError for a line longer than LONGEST_LINE."""
    if size > LONGEST_LINE:
        raise UsageError(
            f"{where}: goes on for more than {LONGEST_LINE / 1e6:.0f} MB; this is no text of one "
            "record a line"
        )
