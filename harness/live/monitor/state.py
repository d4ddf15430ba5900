"""A monitor's state as one file: arrays and a JSON header, no text of any query."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.live.monitor.monitor import Monitor

VERSION = 1


def write_state(monitor: Monitor) -> bytes:
    """The bytes of a monitor's state; its lock is held."""
    import orjson

    window = monitor.window
    header = {
        "version": VERSION,
        "settings": settings(monitor),
        "total": window.total,
        "totals": monitor.totals,
        "seconds_sum": monitor.seconds_sum,
        "abilities": list(monitor._abilities),
        "over_time": monitor.over_time.state(),
        "watch": monitor.watch.state(),
        "position": monitor.position,
        "drift_at": None if monitor._drift is None else monitor._drift.at,
    }
    arrays: dict[str, Any] = {
        "header": np.frombuffer(orjson.dumps(header), np.uint8),
        "seconds": monitor.seconds,
        "values": window.values[: window.n],
    }
    arrays |= {f"column_{name}": column[: window.n] for name, column in window.columns.items()}
    if monitor.requests.shown is not None:
        arrays["shown"] = monitor.requests.shown[: window.n]
    if monitor._drift is not None:
        arrays["drift"] = monitor._drift.blocks
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def read_state(path: Path, monitor: Monitor) -> None:
    """Bring a new monitor to where a state's file left another.

    Raises UsageError for a file that is no state, or was kept with other settings or labels.
    """
    import orjson

    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = orjson.loads(arrays["header"].tobytes())
        version = header["version"]
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise UsageError(f"{path}: no state of a monitor ({error}); name another file") from None
    if version != VERSION:
        raise UsageError(f"{path}: a state of version {version}, this is {VERSION}; name another")
    for name, mine in settings(monitor).items():
        kept = header["settings"].get(name)
        if kept != mine:
            raise UsageError(
                f"{path}: was kept with {name} {_short(kept)}, now it is {_short(mine)}; go back "
                "to that, or name another file with --state"
            )
    window = monitor.window
    window.total = header["total"]
    n = window.n
    window.values[:n] = arrays["values"]
    for name, column in window.columns.items():
        column[:n] = arrays[f"column_{name}"]
    monitor.seconds[:] = arrays["seconds"]
    monitor.seconds_sum = header["seconds_sum"]
    monitor.totals = header["totals"]
    monitor.position = header["position"]
    _abilities(monitor, header["abilities"], n)
    monitor.over_time.resume(header["over_time"])
    monitor.watch.resume(header["watch"])
    if monitor._drift is not None:
        monitor._drift.blocks[:], monitor._drift.at = arrays["drift"], header["drift_at"]
    if "shown" in arrays:
        monitor.requests.resume(arrays["shown"])


def settings(monitor: Monitor) -> dict[str, Any]:
    """What two monitors must have in common for the one to go on where the other was."""
    return {
        "window": monitor.window.size,
        "metrics": monitor.metrics,
        "bucket": monitor.bucket,
        "labels": None if monitor.labels is None else monitor.labels.identity,
    }


def _abilities(monitor: Monitor, names: list[str], n: int) -> None:
    """Codes of abilities as this monitor has them, for those of the state."""
    codes = np.array([monitor._ability(name) for name in names] + [-1], np.int16)
    column = monitor.window.columns["ability"]
    column[:n] = codes[column[:n]]


def _short(value: Any) -> str:
    text = ", ".join(value) if isinstance(value, list) else str(value)
    return text if len(text) < 60 else f"{text[:8]}..."
