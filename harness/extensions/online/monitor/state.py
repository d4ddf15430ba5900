"""The numbers of a monitor at one moment, as a record and as a state file.

The file has arrays, a JSON header and a checksum of both, and no text of any query.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict

import msgspec
import numpy as np
import numpy.typing as npt

from harness.errors import UsageError
from harness.extensions.online.monitor.alerts import Alerts, RuleEvaluator
from harness.extensions.online.monitor.buckets import Buckets
from harness.extensions.online.monitor.drift import Drift
from harness.extensions.online.monitor.labels import Labels, LabelsLike, as_labels
from harness.extensions.online.monitor.measure import feedback, slices
from harness.extensions.online.monitor.records import (
    LogPosition,
    Snapshot,
    Totals,
    WindowRange,
    WindowStats,
)
from harness.extensions.online.monitor.rules import METRICS, AlertRules
from harness.extensions.online.monitor.window import RequestIndex, Window
from harness.io.records import Record, decode, encode, to_plain
from harness.scoring.metrics import parse_metrics

VERSION = 1
"""Version of the state file."""

Arrays = dict[str, npt.NDArray[np.generic]]

LARGEST = 10_000_000
"""The largest window: its arrays are allocated at once, about 50 bytes a request."""

_BUCKETS = {"minute": 60, "hour": 3600, "day": 86_400}
_MAX_BUCKETS = 720
"""Buckets over time: a month of hours."""

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
"""Bounds of the bins that the durations of all requests are counted in, for Prometheus."""

_MAX_ABILITIES = 64  # further ones are `others`


class StateSettings(Record, omit_defaults=False):
    """Settings that a monitor must share with a state to continue from it; `labels`: a digest."""

    window: int
    metrics: list[str]
    bucket: str
    labels: str | None


class StateHeader(Record, omit_defaults=False):
    """The header of a state file; its dictionaries are states of `Saved` parts."""

    version: int
    settings: StateSettings
    total: int
    totals: Totals
    seconds_sum: float
    abilities: list[str]
    over_time: dict[str, Any]
    alerts: dict[str, Any]
    tests: dict[str, dict[str, Any]]
    position: LogPosition | None
    drift_block: int | None


class Measures(TypedDict, total=False):
    """What a monitor measures: metrics of labelled queries, and numbers by minute, hour or day."""

    metrics: Sequence[str] | str
    bucket: str


class MonitorState:
    """The numbers of a monitor: the window, counts since it began, and its rules.

    It has no clock, lock or file; see `Monitor`, which has them, for the arguments. `position` is
    how far a log was read. `seconds` counts all requests by the bins of `SECONDS`. Raises
    UsageError for wrong settings.
    """

    def __init__(
        self,
        window: int,
        labels: LabelsLike,
        rules: AlertRules,
        alerts: Alerts,
        metrics: Sequence[str] | str = METRICS,
        bucket: str = "hour",
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
        self.over_time = Buckets(_BUCKETS[bucket], _MAX_BUCKETS, len(parsed))
        self.bucket = bucket
        self.words = None if self.labels is None else Drift(self.labels.texts, window)
        drifts = self.words is not None and self.words.measurable
        self.rules = RuleEvaluator(rules, self.metrics, self.labels, alerts, window, drifts)
        self.abilities: dict[str, int] = {}
        self.request_index = RequestIndex(self.window)
        self.totals = Totals()
        self.seconds = np.zeros(len(SECONDS) + 1, np.int64)  # of all requests so far
        self.seconds_sum = 0.0
        self.position: LogPosition | None = None

    def stats(self, *, drift: bool = False) -> WindowStats:
        """Measures the window; drift only if asked for, as it costs more than the rest."""
        return WindowStats(
            slices=slices(self.window, self.metrics, list(self.abilities)),
            feedback=feedback(self.window),
            drift=self.words.measure() if drift and self.words is not None else None,
        )

    def ability(self, name: str | None) -> int:
        """Returns the code of an ability, a new one if it is new; -1 for none."""
        if name is None:
            return -1
        if name not in self.abilities and len(self.abilities) >= _MAX_ABILITIES:
            name = "others"
        return self.abilities.setdefault(name, len(self.abilities))


def snapshot(monitor: MonitorState, errors: list[str]) -> Snapshot:
    """Returns what `Monitor.snapshot` returns; the lock is held, and nothing waits to be scored."""
    window, alerts = monitor.window, monitor.rules.alerts
    time = window.columns["time"][: window.n]
    known = time[~np.isnan(time)]
    stats = monitor.stats(drift=True)
    return Snapshot(
        slices=stats.slices,
        feedback=stats.feedback,
        drift=stats.drift,
        window=WindowRange(
            size=window.size,
            n=window.n,
            start=float(known.min()) if len(known) else None,
            end=float(known.max()) if len(known) else None,
        ),
        labels=None if monitor.labels is None else len(monitor.labels),
        totals=replace(monitor.totals),
        metrics=list(monitor.metrics),
        over_time=monitor.over_time.over_time(monitor.bucket, monitor.metrics),
        alerts=list(alerts.active.values()),
        history=list(alerts.history)[::-1],
        tests=monitor.rules.summary(),
        errors=errors,
    )


def write_state(monitor: MonitorState) -> bytes:
    """Returns the state file of a monitor; its lock is held."""
    window = monitor.window
    header = StateHeader(
        version=VERSION,
        settings=settings(monitor),
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


def read_state(path: Path, monitor: MonitorState) -> None:
    """Continues from a state file in a new monitor.

    Raises UsageError for a file that is no state or was changed, and for one of another version, or
    with other settings or labels.
    """
    arrays, header = _opened(path)
    before = to_plain(header.settings)
    for name, mine in to_plain(settings(monitor)).items():
        if before[name] != mine:
            raise UsageError(
                f"{path}: was written with {name} {_short(before[name])}, now it is "
                f"{_short(mine)}; use that again, or name another file with --state"
            )
    window = monitor.window
    window.total = header.total
    n = window.n
    window.values[:n] = arrays["values"]
    for name, column in window.columns.items():
        column[:n] = arrays[f"column_{name}"]
    monitor.seconds[:] = arrays["seconds"]
    monitor.seconds_sum = header.seconds_sum
    monitor.totals = header.totals
    monitor.position = header.position
    _restore_abilities(monitor, header.abilities, n)
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


def settings(monitor: MonitorState) -> StateSettings:
    """Returns the settings that two monitors must share to continue from one another."""
    return StateSettings(
        window=monitor.window.size,
        metrics=monitor.metrics,
        bucket=monitor.bucket,
        labels=None if monitor.labels is None else monitor.labels.identity,
    )


def _restore_abilities(monitor: MonitorState, names: list[str], n: int) -> None:
    """Translates the codes of abilities of the state to those of this monitor."""
    codes = np.array([monitor.ability(name) for name in names] + [-1], np.int16)
    column = monitor.window.columns["ability"]
    column[:n] = codes[column[:n]]


def _short(value: object) -> str:
    text = ", ".join(value) if isinstance(value, list) else str(value)
    return text if len(text) < 60 else f"{text[:8]}..."
