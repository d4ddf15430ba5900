"""Reads on in a log that is being written, through rotation and restarts: nothing twice.

A file is known by its inode and its first bytes, not by its name. So one that is renamed
(app.log -> app.log.1) is read to its end and no further; one that is compressed or copied before it
is emptied (copytruncate) is recognised by its first bytes, and read on from where it was left. The
position is kept in the monitor's state together with the numbers: after a crash both are of the
same moment.

What cannot be had: lines that were written after the last look into a file that was then removed,
or emptied without a copy. That is said when it may have happened.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.live.logs.mapping import Mapping
from harness.live.logs.read import BOM, PACKED, Parser, Tally, blocks, by_age, is_log, split
from harness.live.monitor.monitor import Monitor

HEAD = 512
"""First bytes by which a file is known again."""

_BLOCK = 1 << 20
_LONGEST_LINE = 1 << 24


@dataclass
class _File:
    """How far a file was read. `head` is a digest of its first `head_bytes`."""

    name: str
    offset: int = 0
    line: int = 1
    head_bytes: int = 0
    head: str = ""
    seen: int = -1  # its size on disk at the last look


class Follower:
    """Follows a log file, or all logs in a folder, into a monitor.

    `notes` gathers what a person should know: files that were begun again, taken for copies, or
    lost. Of a single file, rotated siblings that are there at the very first start are not read.
    Raises UsageError for what is not there, and for a state that followed something else.
    """

    def __init__(self, path: str | Path, monitor: Monitor, mapping: Mapping | None = None) -> None:
        self.path, self.monitor = Path(path), monitor
        if not self.path.exists():
            raise UsageError(f"{self.path}: no such log file or folder")
        self.parser = Parser(mapping or Mapping())
        self.notes: list[str] = []
        self._known: dict[tuple[int, int], _File] = {}
        self._ignored: set[tuple[int, int]] = set()
        self._copies: set[str] = set()
        position = monitor.position
        if position is not None:
            self._resume(position)
        elif not self.path.is_dir():
            self._ignored = {_id(one) for one in self._siblings() if one != self.path}

    @property
    def tally(self) -> Tally:
        """What was read so far, in lines."""
        return self.parser.tally

    def read(self) -> int:
        """Read everything that there is by now; returns how many recalls that were."""
        before = self.tally.recalls
        for path, file in self._files():
            self._read(path, file)
        self.monitor.settle()  # only now, as files of one time are read one after the other
        return self.tally.recalls - before

    def _siblings(self) -> list[Path]:
        """Files by age that may hold lines of this log, the file itself last."""
        if self.path.is_dir():
            return sorted((one for one in self.path.iterdir() if is_log(one)), key=by_age)
        folder, name = self.path.parent, self.path.name
        known = self._known.keys()
        found = []
        for one in folder.iterdir():
            try:
                mine = one.name.startswith(name) or (known and _id(one) in known)
            except OSError:
                continue  # gone since it was listed
            if mine and one != self.path and one.is_file():
                found.append(one)
        here = [self.path] if self.path.is_file() else []
        return [*sorted(found, key=by_age), *here]

    def _files(self) -> list[tuple[Path, _File]]:
        """Every file that is to be read on, with how far it was read."""
        there: dict[tuple[int, int], Path] = {}
        for path in self._siblings():
            try:
                there[_id(path)] = path
            except FileNotFoundError:
                continue  # renamed since it was listed; the next look finds it
        lost: list[_File] = []
        for key, file in [*self._known.items()]:
            here = there.get(key)
            if here is None or not _same(here, file):
                lost.append(self._known.pop(key))
        found: list[tuple[Path, _File]] = []
        for key, path in there.items():
            if key in self._ignored:
                continue
            known = self._known.get(key)
            if known is None:
                known = self._new(path, lost)
                if known is None:
                    continue
                self._known[key] = known
            known.name = path.name
            found.append((path, known))
        for file in lost:
            self.notes.append(
                f"{file.name}: removed or begun again after byte {file.offset:,}; lines behind "
                "that, if there were any, were not read"
            )
        return found

    def _new(self, path: Path, lost: list[_File]) -> _File | None:
        """Where to begin in a file that is not known: another's place, if it is that one."""
        for file in lost:
            if file.head_bytes and _same(path, file):
                lost.remove(file)
                return _File(path.name, file.offset, file.line, file.head_bytes, file.head)
        for other in self._known.values():
            copy = other.head_bytes and path.name.startswith(other.name)
            if copy and path.name != other.name and _same(path, other):
                if path.name not in self._copies:
                    self._copies.add(path.name)
                    self.notes.append(
                        f"{path.name}: begins as {other.name} does, is taken for a copy of it "
                        "and not read"
                    )
                return None
        return _File(path.name)

    def _read(self, path: Path, file: _File) -> None:
        rest = b""
        try:
            size = path.stat().st_size
            if size == file.seen:
                return
            for block in _blocks_from(path, file.offset):
                data = rest + block
                taken = self._take(path, file, data)
                rest = data[taken:]
            file.seen = size
        except FileNotFoundError:
            return  # renamed just now; the next look finds it
        except (OSError, UsageError) as error:
            said = f"{path.name}: cannot be read ({error}); tried again at every look"
            if said not in self.notes:
                self.notes.append(said)

    def _take(self, path: Path, file: _File, data: bytes) -> int:
        """Take in the whole lines of `data`, which begins at the file's offset; how many bytes."""
        if file.head_bytes < HEAD:
            head = _head(path, HEAD)
            file.head_bytes, file.head = len(head), hashlib.sha256(head).hexdigest()
        mark = len(BOM) if file.offset == 0 and data.startswith(BOM) else 0
        found, taken, lines = split(data[mark:])
        taken += mark if taken else 0
        if not taken and len(data) > _LONGEST_LINE:
            self.tally.unreadable += 1
            self.tally.first = self.tally.first or f"{path}, line {file.line}: longer than 16 MB"
            taken = len(data)
        recalls = [
            one
            for line, text in found
            for one in self.parser.recalls(str(path), file.line + line, text)
        ]
        file.offset += taken
        file.line += lines
        if taken:
            self.monitor.record_many(recalls, self._position(), hold=True)
        return taken

    def _position(self) -> dict[str, Any]:
        return {
            "path": str(self.path.resolve()),
            "files": [[*key, asdict(file)] for key, file in self._known.items()],
            "ignored": sorted(self._ignored),
            "tally": self.tally.as_json(),
        }

    def _resume(self, position: dict[str, Any]) -> None:
        if position.get("path") != str(self.path.resolve()):
            raise UsageError(
                f"the state follows {position.get('path')}, not {self.path}; name another file "
                "with --state"
            )
        for device, inode, file in position["files"]:
            self._known[device, inode] = _File(**{**file, "seen": -1})
        self._ignored = {(device, inode) for device, inode in position["ignored"]}
        self.parser.tally = Tally(**position["tally"])


def _id(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_dev, stat.st_ino


def _packed(path: Path) -> bool:
    return path.suffix in PACKED


def _same(path: Path, file: _File) -> bool:
    """Whether a file begins with the bytes that another did, and is as long as was read of it."""
    try:
        if not _packed(path) and path.stat().st_size < file.offset:
            return False
        head = _head(path, file.head_bytes)
    except (OSError, UsageError):
        return False
    return hashlib.sha256(head).hexdigest() == file.head if file.head_bytes else True


def _head(path: Path, n: int) -> bytes:
    if _packed(path):
        return next(blocks(path), b"")[:n]
    with open(path, "rb") as file:
        return file.read(n)


def _blocks_from(path: Path, offset: int) -> Iterator[bytes]:
    """The bytes behind `offset`, of a packed file those of what is packed."""
    if _packed(path):
        for block in blocks(path):
            if offset < len(block):
                yield block[offset:]
            offset = max(0, offset - len(block))
        return
    with open(path, "rb") as file:
        file.seek(offset)
        while block := file.read(_BLOCK):
            yield block
