"""Numbered lines of text files (plain, gzip, or in a zip archive), and documents read from them."""

from __future__ import annotations

import errno
import gzip
import lzma
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from harness.errors import UsageError, require_regular
from harness.runfiles.raw import BYTE_ORDER_MARK, refuse_a_bomb, refuse_without_end

_BLOCK_BYTES = 1 << 18
_DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, NotImplementedError, OSError)
_NOT_OF_THE_DISK = (None, errno.EINVAL)  # gzip and bz2 errors; invalid seeks


@dataclass(frozen=True)
class TextFile:
    """A UTF-8 text file; `member` is its name if `path` is a zip archive.

    `unit` is the name of its records in errors, if they are not lines.
    """

    path: Path
    member: str = ""
    unit: str = "line"

    def __str__(self) -> str:
        return str(self.path / self.member)

    def error(self, line: int, what: str) -> UsageError:
        """Returns a UsageError that points at a line, counted from 1."""
        return UsageError(f"{self.place(line)}: {what}")

    def place(self, line: int) -> str:
        """Formats the file and a line, counted from 1."""
        return f"{self}:{line}" if self.unit == "line" else f"{self}, {self.at(line)}"

    def at(self, line: int) -> str:
        """Formats `line 3`, for errors that mention a second line."""
        return f"{self.unit} {line}"

    def blocks(self) -> Iterator[tuple[int, list[bytes]]]:
        """Yields blocks of whole lines: the number of the first line, and the lines.

        Line feeds are removed. Raises UsageError for a missing file, a damaged or truncated
        archive, an implausible expansion, and a line of more than 268 MB.
        """
        first, rest, size = 1, [b""], 0
        try:
            with ExitStack() as stack:
                stream = self._open(stack)
                packed, read = self.path.stat().st_size, 0
                block = stream.read(_BLOCK_BYTES).removeprefix(BYTE_ORDER_MARK)
                while block:
                    *lines, last = block.split(b"\n")
                    if lines:
                        lines[0] = b"".join([*rest, lines[0]])
                        yield first, lines
                        first, rest, size = first + len(lines), [], 0
                    rest.append(last)
                    size += len(last)
                    refuse_without_end(self.place(first), size)
                    block = stream.read(_BLOCK_BYTES)
                    read += len(block)
                    if not self.member:  # a zip archive states the size of its members
                        refuse_a_bomb(self, read, packed)
        except FileNotFoundError:
            raise UsageError(f"{self}: no such file") from None
        except IsADirectoryError:
            raise UsageError(f"{self}: is a folder, not a file") from None
        except _DAMAGED as error:
            if isinstance(error, OSError) and error.errno not in _NOT_OF_THE_DISK:
                raise
            raise UsageError(
                f"{self}: damaged or truncated archive ({error}); download it again"
            ) from None
        if whole := b"".join(rest):
            yield first, [whole]

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yields decoded lines with their numbers, without line ends and blank lines.

        A byte-order mark at the start of a line, left by concatenating files, is removed.
        """
        for first, lines in self.blocks():
            for number, line in enumerate(lines, first):
                text = self.decode(number, line.removeprefix(BYTE_ORDER_MARK))
                if text:
                    yield number, text

    def raw_lines(self) -> Iterator[tuple[int, bytes]]:
        """Yields undecoded lines with their numbers, without blank lines."""
        for first, lines in self.blocks():
            for number, line in enumerate(lines, first):
                if line.strip():
                    yield number, line

    def decode(self, number: int, line: bytes) -> str:
        """Decodes a line and removes a trailing carriage return. Raises UsageError."""
        try:
            return line.decode().removesuffix("\r")
        except UnicodeDecodeError as error:
            byte = line[error.start]
            raise self.error(
                number, f"byte 0x{byte:02x} is not UTF-8; convert the file to UTF-8"
            ) from None

    def _open(self, stack: ExitStack) -> IO[bytes]:
        require_regular(self.path)
        if self.member:
            archive = stack.enter_context(zipfile.ZipFile(self.path))
            return stack.enter_context(archive.open(self.member))
        if self.path.suffix == ".gz":
            return cast(IO[bytes], stack.enter_context(gzip.open(self.path, "rb")))
        return stack.enter_context(open(self.path, "rb"))


@dataclass(frozen=True)
class DocumentBatch:
    """A batch of plain documents as columns of equal length, used for large corpora.

    `lines` holds the line of each document in the file.
    """

    lines: Sequence[int]
    ids: list[str]
    texts: list[str]
    titles: list[str | None] | None = None
