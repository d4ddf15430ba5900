"""Records with checksums: of themselves, and of the files that belong to them.

The field `checksums` of such a JSON file has `files`, the sha256 of each file beside it that
belongs to it, and `record`, the sha256 of all other fields and of `files`. Readers check both: a
flipped bit, a number changed by hand, or files of two different writings are an error, never a
number. A record without checksums, as another program writes it, is accepted unless they are
required.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from harness.errors import UsageError
from harness.files import digest, write_bytes
from harness.records.base import ChecksummedRecord as ChecksummedRecord
from harness.records.base import Checksums as Checksums
from harness.records.base import convert, encode, read_json_record, to_plain, with_remedy

_known: dict[Path, tuple[tuple[int, ...], str]] = {}
"""Digests of files by path, with the identity, size and time for which they hold."""


R = TypeVar("R", bound=ChecksummedRecord)


def write_with_checksums(
    path: Path, record: ChecksummedRecord, beside: Iterable[str] = (), *, compact: bool = False
) -> None:
    """Writes a record with the checksums of itself and of those files of `beside` that exist.

    The files must be written before it: a crash in between leaves a record that does not match, and
    reading it says so.
    """
    _write(path, record, digests(path.with_name(name) for name in beside), compact=compact)


def rewrite_with_checksums(path: Path, record: ChecksummedRecord) -> None:
    """Writes a changed record whose files stay as they are, with a new checksum of the record."""
    files = record.checksums.files if record.checksums else {}
    _write(path, record, files, compact=False)


def read_with_checksums(
    path: Path, kind: type[R], remedy: str = "", *, required: bool = False
) -> R:
    """Reads a record and checks its own checksum; `remedy` says how to get the file again.

    Raises UsageError for a file that is missing, not of this kind or changed since it was written,
    and, if `required`, for one without checksums.
    """
    values = read_json_record(path, dict[str, object], remedy)
    record = convert(values, kind, str(path), remedy)
    if record.checksums is None:
        if required:
            raise UsageError(
                f"{path}: has no checksums; another program wrote it{with_remedy(remedy)}"
            )
        return record
    if record.checksums.record != _digest_of(values, record.checksums.files):
        raise UsageError(f"{path}: was changed since it was written{with_remedy(remedy)}")
    return record


def check_file(path: Path, record: ChecksummedRecord, remedy: str = "") -> Path:
    """Returns the path if the file is the one that the record was written with.

    A record without checksums accepts any file. Raises UsageError for a file that is missing, added
    or changed.
    """
    if record.checksums is None:
        return path
    expected = record.checksums.files.get(path.name)
    if expected is None:
        if path.is_file():
            raise UsageError(f"{path}: was not there when the record beside it was written")
        return path
    if not path.is_file():
        raise UsageError(f"{path}: is missing{with_remedy(remedy)}")
    if _cached_digest(path) != expected:
        raise UsageError(
            f"{path}: is not the file that was written with the record beside it (its sha256 is "
            f"another): it was changed, is damaged, or is of another time{with_remedy(remedy)}"
        )
    return path


def digests(files: Iterable[Path]) -> dict[str, str]:
    """Returns the sha256 of each of these files that exists, by name."""
    return {file.name: digest(file) for file in files if file.is_file()}


def has_digest(path: Path, sha256: str) -> bool:
    """Tests whether a file exists and has this sha256."""
    return path.is_file() and _cached_digest(path) == sha256


def _write(
    path: Path, record: ChecksummedRecord, files: Mapping[str, str], *, compact: bool
) -> None:
    values = to_plain(record)
    checksums = Checksums(files=dict(files), record=_digest_of(values, files))
    record = msgspec.structs.replace(record, checksums=checksums)
    write_bytes(path, encode(record, indent=not compact))


def _digest_of(values: Mapping[str, object], files: Mapping[str, str]) -> str:
    """Computes the sha256 of a record's values, with `files` as its checksums, in one spelling."""
    whole = {**values, "checksums": dict(files)}
    as_read = msgspec.json.decode(msgspec.json.encode(whole))
    return hashlib.sha256(msgspec.json.encode(as_read, order="sorted")).hexdigest()


def _cached_digest(path: Path) -> str:
    """Returns the sha256 of a file; one that is unchanged since the last call is not read again."""
    stat = path.stat()
    stamp = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
    known = _known.get(path)
    if known is None or known[0] != stamp:
        known = _known[path] = (stamp, digest(path))
    return known[1]
