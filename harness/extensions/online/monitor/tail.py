"""Follows a log that is being written, through rotation and restarts, and reads no line twice.

A file is identified by its inode and its first bytes: a renamed, compressed or copied file
(copytruncate) continues at the last position. The position is part of the monitor's state, so both
are consistent after a crash. A file that may still be written is kept open, so that it is read to
its end if rotation removes it (not on Windows, where an open file cannot be renamed).

Lost are lines written after the last check to a file that was then truncated without a copy, or
removed while no monitor ran, and files created and removed between two checks; `notes` warns of it.
"""

from __future__ import annotations

import hashlib
import os
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from io import FileIO
from pathlib import Path

from harness.errors import UsageError
from harness.extensions.online.logs.field_mapping import FieldMapping
from harness.extensions.online.logs.read import (
    BOM,
    PACKED,
    LogParser,
    age_key,
    is_log,
    read_blocks,
    split_objects,
)
from harness.extensions.online.monitor.monitor import Monitor
from harness.extensions.online.monitor.records import LogFile, LogPosition
from harness.records.run import LogCounts

_BLOCK = 1 << 20
_END = 1 << 62  # end of a compressed file; its length is unknown
_HEAD = 512  # first bytes that identify a file
_HOLDS = os.name != "nt"
_LISTINGS = 3  # listings of a folder, as files may be renamed meanwhile
_LONGEST_LINE = 1 << 24
_MAX_OPEN = 256
_QUIET = 600.0  # seconds without a change after which a file is closed

_Key = tuple[int, int]
"""Device and inode of a file."""


