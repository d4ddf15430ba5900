"""Monitors requests as they arrive: scores by the labels, rates, durations, drift, alerts.

monitor = Monitor(window=1000, labels=open_dataset("labelled", source="my_folder"))
monitor.record("where did I park?", returned=["d7", "d2"], seconds=0.021)
monitor.snapshot().slices["all"].metrics["recall@10"]
"""

from __future__ import annotations

import atexit
import logging
import math
import time as clock
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from numbers import Real
from pathlib import Path
from threading import RLock
from typing import Any, Self, TypedDict, Unpack

import msgspec
import numpy as np
import numpy.typing as npt

from harness.errors import UsageError
from harness.extensions.online.logs.events import Feedback, RetrievalEvent
from harness.extensions.online.monitor.alerts import Alerts, RuleEvaluator
from harness.extensions.online.monitor.drift import Drift
from harness.extensions.online.monitor.measure import (
    BUCKETS,
    SLACK,
    Buckets,
    SystemChanges,
    feedback,
    slices,
)
from harness.extensions.online.monitor.records import (
    Alert,
    LogPosition,
    Snapshot,
    Totals,
    WindowRange,
    WindowStats,
)
from harness.extensions.online.monitor.rules import METRICS, AlertRules
from harness.extensions.online.monitor.state import (
    VERSION,
    Arrays,
    StateHeader,
    pack_state,
    unpack_state,
)
from harness.extensions.online.monitor.window import (
    Columns,
    LabelsLike,
    RequestIndex,
    Scorer,
    Window,
    as_columns,
    as_labels,
    observations,
)
from harness.io.files import disk_errors, write_bytes
from harness.scoring.metrics import parse_metrics

_log = logging.getLogger(__name__)

LARGEST = 10_000_000
"""The largest window: its arrays are allocated at once, about 50 bytes per request."""

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
"""Bin edges of the durations of all requests, for Prometheus."""

_MAX_BUCKETS = 720  # a month of hours
_MAX_ABILITIES = 64  # later ones are `others`
_TOGETHER = 64  # requests scored in one step
_WAIT = 0.5  # maximum seconds that a request waits for a batch
_EVERY = 10.0  # seconds between two writes of the state
_EARLIEST, _LATEST = -62_135_596_800, 253_402_300_799  # the years 1 to 9999


class Measures(TypedDict, total=False):
    """What a monitor measures: metrics of labelled queries, and the width of time buckets."""

    metrics: Sequence[str] | str
    bucket: str


