"""What a monitor knows at one moment: its numbers, as JSON values and as one file.

The file has arrays, a JSON header and a seal over both, and no text of any query.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import UsageError
from harness.online.monitor.alerting import RuleEvaluator
from harness.online.monitor.alerts import Alerts
from harness.online.monitor.buckets import Buckets
from harness.online.monitor.drift import Drift
from harness.online.monitor.labels import Labels, as_labels
from harness.online.monitor.measure import Cell, cells, feedback
from harness.online.monitor.rules import Rules
from harness.online.monitor.window import RequestIndex, Window
from harness.scoring.metrics import parse_metrics

VERSION = 2
"""Of the file of a state."""

LARGEST = 10_000_000
"""Requests that a window holds at most: its arrays are made at once, of about 50 bytes a request."""

_BUCKETS = {"minute": 60, "hour": 3600, "day": 86_400}
_KEPT = 720
"""Buckets over time that are kept: a month of hours."""

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
"""Bounds of the bins that the times of all requests are counted in, for Prometheus."""

_ABILITIES = 64  # names that are told apart; further ones are `others`


class MonitorState:
    """The numbers of a monitor: the window, counts since it began, what is asked of it.

    It has no clock, lock or file; see `Monitor`, which has them, for the arguments.

    `position` is that of who follows a log. `seconds` counts all requests by the bins of `SECONDS`.
    Raises UsageError for settings that are wrong.
    """

    def __init__(
        self,
        window: int,
        labels: Any,
        metrics: Sequence[str] | str,
        rules: Rules,
        alerts: Alerts,
        bucket: str,
    ) -> None:
        if type(window) is not int or window < 1:
            raise UsageError(f"the window must be a number of requests, 1 or more, not {window!r}")
        if window > LARGEST:
            raise UsageError(
                f"the window must be {LARGEST:,} requests or fewer; name a smaller one"
            )
        if bucket not in _BUCKETS:
            raise UsageError(f"bucket must be {', '.join(_BUCKETS)}, not {bucket!r}")
        parsed = parse_metrics(metrics if isinstance(metrics, str) else list(metrics))
        if not parsed:
            raise UsageError("name one metric at least, for instance recall@10")
        self.parsed = parsed
        self.metrics = [str(metric) for metric in parsed]
        self.labels: Labels | None = as_labels(labels)
        self.window = Window(window, len(parsed))
        self.over_time = Buckets(_BUCKETS[bucket], _KEPT, len(parsed))
        self.bucket = bucket
        self.words = None if self.labels is None else Drift(self.labels.texts, window)
        drifts = self.words is not None and self.words.measurable
        self.watch = RuleEvaluator(rules, self.metrics, self.labels, alerts, window, drifts)
        self.abilities: dict[str, int] = {}
        self.request_index = RequestIndex(self.window)
        self.totals = dict.fromkeys(("requests", "labelled", "failed", "no_result", "abstained"), 0)
        self.totals |= {"feedback": 0, "feedback_lost": 0}
        self.seconds = np.zeros(len(SECONDS) + 1, np.int64)  # of all requests so far
        self.seconds_sum = 0.0
        self.position: Any = None

    def cells(self) -> dict[str, Cell]:
        """Numbers of the window by ability; see `measure`."""
        return cells(self.window, self.metrics, list(self.abilities))

    def drift(self) -> dict[str, Any] | None:
        """Words of the window against those of the labels; see `drift`."""
        return None if self.words is None else self.words.measure()

    def ability(self, name: str | None) -> int:
        """The code of an ability, a new one if it is new; -1 for none."""
        if name is None:
            return -1
        if name not in self.abilities and len(self.abilities) >= _ABILITIES:
            name = "others"
        return self.abilities.setdefault(name, len(self.abilities))


def snapshot(monitor: MonitorState) -> dict[str, Any]:
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


def write_state(monitor: MonitorState) -> bytes:
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
    if monitor.request_index.shown is not None:
        arrays["shown"] = monitor.request_index.shown[: window.n]
    if monitor.words is not None:
        arrays["drift"] = monitor.words.blocks
    buffer = io.BytesIO()
    np.savez(buffer, **arrays, seal=_seal(arrays))
    return buffer.getvalue()


def read_state(path: Path, monitor: MonitorState) -> None:
    """Bring a new monitor to where a state's file left another.

    Raises UsageError for a file that is no state or is not as it was written, and for one that was
    kept by another version, or with other settings or labels.
    """
    arrays, header = _opened(path)
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
    _take_abilities(monitor, header["abilities"], n)
    monitor.over_time.resume(header["over_time"])
    monitor.watch.resume(header["watch"])
    if monitor.words is not None:
        monitor.words.blocks[:], monitor.words.at = arrays["drift"], header["drift_at"]
    if "shown" in arrays:
        monitor.request_index.resume(arrays["shown"])


def _opened(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The arrays of a state's file and its header, as they were written. UsageError else."""
    import orjson

    remedy = "remove it, or name another file with --state"
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        header = orjson.loads(arrays["header"].tobytes())
        version = header["version"]
    # Whatever reading any bytes as zip, arrays and JSON may raise, of which there is no list.
    except Exception as error:
        said = str(error) or type(error).__name__
        raise UsageError(f"{path}: no state of a monitor ({said}); {remedy}") from None
    if version != VERSION:
        raise UsageError(f"{path}: a state of version {version!r:.20}, this is {VERSION}; {remedy}")
    seal = arrays.pop("seal", None)
    if seal is None or not np.array_equal(seal, _seal(arrays)):
        raise UsageError(f"{path}: was changed since it was written, or is damaged; {remedy}")
    return arrays, header


def _seal(arrays: Mapping[str, Any]) -> Any:
    """sha256 of all arrays, the header with them: names, types, shapes and bytes."""
    found = hashlib.sha256()
    for name, array in sorted(arrays.items()):
        found.update(repr((name, array.dtype.str, array.shape)).encode())
        found.update(array.tobytes())
    return np.frombuffer(found.digest(), np.uint8)


def settings(monitor: MonitorState) -> dict[str, Any]:
    """What two monitors must have in common for the one to go on where the other was."""
    return {
        "window": monitor.window.size,
        "metrics": monitor.metrics,
        "bucket": monitor.bucket,
        "labels": None if monitor.labels is None else monitor.labels.identity,
    }


def _take_abilities(monitor: MonitorState, names: list[str], n: int) -> None:
    """Codes of abilities as this monitor has them, for those of the state."""
    codes = np.array([monitor.ability(name) for name in names] + [-1], np.int16)
    column = monitor.window.columns["ability"]
    column[:n] = codes[column[:n]]


def _short(value: Any) -> str:
    text = ", ".join(value) if isinstance(value, list) else str(value)
    return text if len(text) < 60 else f"{text[:8]}..."