class LogTailer:
    """Follows a log file, or all logs in a folder, into a monitor.

    `notes` has warnings for the user: files that were truncated, skipped as copies, or lost. For a
    single file, rotated siblings that exist at the very first start are not read. Raises UsageError
    for a missing log, and for a state of another log.
    """

    def __init__(
        self, path: str | Path, monitor: Monitor, mapping: FieldMapping | None = None
    ) -> None:
        self.path, self.monitor = Path(path), monitor
        if not self.path.exists():
            raise UsageError(f"{self.path}: no such log file or folder")
        self.parser = LogParser(mapping or FieldMapping())
        self.notes: list[str] = []
        self._known: dict[_Key, LogFile] = {}
        self._copies: set[str] = set()
        self._open: dict[_Key, FileIO] = {}
        self._newest: _Key | None = None
        weakref.finalize(self, _close_all, self._open)
        if monitor.position is not None:
            self._resume(monitor.position)
        elif not self.path.is_dir():
            for one in self._siblings():
                if one != self.path:
                    key = _key(one.stat())
                    head, size = self._head(key, one)
                    end = _END if one.suffix in PACKED else size
                    found = head or b""
                    self._known[key] = LogFile(
                        *key, one.name, end, 1, len(found), _digest(found), size, True
                    )

    @property
    def counts(self) -> LogCounts:
        """Counts of the lines read so far."""
        return self.parser.counts

    def read(self) -> int:
        """Reads everything available; returns the number of new requests."""
        before = self.counts.requests
        try:
            there = self._list_files()
        except OSError as error:
            self._note(f"{self.path}: cannot be listed ({error.strerror}); will be retried")
            return 0
        for key, path, file in self._files(there):
            self._read(key, path, file)
        self.monitor.settle()  # only now: files with the same times are read in turn
        return self.counts.requests - before

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    # -- Files of the log --------------------------------------------------------------------------

    def _siblings(self) -> list[Path]:
        """Lists files that may have lines of this log, oldest first, the file itself last."""
        if self.path.is_dir():
            return sorted((one for one in self.path.iterdir() if is_log(one)), key=age_key)
        found = []
        for one in self.path.parent.iterdir():
            with suppress(OSError):  # removed since it was listed
                mine = one.name.startswith(self.path.name) or _key(one.stat()) in self._known
                if mine and one != self.path and one.is_file():
                    found.append(one)
        return [*sorted(found, key=age_key), *([self.path] if self.path.is_file() else [])]

    def _list_files(self) -> dict[_Key, Path]:
        """Lists the files by age, and opens those that may be removed."""
        there: dict[_Key, Path] = {}
        for _ in range(_LISTINGS):
            for path in self._siblings():
                with suppress(FileNotFoundError):  # renamed since it was listed
                    there[self._open_file(path)] = path
            # A removed file is not listed again, unlike one that was being renamed.
            removed = {k for k, file in self._open.items() if not os.fstat(file.fileno()).st_nlink}
            if all(key in there or key in removed for key in self._known):
                break
        return dict(sorted(there.items(), key=lambda one: (one[1] == self.path, age_key(one[1]))))

    def _open_file(self, path: Path) -> _Key:
        """Opens a file that may be written or removed, or closes a quiet one; returns its key."""
        stat = path.stat()
        key = _key(stat)
        known = self._known.get(key)
        done = known is not None and known.seen == stat.st_size
        if done and time.time() - stat.st_mtime > _QUIET:
            self._close(key)
        elif _HOLDS and path.suffix not in PACKED and len(self._open) < _MAX_OPEN:
            with suppress(PermissionError):  # reported when it is read
                file = FileIO(path)
                key = _key(os.fstat(file.fileno()))  # it may have been renamed just now
                if key in self._open:
                    file.close()
                else:
                    self._open[key] = file
        return key

    def _close(self, key: _Key) -> None:
        if key in self._open:
            self._open.pop(key).close()

    def _files(self, there: dict[_Key, Path]) -> list[tuple[_Key, Path, LogFile]]:
        """Lists the files to continue reading, with their positions."""
        lost = [key for key in self._open if key not in there and key not in self._known]
        for key in lost:  # removed just after it was first seen
            self._read(key, self.path, LogFile(*key, self.path.name))
            self._close(key)
        gone: list[tuple[LogFile, bool]] = []  # with a flag: lines may have been missed
        for key, file in [*self._known.items()]:
            here = there.get(key)
            if here is not None and self._is_same(key, here, file) is not False:
                continue
            if here is None and key in self._open:
                self._read(key, Path(file.name), file)
            gone.append((file, here is not None or not file.whole or key == self._newest))
            del self._known[key]
            self._close(key)
        self._newest = next(reversed(there), None)
        found: list[tuple[_Key, Path, LogFile]] = []
        for key, path in there.items():
            file_ = self._known.get(key) or self._new(key, path, gone)
            if file_ is not None:
                self._known[key] = file_
                file_.name = path.name
                found.append((key, path, file_))
        for file, missed in gone:
            if missed:
                self._note(
                    f"{file.name}: removed or truncated after byte {file.offset:,}; lines after "
                    "it, or in files removed since, may not have been read"
                )
        return found

    def _new(self, key: _Key, path: Path, gone: list[tuple[LogFile, bool]]) -> LogFile | None:
        """Returns the position of an unknown file: that of a file it continues, else the start.

        None for a complete or partial copy of an existing file.
        """
        for one in gone:
            file, _ = one
            if file.head_bytes and self._is_same(key, path, file):
                gone.remove(one)
                return replace(file, device=key[0], inode=key[1], seen=-1)
        for of, other in self._known.items():
            if not path.name.startswith(other.name) or path.name == other.name:
                continue
            (head, _), (begins, _) = (
                self._head(key, path),
                self._head(of, path.with_name(other.name)),
            )
            if not head or (begins is not None and begins.startswith(head)):
                if head and len(head) >= other.head_bytes and path.name not in self._copies:
                    self._copies.add(path.name)
                    self._note(f"{path.name}: starts like {other.name}, so it is skipped as a copy")
                return None
        return LogFile(*key, path.name)

    def _is_same(self, key: _Key, path: Path, file: LogFile) -> bool | None:
        """Tests whether a file begins like one that was read, and reaches its position.

        None if it cannot be read: it was renamed just now, or is incomplete.
        """
        head, size = self._head(key, path)
        if head is None:
            return None
        if size < file.offset and path.suffix not in PACKED:
            return False
        return not file.head_bytes or _digest(head[: file.head_bytes]) == file.head

    def _head(self, key: _Key, path: Path) -> tuple[bytes | None, int]:
        """Returns the first bytes of a file, None if it cannot be read, and its size."""
        try:
            with self._handle(key, path) as handle:
                size = (path.stat() if handle is None else os.fstat(handle.fileno())).st_size
                return next(_blocks_from(path, 0, handle, _HEAD), b"")[:_HEAD], size
        except (OSError, UsageError):
            return None, 0

    # -- Content of the files ----------------------------------------------------------------------

    def _read(self, key: _Key, path: Path, file: LogFile) -> None:
        rest = b""
        try:
            with self._handle(key, path) as handle:
                stat = path.stat() if handle is None else os.fstat(handle.fileno())
                if stat.st_size == file.seen:
                    return
                file.whole = False
                for block in _blocks_from(path, file.offset, handle):
                    data = rest + block
                    rest = data[self._record(key, path, file, data) :]
                file.seen, file.whole = stat.st_size, not rest.strip()
        except FileNotFoundError:
            return  # renamed just now; the next check finds it
        except (OSError, UsageError) as error:
            self._note(f"{path.name}: cannot be read ({error}); will be retried")

    @contextmanager
    def _handle(self, key: _Key, path: Path) -> Iterator[FileIO | None]:
        """Yields an open file; None for a compressed one. Raises FileNotFoundError if another file
        has its name."""
        if key in self._open:
            yield self._open[key]
        elif _key(path.stat()) != key:
            raise FileNotFoundError(path)
        elif path.suffix in PACKED:
            yield None
        else:
            with FileIO(path) as file:
                if _key(os.fstat(file.fileno())) != key:
                    raise FileNotFoundError(path)
                yield file

    def _record(self, key: _Key, path: Path, file: LogFile, data: bytes) -> int:
        """Records the complete lines of `data`, which begins at the file's offset; returns the
        number of bytes consumed."""
        if file.head_bytes < _HEAD:
            head = self._head(key, path)[0] or b""
            file.head_bytes, file.head = len(head), _digest(head)
        mark = len(BOM) if file.offset == 0 and data.startswith(BOM) else 0
        found, taken, lines = split_objects(data[mark:])
        taken += mark if taken else 0
        if not taken and len(data) > _LONGEST_LINE:
            self.counts.unreadable += 1
            self.counts.first_error = (
                self.counts.first_error or f"{path}, line {file.line}: longer than 16 MB"
            )
            taken = len(data)
        events = [
            one
            for line, text in found
            for one in self.parser.events(str(path), file.line + line, text)
        ]
        file.offset += taken
        file.line += lines
        if taken:
            self.monitor.record_many(events, self._position(), hold=True)
        return taken

    # -- Position in the log -----------------------------------------------------------------------

    def _position(self) -> LogPosition:
        files = [replace(file) for file in self._known.values()]
        path = str(self.path.resolve())
        return LogPosition(path=path, files=files, counts=replace(self.counts))

    def _resume(self, position: LogPosition) -> None:
        if position.path != str(self.path.resolve()):
            raise UsageError(
                f"the state belongs to {position.path}, not {self.path}; name another file with "
                "--state"
            )
        for one in position.files:
            self._known[one.device, one.inode] = replace(one, seen=-1)
        self.parser.counts = position.counts


def _key(stat: os.stat_result) -> _Key:
    return stat.st_dev, stat.st_ino


def _digest(head: bytes) -> str:
    return hashlib.sha256(head).hexdigest()


def _blocks_from(
    path: Path, offset: int, handle: FileIO | None, size: int = _BLOCK
) -> Iterator[bytes]:
    """Yields the bytes of a file after `offset`, decompressed if there is no handle."""
    if handle is not None:
        handle.seek(offset)
        while block := handle.read(size):
            yield block
            handle.seek(offset := offset + len(block))
        return
    for block in read_blocks(path):
        if offset < len(block):
            yield block[offset:]
        offset = max(0, offset - len(block))


def _close_all(files: dict[_Key, FileIO]) -> None:
    for file in files.values():
        file.close()
