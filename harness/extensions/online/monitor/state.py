"""The state file of a monitor: arrays, a JSON header and a checksum of both.

It has no text of any query.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import numpy.typing as npt

from harness.errors import UsageError
from harness.extensions.online.monitor.records import LogPosition, Totals
from harness.io.records import Record, decode, encode

if TYPE_CHECKING:
    from harness.extensions.online.monitor.monitor import Monitor

VERSION = 1
"""Version of the state file."""

Arrays = dict[str, npt.NDArray[np.generic]]


class StateHeader(Record, omit_defaults=False):
    """The header of a state file.

    `settings` are those that a monitor must share to continue from it; `over_time`, `alerts` and
    `tests` are states of `Saved` parts.
    """

    version: int
    settings: dict[str, Any]
    total: int
    totals: Totals
    seconds_sum: float
    abilities: list[str]
    over_time: dict[str, Any]
    alerts: dict[str, Any]
    tests: dict[str, dict[str, Any]]
    position: LogPosition | None
    drift_block: int | None


def write_state(monitor: Monitor) -> bytes:
    """Returns the state file of a monitor; its lock is held."""
    window = monitor.window
    header = StateHeader(
        version=VERSION,
        settings=_settings(monitor),
        total=window.total,
        totals=monitor.totals,
        seconds_sum=monitor.seconds_sum,
        abilities=list(monitor.abilities),
        over_time=monitor.over_time.state(),
        alerts=monitor.rules.alerts.state(),
        tests=monitor.rules.state(),
        position=monitor.position,
        drift_block=None if monitor.words is None else monitor.words.at,
    )
    arrays: Arrays = {
        "header": np.frombuffer(encode(header), np.uint8),
        "seconds": monitor.seconds,
        "values": window.values[: window.n],
    }
    arrays |= {f"column_{name}": column[: window.n] for name, column in window.columns.items()}
    if monitor.request_index.shown is not None:
        arrays["shown"] = monitor.request_index.shown[: window.n]
    if monitor.words is not None:
        arrays["drift"] = monitor.words.blocks
    buffer = io.BytesIO()
    arrays["checksum"] = _checksum(arrays)
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()


def read_state(path: Path, monitor: Monitor) -> None:
    """Continues from a state file in a new monitor.

    Raises UsageError for a file that is no state or was changed, and for one of another version, or
    with other settings or labels.
    """
    arrays, header = _opened(path)
    for name, mine in _settings(monitor).items():
        if header.settings[name] != mine:
            raise UsageError(
                f"{path}: was written with {name} {_short(header.settings[name])}, now it is "
                f"{_short(mine)}; use that again, or name another file with --state"
            )
    window = monitor.window
    window.total = header.total
    n = window.n
    window.values[:n] = arrays["values"]
    for name, column in window.columns.items():
        column[:n] = arrays[f"column_{name}"]
    # The codes of abilities of the state, as those of this monitor.
    codes = np.array([monitor.ability(name) for name in header.abilities] + [-1], np.int16)
    window.columns["ability"][:n] = codes[window.columns["ability"][:n]]
    monitor.seconds[:] = arrays["seconds"]
    monitor.seconds_sum = header.seconds_sum
    monitor.totals = header.totals
    monitor.position = header.position
    monitor.over_time.resume(header.over_time)
    monitor.rules.alerts.resume(header.alerts)
    monitor.rules.resume(header.tests)
    if monitor.words is not None and header.drift_block is not None:
        monitor.words.blocks[:], monitor.words.at = arrays["drift"], header.drift_block
    if "shown" in arrays:
        shown = np.zeros((window.size, arrays["shown"].shape[1]), np.uint32)
        shown[:n] = arrays["shown"]
        monitor.request_index.shown = shown


class _Version(Record, forbid_unknown_fields=False):
    version: int


def _opened(path: Path) -> tuple[Arrays, StateHeader]:
    """Reads the arrays and the header of a state file. Raises UsageError."""
    remedy = "remove it, or name another file with --state"
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays: Arrays = {name: file[name] for name in file.files}
        packed = arrays["header"].tobytes()
        version = msgspec.json.decode(packed, type=_Version).version
    # Reading any bytes as zip, arrays and JSON may raise many kinds of errors.
    except Exception as error:
        reason = str(error) or type(error).__name__
        raise UsageError(f"{path}: not the state of a monitor ({reason}); {remedy}") from None
    if version != VERSION:
        raise UsageError(f"{path}: a state of version {version}, this is {VERSION}; {remedy}")
    checksum = arrays.pop("checksum", None)
    if checksum is None or not np.array_equal(checksum, _checksum(arrays)):
        raise UsageError(f"{path}: was changed since it was written, or is damaged; {remedy}")
    return arrays, decode(packed, StateHeader, str(path), remedy)


def _checksum(arrays: Mapping[str, npt.NDArray[np.generic]]) -> npt.NDArray[np.generic]:
    """Computes the sha256 of all arrays, including the header: names, types, shapes and bytes."""
    digest = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        digest.update(repr((name, array.dtype.str, array.shape)).encode())
        digest.update(array.tobytes())
    return np.frombuffer(digest.digest(), np.uint8)


def _settings(monitor: Monitor) -> dict[str, Any]:
    """Returns the settings that two monitors must share; `labels` is a digest."""
    return {
        "window": monitor.window.size,
        "metrics": monitor.metrics,
        "bucket": monitor.bucket,
        "labels": None if monitor.labels is None else monitor.labels.identity,
    }


def _short(value: object) -> str:
    text = ", ".join(value) if isinstance(value, list) else str(value)
    return text if len(text) < 60 else f"{text[:8]}..."
