"""A monitor at one moment: its numbers as JSON values, and its state as one file.

The file has arrays and a JSON header, and no text of any query.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import UsageError
from harness.live.monitor.held import Held
from harness.live.monitor.measure import feedback

VERSION = 1


def snapshot(monitor: Held) -> dict[str, Any]:
    """What `Monitor.snapshot` returns; the lock is held, and nothing waits to be scored."""
    window, later, alerts = monitor.window, monitor.over_time, monitor.watch.alerts
    time = window.columns["time"][: window.n]
    known = time[~np.isnan(time)]
    return {
        "window": {
            "size": window.size,
            "n": window.n,
            "from": float(known.min()) if len(known) else None,
            "to": float(known.max()) if len(known) else None,
        },
        "labels": None if monitor.labels is None else len(monitor.labels),
        "totals": dict(monitor.totals),
        "metrics": list(monitor.metrics),
        "slices": monitor.cells(),
        "feedback": feedback(window),
        "drift": monitor.drift(),
        "over_time": {
            "bucket": monitor.bucket,
            "width": later.width,
            "rows": later.rows(monitor.metrics),
            "dropped": later.dropped,
            "late": later.late,
            "without_time": later.without_time,
            "in_the_future": later.in_the_future,
        },
        "alerts": list(alerts.standing.values()),
        "history": list(alerts.history)[::-1],
        "tests": monitor.watch.summary(),
    }


def write_state(monitor: Held) -> bytes:
    """The bytes of a monitor's state; its lock is held."""
    import orjson

    window = monitor.window
    header = {
        "version": VERSION,
        "settings": settings(monitor),
        "total": window.total,
        "totals": monitor.totals,
        "seconds_sum": monitor.seconds_sum,
        "abilities": list(monitor.abilities),
        "over_time": monitor.over_time.state(),
        "watch": monitor.watch.state(),
        "position": monitor.position,
        "drift_at": None if monitor.words is None else monitor.words.at,
    }
    arrays: dict[str, Any] = {
        "header": np.frombuffer(orjson.dumps(header), np.uint8),
        "seconds": monitor.seconds,
        "values": window.values[: window.n],
    }
    arrays |= {f"column_{name}": column[: window.n] for name, column in window.columns.items()}
    if monitor.requests.shown is not None:
        arrays["shown"] = monitor.requests.shown[: window.n]
    if monitor.words is not None:
        arrays["drift"] = monitor.words.blocks
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def read_state(path: Path, monitor: Held) -> None:
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
    if monitor.words is not None:
        monitor.words.blocks[:], monitor.words.at = arrays["drift"], header["drift_at"]
    if "shown" in arrays:
        monitor.requests.resume(arrays["shown"])


def settings(monitor: Held) -> dict[str, Any]:
    """What two monitors must have in common for the one to go on where the other was."""
    return {
        "window": monitor.window.size,
        "metrics": monitor.metrics,
        "bucket": monitor.bucket,
        "labels": None if monitor.labels is None else monitor.labels.identity,
    }


def _abilities(monitor: Held, names: list[str], n: int) -> None:
    """Codes of abilities as this monitor has them, for those of the state."""
    codes = np.array([monitor.ability(name) for name in names] + [-1], np.int16)
    column = monitor.window.columns["ability"]
    column[:n] = codes[column[:n]]


def _short(value: Any) -> str:
    text = ", ".join(value) if isinstance(value, list) else str(value)
    return text if len(text) < 60 else f"{text[:8]}..."
