"""State file of a monitor: arrays, a JSON header and a checksum of both.

It contains no query text.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from harness.errors import UsageError
from harness.extensions.online.monitor.records import LogPosition, Totals
from harness.io.records import Record, decode, encode

VERSION = 2
"""Version of the state file."""

Arrays = dict[str, npt.NDArray[np.generic]]


class StateHeader(Record, omit_defaults=False):
    """The header of a state file.

    `settings` are those that a monitor must share to continue from it; `over_time`, `systems`,
    `alerts` and `tests` are states of `Saved` parts.
    """

    version: int
    settings: dict[str, Any]
    total: int
    totals: Totals
    seconds_sum: float
    abilities: list[str]
    over_time: dict[str, Any]
    systems: dict[str, Any]
    alerts: dict[str, Any]
    tests: dict[str, dict[str, Any]]
    position: LogPosition | None
    drift_block: int | None


def pack_state(header: StateHeader, arrays: Arrays) -> bytes:
    """Returns the content of a state file."""
    arrays = {"header": np.frombuffer(encode(header), np.uint8), **arrays}
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, checksum=_checksum(arrays), **arrays)
    return buffer.getvalue()


class _Version(Record, forbid_unknown_fields=False):
    version: int


def unpack_state(path: Path) -> tuple[StateHeader, Arrays]:
    """Reads the header and the arrays of a state file.

    Raises UsageError for a file that is not a state, is damaged, or has another version.
    """
    remedy = "remove it, or name another file with --state"
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays: Arrays = {name: file[name] for name in file.files}
        packed = arrays["header"].tobytes()
        version = msgspec.json.decode(packed, type=_Version).version
    # Reading arbitrary bytes as zip, arrays and JSON may raise many kinds of errors.
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise UsageError(f"{path}: not a monitor state ({reason}); {remedy}") from None
    if version != VERSION:
        raise UsageError(f"{path}: has version {version}, expected {VERSION}; {remedy}")
    checksum = arrays.pop("checksum", None)
    if checksum is None or not np.array_equal(checksum, _checksum(arrays)):
        raise UsageError(f"{path}: damaged, or edited by another program; {remedy}")
    return decode(packed, StateHeader, str(path), remedy), arrays


def _checksum(arrays: Mapping[str, npt.NDArray[np.generic]]) -> npt.NDArray[np.generic]:
    """Computes the sha256 of all arrays, including the header: names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(repr((name, array.dtype.str, array.shape)).encode())
        digest.update(array.tobytes())
    return np.frombuffer(digest.digest(), np.uint8)
