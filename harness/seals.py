"""Records that tell whether they, and the files beside them, are still what was written together.

A sealed JSON file has a key `seal`: `files`, the sha256 of each file beside it that belongs to it,
and `record`, that of all else in the record and of these. Whoever reads checks: a flipped bit, a
number changed by hand, or files of two different writings are an error and no number. What is
written by another program has no seal, and is taken as it is where that is said.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.files import digest, read_json, write_json

SEAL = "checksums"
_known: dict[Path, tuple[tuple[int, ...], str]] = {}
"""What files held when they were last looked at, by path: identity, size and time; sha256."""


def write_sealed(path: Path, value: Mapping[str, Any], beside: Iterable[str] = ()) -> None:
    """Write a record, and in its seal the files of these names beside it that are there.

    They are written before it: a crash between leaves a record of other files, which says so.
    """
    _write(path, value, digests(path.with_name(name) for name in beside))


def digests(files: Iterable[Path]) -> dict[str, str]:
    """The sha256 of each of these files that is there, by name."""
    return {file.name: digest(file) for file in files if file.is_file()}


def seal_again(path: Path, value: Mapping[str, Any]) -> None:
    """Write a record anew whose files stay as they are. Raises as `read_sealed`."""
    seal = read_sealed(path).get(SEAL)
    if seal is None:
        write_json(path, value)
    else:
        _write(path, value, seal["files"])


def read_sealed(path: Path, remedy: str = "", *, must: bool = False) -> dict[str, Any]:
    """The record, its seal with it. `remedy` says what makes it again.

    Raises UsageError for what is no JSON object, what is not as it was written, and, where it
    `must` have one, for a record without a seal.
    """
    found = read_json(path)
    if not isinstance(found, dict):
        raise UsageError(f"{path}: a JSON object was expected")
    seal = found.get(SEAL)
    if seal is None:
        if must:
            raise UsageError(
                f"{path}: has no seal, so it was written by an older version, or by hand"
                f"{_after(remedy)}"
            )
        return found
    if not isinstance(seal, dict) or not isinstance(seal.get("files"), dict):
        raise UsageError(f"{path}: its seal is broken{_after(remedy)}")
    if seal.get("record") != _digest_of(found, seal["files"]):
        raise UsageError(f"{path}: was changed since it was written{_after(remedy)}")
    return found


def check_file(path: Path, record: Mapping[str, Any], remedy: str = "") -> Path:
    """The path, if the file is the one that the record beside it was written with, or the record
    has no seal. Raises UsageError where it is not there or is another."""
    seal = record.get(SEAL)
    if seal is None:
        return path
    wanted = seal["files"].get(path.name)
    if wanted is None:
        if path.is_file():
            raise UsageError(f"{path}: was not there when the record beside it was written")
        return path
    if not path.is_file():
        raise UsageError(f"{path}: is missing{_after(remedy)}")
    if _digest_of_file(path) != wanted:
        raise UsageError(
            f"{path}: is not the file that was written with the record beside it (its sha256 is "
            f"another): it was changed, is damaged, or is of another time{_after(remedy)}"
        )
    return path


def is_file_of(path: Path, sha256: str) -> bool:
    """Whether a file is there, and holds what has this sha256."""
    return path.is_file() and _digest_of_file(path) == sha256


def _write(path: Path, value: Mapping[str, Any], files: Mapping[str, str]) -> None:
    seal = {"files": dict(files), "record": _digest_of(value, files)}
    write_json(path, {**value, SEAL: seal})


def _digest_of(value: Mapping[str, Any], files: Mapping[str, Any]) -> str:
    """sha256 of a record and of what its seal says of files, in one spelling."""
    import orjson

    whole = {**value, SEAL: files}
    read = orjson.loads(orjson.dumps(whole, option=orjson.OPT_SERIALIZE_NUMPY))  # as it comes back
    return hashlib.sha256(orjson.dumps(read, option=orjson.OPT_SORT_KEYS)).hexdigest()


def _digest_of_file(path: Path) -> str:
    """sha256 of a file; of one that stands as it stood when it was last read, without reading."""
    stat = path.stat()
    stamp = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
    known = _known.get(path)
    if known is None or known[0] != stamp:
        known = _known[path] = (stamp, digest(path))
    return known[1]


def _after(remedy: str) -> str:
    return f"; {remedy}" if remedy else ""
