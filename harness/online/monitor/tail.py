"""Reads on in a log that is being written, through rotation and restarts: nothing twice.

A file is known by its inode and its first bytes, not by its name. So one that is renamed
(app.log -> app.log.1) is read to its end and no further; one that is compressed or copied before it
is emptied (copytruncate) is recognised by its first bytes, and read on from where it was left. The
position is kept in the monitor's state together with the numbers: after a crash both are of the
same moment.

A file that may still be written, or of which something is left to be read, is held open from the
moment at which it is seen, and the folder is looked through while a long one is read too. So what a
rotation that keeps few files removes, while this lags behind, is read to its end all the same.
(Not on Windows, where nobody could rename what is open.)

What cannot be had: what was written after the last look into a file that was then emptied without a
copy, or removed while nobody followed, and files that came and went between two looks. That is said
when it may have happened: the file that was the last one is gone, or begins otherwise.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from harness.errors import UsageError
from harness.online.logs.field_mapping import FieldMapping
from harness.online.logs.read import BOM, LogParser, by_age, is_log, split
from harness.online.monitor.log_file import (
    HEAD,
    Key,
    LogFile,
    as_key,
    begun,
    blocks_from,
    head_of,
    is_packed,
    key_of,
)
from harness.online.monitor.monitor import Monitor
from harness.online.monitor.records import FilePosition, LogPosition
from harness.records.run import LogCounts

_LONGEST_LINE = 1 << 24
_LOOK = 0.2  # seconds between two looks through the folder, while a file is read
_MOST_HELD = 256  # files
_LISTINGS = 3  # of a folder in which files are renamed meanwhile, to have seen all of them
_HOLDS = os.name != "nt"
_QUIET = 600.0  # seconds without a change, after which nobody writes into a file any more

_Lost = tuple[LogFile, str]
"""A file that is gone, or begins otherwise, and what is to be said if it is found nowhere else."""


class LogTailer:
    """Follows a log file, or all logs in a folder, into a monitor.

    `notes` gathers what a person should know: files that were begun again, taken for copies, or
    lost. Of a single file, rotated siblings that are there at the very first start are not read.
    Raises UsageError for what is not there, and for a state that followed something else.
    """

    def __init__(
        self, path: str | Path, monitor: Monitor, mapping: FieldMapping | None = None
    ) -> None:
        self.path, self.monitor = Path(path), monitor
        if not self.path.exists():
            raise UsageError(f"{self.path}: no such log file or folder")
        self.parser = LogParser(mapping or FieldMapping())
        self.notes: list[str] = []
        self._known: dict[Key, LogFile] = {}
        self._ignored: dict[Key, LogFile] = {}
        self._copies: set[str] = set()
        self._held: dict[Key, tuple[Path, int]] = {}  # name when it was opened, descriptor
        weakref.finalize(self, _close, self._held)
        self._last: Key | None = None  # the newest file at the last look
        self._gaps: set[Key] = set()  # such that were gone at the next
        self._reading: Key | None = None
        self._looked = 0.0
        position = monitor.position
        if position is not None:
            self._resume(position)
        elif not self.path.is_dir():
            others = (one for one in self._siblings() if one != self.path)
            self._ignored = {key_of(one): begun(one) for one in others}

    @property
    def counts(self) -> LogCounts:
        """What was read so far, in lines."""
        return self.parser.counts

    def read(self) -> int:
        """Read everything that there is by now; returns how many requests that were."""
        before = self.counts.requests
        try:
            there = self._look()
        except OSError as error:
            self._note(f"{self.path}: cannot be looked through ({error.strerror}); tried again")
            return 0
        lost = [one for key in [*self._held] if key not in there for one in self._ended(key)]
        for key, path, file in self._files(there, lost):
            self._read(key, path, file)
        self.monitor.settle()  # only now, as files of one time are read one after the other
        return self.counts.requests - before

    def _note(self, said: str) -> None:
        if said not in self.notes:
            self.notes.append(said)

    # -- Which files there are ---------------------------------------------------------------------

    def _siblings(self) -> list[Path]:
        """Files by age that may hold lines of this log, the file itself last."""
        if self.path.is_dir():
            return sorted((one for one in self.path.iterdir() if is_log(one)), key=by_age)
        folder, name = self.path.parent, self.path.name
        known = self._known.keys()
        found = []
        for one in folder.iterdir():
            try:
                mine = one.name.startswith(name) or (known and key_of(one) in known)
            except OSError:
                continue  # gone since it was listed
            if mine and one != self.path and one.is_file():
                found.append(one)
        here = [self.path] if self.path.is_file() else []
        return [*sorted(found, key=by_age), *here]

    def _look(self) -> dict[Key, Path]:
        """The files that are there, in the order of their age; what may be lost is held open."""
        self._looked = time.monotonic()
        there: dict[Key, Path] = {}
        for _ in range(_LISTINGS):
            for path in self._siblings():
                with suppress(FileNotFoundError):  # renamed since it was listed
                    there[self._hold(path)] = path
            if all(
                key in there or not self._may_be_there(key)
                for key in [*self._known, *self._ignored]
            ):
                break
        there = dict(sorted(there.items(), key=lambda one: (one[1] == self.path, by_age(one[1]))))
        if self._last is not None and self._last not in there:
            self._gaps.add(self._last)
        self._last = next(reversed(there), None)
        return there

    def _may_be_there(self, key: Key) -> bool:
        """Whether a file that was not listed has only been renamed in that moment."""
        return key not in self._held or os.fstat(self._held[key][1]).st_nlink > 0

    def _hold(self, path: Path) -> Key:
        """Opens a file that may be removed before it is read to its end, or closes one that is
        done; returns its key."""
        stat = path.stat()
        key = as_key(stat)
        known = self._known.get(key)
        done = known is not None and known.offset == stat.st_size
        if done and time.time() - stat.st_mtime > _QUIET:
            self._let_go(key)
            return key
        wanted = _HOLDS and key not in {*self._held, *self._ignored} and not is_packed(path)
        if wanted and len(self._held) < _MOST_HELD:
            with suppress(PermissionError):  # which is said when it is read
                descriptor = os.open(path, os.O_RDONLY)
                key = as_key(os.fstat(descriptor))
                if key in self._held:  # renamed in this moment
                    os.close(descriptor)
                else:
                    self._held[key] = path, descriptor
        return key

    def _let_go(self, key: Key) -> None:
        if key in self._held and key != self._reading:
            os.close(self._held.pop(key)[1])

    def _ended(self, key: Key) -> list[_Lost]:
        """Read a file that was removed, and is held open, to its end; it may come back packed."""
        path, _ = self._held[key]
        file = self._known.get(key) or self._new(key, path, [])
        if file is not None:
            self._known[key] = file
            self._read(key, path, file)
            del self._known[key]
        self._let_go(key)
        gap = key in self._gaps
        self._gaps.discard(key)
        said = (
            f"{path.name}: was the last file at one look and gone at the next; files that came and "
            "went between, if there were any, were not read"
        )
        return [] if file is None else [(file, said if gap else "")]

    def _files(self, there: dict[Key, Path], lost: list[_Lost]) -> list[tuple[Key, Path, LogFile]]:
        """Every file that is to be read on, with how far it was read."""
        for key, file in [*self._known.items()]:
            here = there.get(key)
            if here is None or self._is_at(key, here, file) is False:
                del self._known[key]
                self._let_go(key)
                lines = (
                    f"{file.name}: removed or begun again after byte {file.offset:,}; lines behind "
                    "that, and files that came and went since, if there were any, were not read"
                )
                done = here is None and file.whole and key not in self._gaps
                lost.append((file, "" if done else lines))
                self._gaps.discard(key)
        for key, file in [*self._ignored.items()]:
            # Another file may have its inode by now.
            if key not in there or self._is_at(key, there[key], file) is False:
                del self._ignored[key]
        found: list[tuple[Key, Path, LogFile]] = []
        for key, path in there.items():
            if key in self._ignored:
                continue
            known = self._known.get(key)
            if known is None:
                known = self._new(key, path, lost)
                if known is None:
                    continue
                self._known[key] = known
            known.name = path.name
            found.append((key, path, known))
        for _, said in lost:
            if said:
                self._note(said)
        return found

    def _is_at(self, key: Key, path: Path, file: LogFile) -> bool | None:
        """Whether what is there begins as `file` does, and is as long as was read of it; None where
        it was renamed in this moment."""
        try:
            with self._descriptor(key, path) as descriptor:
                return file.is_at(path, descriptor)
        except OSError:
            return None

    def _in_the_making(self, key: Key, path: Path, of: Key, file: LogFile) -> bool:
        """Whether what is there may become a copy of `file`, and is not whole yet: it is shorter
        than what was read, and as far as it goes it is the same."""
        try:
            with self._descriptor(key, path) as descriptor:
                size = (path.stat() if descriptor is None else os.fstat(descriptor)).st_size
                head = head_of(path, HEAD, descriptor)
        except (OSError, UsageError):  # a packed one that breaks off
            return True
        if is_packed(path):
            return not head
        if size >= file.offset:
            return False
        begins = head_of(path, HEAD, self._held[of][1]) if of in self._held else b""
        return begins[: len(head)] == head

    def _new(self, key: Key, path: Path, lost: list[_Lost]) -> LogFile | None:
        """Where to begin in a file that is not known: another's place, if it is that one."""
        for one in lost:
            file, _ = one
            if file.head_bytes and self._is_at(key, path, file):
                lost.remove(one)
                return LogFile(path.name, file.offset, file.line, file.head_bytes, file.head)
        for of, other in self._known.items():
            copy = other.head_bytes and path.name.startswith(other.name)
            if copy and path.name != other.name and self._in_the_making(key, path, of, other):
                return None  # the next look knows what it is
            if copy and path.name != other.name and self._is_at(key, path, other):
                if path.name not in self._copies:
                    self._copies.add(path.name)
                    self._note(
                        f"{path.name}: begins as {other.name} does, is taken for a copy of it "
                        "and not read"
                    )
                return None
        return LogFile(path.name)

    # -- What is in them ---------------------------------------------------------------------------

    def _read(self, key: Key, path: Path, file: LogFile) -> None:
        rest = b""
        self._reading = key
        try:
            with self._descriptor(key, path) as descriptor:
                size = (path.stat() if descriptor is None else os.fstat(descriptor)).st_size
                if size == file.seen:
                    return
                file.whole = False
                for block in blocks_from(path, file.offset, descriptor):
                    data = rest + block
                    taken = self._take(path, file, data, descriptor)
                    rest = data[taken:]
                    if time.monotonic() - self._looked > _LOOK:
                        with suppress(OSError):
                            self._look()
                file.seen, file.whole = size, not rest.strip()
        except FileNotFoundError:
            return  # renamed just now; the next look finds it
        except (OSError, UsageError) as error:
            self._note(f"{path.name}: cannot be read ({error}); tried again at every look")
        finally:
            self._reading = None

    @contextmanager
    def _descriptor(self, key: Key, path: Path) -> Iterator[int | None]:
        """Of a file, whatever its name is by now; None of one that is read by its name. Raises
        FileNotFoundError where another has the name."""
        if key in self._held:
            yield self._held[key][1]
            return
        if key_of(path) != key:
            raise FileNotFoundError(path)
        if is_packed(path) or not _HOLDS:
            yield None
            return
        descriptor = os.open(path, os.O_RDONLY)
        try:
            if as_key(os.fstat(descriptor)) != key:
                raise FileNotFoundError(path)
            yield descriptor
        finally:
            os.close(descriptor)

    def _take(self, path: Path, file: LogFile, data: bytes, descriptor: int | None) -> int:
        """Take in the whole lines of `data`, which begins at the file's offset; how many bytes."""
        file.know(path, descriptor)
        mark = len(BOM) if file.offset == 0 and data.startswith(BOM) else 0
        found, taken, lines = split(data[mark:])
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

    # -- Where it is -------------------------------------------------------------------------------

    def _position(self) -> LogPosition:
        return LogPosition(
            path=str(self.path.resolve()),
            files=_positions(self._known),
            ignored=_positions(self._ignored),
            counts=replace(self.counts),
        )

    def _resume(self, position: LogPosition) -> None:
        if position.path != str(self.path.resolve()):
            raise UsageError(
                f"the state is of {position.path}, not {self.path}; name another file with --state"
            )
        for one in position.files:
            self._known[one.device, one.inode] = replace(one.file, seen=-1)
        for one in position.ignored:
            self._ignored[one.device, one.inode] = one.file
        self.parser.counts = position.counts


def _positions(files: dict[Key, LogFile]) -> list[FilePosition]:
    return [
        FilePosition(device=device, inode=inode, file=replace(file))
        for (device, inode), file in files.items()
    ]


def _close(held: dict[Key, tuple[Path, int]]) -> None:
    for _, descriptor in held.values():
        os.close(descriptor)