class Monitor:
    """Statistics over the last `window` requests, and by time bucket. Thread-safe.

    `labels`: a Dataset, or `{query: {document: grade}}`; without labels there are no metrics and no
    drift. `metrics`: names like `recall@10`. `rules`: the alert rules. `state`: a file without
    query texts that is written every ten seconds, by `save` and `close`, and at the program's end;
    a restart continues from it. `alert_log`: a file with one JSON line per alert. `on_alert` is
    called with each alert. `bucket`: minute, hour or day. If a file or `on_alert` fails, no request
    is lost: the error is reported on stderr and in `errors`, and the operation is retried.

    Raises UsageError for invalid settings, and for a state with other settings.
    """

    def __init__(
        self,
        window: int = 1000,
        *,
        labels: LabelsLike = None,
        rules: AlertRules | None = None,
        state: str | Path | None = None,
        alert_log: str | Path | None = None,
        on_alert: Callable[[Alert], None] | None = None,
        **measures: Unpack[Measures],
    ) -> None:
        self._measure(window, labels, **measures)
        alerts = Alerts(None if alert_log is None else Path(alert_log), on_alert)
        drifts = self.words is not None and self.words.measurable
        self.rules = RuleEvaluator(
            rules or AlertRules(), self.metrics, self.labels, alerts, window, drifts
        )
        self._pending: list[RetrievalEvent] = []
        self._flushed = self._saved = clock.monotonic()
        self._last_check = 0
        self._lock = RLock()
        self._state = None if state is None else Path(state)
        if self._state is not None and self._state.is_file():
            self._resume(self._state)
        self._hold = self.position is not None  # a followed log may be read in part
        alerts.open()  # now that every argument is checked
        self._unsaved, self._save_error, self._saving = False, "", RLock()
        if self._state is not None:
            # A weak reference, so that the monitor can be freed before the program ends.
            atexit.register(_save_at_exit, weakref.ref(self))

    def _measure(
        self,
        window: int,
        labels: LabelsLike,
        metrics: Sequence[str] | str = METRICS,
        bucket: str = "hour",
    ) -> None:
        """Initialises the window, and the counts since the monitor began."""
        if type(window) is not int or window < 1:
            raise UsageError(
                f"the window must be a whole number of requests, 1 or more, not {window!r}"
            )
        if window > LARGEST:
            raise UsageError(f"the window must be at most {LARGEST:,} requests; set a smaller one")
        if bucket not in BUCKETS:
            raise UsageError(f"bucket must be {', '.join(BUCKETS)}, not {bucket!r}")
        parsed = parse_metrics(metrics if isinstance(metrics, str) else list(metrics))
        if not parsed:
            raise UsageError("metrics is empty; name at least one, for example recall@10")
        self.metrics = [str(metric) for metric in parsed]
        self.labels = as_labels(labels)
        self.window = Window(window, len(parsed))
        self.request_index = RequestIndex(self.window)
        self.over_time = Buckets(bucket, _MAX_BUCKETS, self.metrics)
        self.systems = SystemChanges(window)
        self.bucket = bucket
        self.abilities: dict[str, int] = {}
        self.totals = Totals()
        self.seconds = np.zeros(len(SECONDS) + 1, np.int64)  # all requests, by bin of SECONDS
        self.seconds_sum = 0.0
        self.position: LogPosition | None = None  # how far a log was read
        self.words = None if self.labels is None else Drift(self.labels.texts, window)
        self._scorer = None if self.labels is None else Scorer(self.labels, parsed)
        named = [] if self.labels is None else self.labels.abilities
        self._label_ability = [self.ability(name or None) for name in named]

    def __enter__(self) -> Self:
        """Returns the monitor; the end of the block closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- Requests ----------------------------------------------------------------------------------

    def record(self, query: str | None = None, **request: Any) -> None:
        """Records one request; see `RetrievalEvent` for the keywords.

        These are `query_id`, `returned`, `scores`, `seconds`, `abstained`, `failed`, `system`,
        `ability`, `clicked`, `rating`, `request_id` and `time`. `returned` None: unknown, for
        instance because it failed; an empty list: an empty result. `time` defaults to now. Raises
        TypeError and ValueError for invalid values.
        """
        self.record_many((_event(query, request),))

    def feedback(
        self, request_id: str, *, clicked: Sequence[str] | None = None, rating: float | None = None
    ) -> None:
        """Records later clicks or a rating for the request that was recorded as `request_id`.

        It counts only while that request is in the window.
        """
        clicks = None if clicked is None else tuple(clicked)
        self.record_many((Feedback(request_id, clicks, rating),))

    def record_many(
        self,
        events: Iterable[RetrievalEvent | Feedback],
        position: LogPosition | None = None,
        *,
        hold: bool = False,
    ) -> None:
        """Adds requests and feedback in their order, as read by `harness.extensions.online.logs`.

        `position`, how far a log was read, is stored in the state together with them. `hold`:
        requests with earlier times may follow, so no period ends before `settle`.
        """
        with self._lock:
            self._hold = hold
            if position is not None:
                self.position = position
            self._unsaved = True
            for one in events:
                if isinstance(one, Feedback):
                    self._flush()
                    change = self.request_index.feedback(one)
                    self.totals.feedback += change is not None
                    self.totals.feedback_lost += change is None
                    if change is not None:
                        self.over_time.feedback(change)
                else:
                    self._pending.append(one)
                    if len(self._pending) >= _TOGETHER:
                        self._flush()
            now = clock.monotonic()
            if self._pending and now - self._flushed > _WAIT:
                self._flush()
            due = self._state is not None and now - self._saved > _EVERY
        self.rules.alerts.deliver()
        if due:
            self.try_save()

    def _flush(self) -> None:
        """Scores pending requests and adds them to the window."""
        events, self._pending = self._pending, []
        self._flushed = clock.monotonic()
        if not events:
            return
        labels = self.labels
        rows = [-1 if labels is None else labels.find(e.query_id, e.query) for e in events]
        abilities = [  # the label's, if it has one, else the request's
            of_label
            if row >= 0 and (of_label := self._label_ability[row]) >= 0
            else self.ability(event.ability)
            for row, event in zip(rows, events, strict=True)
        ]
        columns = as_columns(events, rows, labels, abilities)
        values = self._values(events, rows)
        slots = self.window.append(columns, values)
        self.request_index.remember(events, slots)
        self.systems.add(events, self.window.total)
        self.over_time.add(columns, values, clock.time())
        self._count(columns)
        if self.words is not None:
            unlabelled = [r.query if row < 0 else None for row, r in zip(rows, events, strict=True)]
            self.words.add(unlabelled)
        new = observations(columns, values, rows, self.metrics, clock.time() + SLACK)
        self.rules.changes(new, self.stats, self._moment(), hold=self._hold)
        if self.window.total - self._last_check >= max(_TOGETHER, self.window.size // 100):
            self._check_thresholds()

    def ability(self, name: str | None) -> int:
        """Returns the code of an ability, adding it if it is new; -1 for None."""
        if name is None:
            return -1
        if name not in self.abilities and len(self.abilities) >= _MAX_ABILITIES:
            name = "others"
        return self.abilities.setdefault(name, len(self.abilities))

    def _values(
        self, events: Sequence[RetrievalEvent], rows: Sequence[int]
    ) -> npt.NDArray[np.float64]:
        values = np.full((len(events), len(self.metrics)), np.nan)
        if self._scorer is not None and self.labels is not None:
            evidence = self.labels.has_evidence
            at = [
                i
                for i, (row, r) in enumerate(zip(rows, events, strict=True))
                if row >= 0 and evidence[row] and r.returned is not None and not r.failed
            ]
            if at:
                values[at] = self._scorer([rows[i] for i in at], [events[i] for i in at])
        return values

    def _count(self, columns: Columns) -> None:
        totals = self.totals
        totals.requests += len(columns["time"])
        totals.labelled += int(columns["labelled"].sum())
        totals.failed += int(columns["failed"].sum())
        totals.no_result += int(columns["empty"].sum())
        totals.abstained += int(columns["abstained"].sum())
        timed = columns["seconds"][~np.isnan(columns["seconds"])]
        np.add.at(self.seconds, np.searchsorted(SECONDS, timed), 1)
        self.seconds_sum += float(timed.sum())

    # -- Statistics and alerts ---------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        """Returns all current statistics; values that are not measurable are None."""
        with self._lock:
            self._settle()
            window, alerts = self.window, self.rules.alerts
            time = window.columns["time"][: window.n]
            known = time[~np.isnan(time)]
            now = Snapshot(
                **msgspec.structs.asdict(self.stats(drift=True)),
                window=WindowRange(
                    size=window.size,
                    n=window.n,
                    start=float(known.min()) if len(known) else None,
                    end=float(known.max()) if len(known) else None,
                ),
                labels=None if self.labels is None else len(self.labels),
                totals=replace(self.totals),
                metrics=list(self.metrics),
                over_time=self.over_time.over_time(),
                alerts=list(alerts.active.values()),
                history=list(alerts.history)[::-1],
                tests=self.rules.summary(),
                system_changes=list(self.systems.changes),
                errors=[],
            )
        self.rules.alerts.deliver()
        return msgspec.structs.replace(now, errors=self.errors)

    def stats(self, *, drift: bool = False) -> WindowStats:
        """Measures the window; drift only on request, as it is the most expensive part."""
        return WindowStats(
            slices=slices(self.window, self.metrics, list(self.abilities)),
            feedback=feedback(self.window),
            drift=self.words.measure() if drift and self.words is not None else None,
        )

    @property
    def errors(self) -> list[str]:
        """Current errors, which are retried: writing or delivering alerts, writing the state."""
        return [one for one in (self.rules.alerts.error, self._save_error) if one]

    def undecided(self) -> list[str]:
        """Describes the thresholds for which too few requests have a value, one line each."""
        with self._lock:
            return self.rules.undecided(self.stats(drift=self.rules.needs_drift))

    def settle(self) -> None:
        """Scores pending requests, ends periods that are over, and evaluates the thresholds.

        It ends the `hold` of `record_many`.
        """
        with self._lock:
            self._hold = False
            self._settle()
        self.rules.alerts.deliver()

    def _settle(self) -> None:
        self._flush()
        self.rules.changes({}, self.stats, self._moment(), hold=self._hold)
        self._check_thresholds()

    def _check_thresholds(self) -> None:
        """Evaluates the thresholds."""
        self._last_check = self.window.total
        if self.rules.thresholds:
            self.rules.check_thresholds(self.stats(drift=self.rules.needs_drift), self._moment())

    def _moment(self) -> tuple[int, float | None]:
        """Returns the number of the newest request, and its time."""
        if not self.window.total:
            return 0, None
        time = float(self.window.columns["time"][(self.window.total - 1) % self.window.size])
        return self.window.total, None if np.isnan(time) else time

    # -- The state ---------------------------------------------------------------------------------

    def save(self) -> None:
        """Writes the state, atomically. Does nothing without a state file."""
        if self._state is None:
            return
        with self._saving:  # keeps writes in order
            with self._lock:
                self._flush()
                packed = self._pack()
                self._saved = clock.monotonic()
                self._unsaved = False
            try:
                with disk_errors(self._state.parent, "name another file with --state"):
                    write_bytes(self._state, packed)
            except BaseException:
                self._unsaved = True
                raise
            self._save_error = ""

    def try_save(self) -> None:
        """Writes the state while requests arrive; reports a failure on stderr and retries."""
        try:
            self.save()
        except (UsageError, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            message = f"{self._state}: the state cannot be written ({why})"
            if message != self._save_error:
                _log.warning(f"warning: {message}")
            self._save_error = message

    def close(self) -> None:
        """Scores pending requests, evaluates and delivers alerts, and writes the state."""
        with self._lock:
            self._settle()
        self.rules.alerts.deliver(at_once=True)
        self.save()

    def _settings(self) -> dict[str, Any]:
        """Returns the settings that a state and its monitor must share; `labels` is a digest."""
        return {
            "window": self.window.size,
            "metrics": self.metrics,
            "bucket": self.bucket,
            "labels": None if self.labels is None else self.labels.identity,
        }

    def _pack(self) -> bytes:
        """Returns the content of the state file. The caller holds the lock."""
        window = self.window
        header = StateHeader(
            version=VERSION,
            settings=self._settings(),
            total=window.total,
            totals=self.totals,
            seconds_sum=self.seconds_sum,
            abilities=list(self.abilities),
            over_time=self.over_time.state(),
            systems=self.systems.state(),
            alerts=self.rules.alerts.state(),
            tests=self.rules.state(),
            position=self.position,
            drift_block=None if self.words is None else self.words.at,
        )
        arrays: Arrays = {
            "seconds": self.seconds,
            "values": window.values[: window.n],
        }
        arrays |= {f"column_{name}": column[: window.n] for name, column in window.columns.items()}
        if self.request_index.shown is not None:
            arrays["shown"] = self.request_index.shown[: window.n]
        if self.words is not None:
            arrays["drift"] = self.words.blocks
        return pack_state(header, arrays)

    def _resume(self, path: Path) -> None:
        """Continues from a state file. Raises UsageError for one with other settings or labels."""
        header, arrays = unpack_state(path)
        for name, mine in self._settings().items():
            if header.settings[name] != mine:
                raise UsageError(
                    f"{path}: was written with {name} {_short(header.settings[name])}, not "
                    f"{_short(mine)}; use the old setting, or name another file with --state"
                )
        window = self.window
        window.total = header.total
        n = window.n
        window.values[:n] = arrays["values"]
        for name, column in window.columns.items():
            column[:n] = arrays[f"column_{name}"]
        # Map the ability codes of the state to those of this monitor.
        codes = np.array([self.ability(name) for name in header.abilities] + [-1], np.int16)
        window.columns["ability"][:n] = codes[window.columns["ability"][:n]]
        self.seconds[:] = arrays["seconds"]
        self.seconds_sum = header.seconds_sum
        self.totals = header.totals
        self.position = header.position
        self.over_time.resume(header.over_time)
        self.systems.resume(header.systems)
        self.rules.alerts.resume(header.alerts)
        self.rules.resume(header.tests)
        if self.words is not None and header.drift_block is not None:
            self.words.blocks[:], self.words.at = arrays["drift"], header.drift_block
        if "shown" in arrays:
            shown = np.zeros((window.size, arrays["shown"].shape[1]), np.uint32)
            shown[:n] = arrays["shown"]
            self.request_index.shown = shown


def _event(query: str | None, request: Mapping[str, Any]) -> RetrievalEvent:
    """Validates a request of `record`. Raises TypeError and ValueError."""
    for name in ("returned", "clicked"):
        if isinstance(request.get(name), str | bytes):
            raise TypeError(f"{name} is a list of ids, not one text")
    event = RetrievalEvent(query=query, **request)
    for name, kind in (("returned", str), ("clicked", str), ("scores", float)):
        if (given := getattr(event, name)) is not None:
            setattr(event, name, tuple(map(kind, given)))
    returned, time = event.returned or (), event.time
    if event.scores is not None and len(event.scores) != len(returned):
        raise ValueError(f"{len(returned)} returned documents, {len(event.scores)} scores")
    if event.seconds is not None and not 0 <= event.seconds < math.inf:
        raise ValueError(f"seconds must be 0 or more, not {event.seconds}")
    if time is not None and not (isinstance(time, Real) and _EARLIEST <= time <= _LATEST):
        raise ValueError(f"time must be seconds since 1970, not {time!r}")
    if event.rating is not None and not math.isfinite(event.rating):
        raise ValueError(f"a rating must be a finite number, not {event.rating}")
    event.time = clock.time() if time is None else float(time)
    return event


def _save_at_exit(monitor: weakref.ref[Monitor]) -> None:
    if (one := monitor()) is not None and one._unsaved:
        one.try_save()


def _short(value: object) -> str:
    text = ", ".join(value) if isinstance(value, list) else str(value)
    return text if len(text) < 60 else f"{text[:8]}..."
