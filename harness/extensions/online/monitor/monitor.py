"""Watches requests as they come: quality by the labels, rates, times, drift, alerts.

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
from collections.abc import Callable, Iterable, Sequence
from numbers import Real
from pathlib import Path
from threading import RLock
from typing import Self, TypedDict, Unpack

import msgspec
import numpy as np
import numpy.typing as npt

from harness.errors import UsageError
from harness.extensions.online.logs.events import Feedback, RetrievalEvent
from harness.extensions.online.monitor.alerts import Alerts
from harness.extensions.online.monitor.buckets import SLACK
from harness.extensions.online.monitor.labels import LabelsLike
from harness.extensions.online.monitor.records import Alert, LogPosition, Snapshot
from harness.extensions.online.monitor.rules import AlertRules
from harness.extensions.online.monitor.state import (
    SECONDS,
    Measures,
    MonitorState,
    read_state,
    snapshot,
    write_state,
)
from harness.extensions.online.monitor.window import Columns, Scorer, as_columns, observations
from harness.io.files import disk_errors, write_bytes

_log = logging.getLogger(__name__)

_TOGETHER = 64  # requests scored in one step
_WAIT = 0.5  # seconds that one waits for others
_EVERY = 10.0  # seconds between two states that are written
_EARLIEST, _LATEST = -62_135_596_800, 253_402_300_799  # the years 1 to 9999


class RequestFields(TypedDict, total=False):
    """Keywords of a request that a program records; see `RetrievalEvent`."""

    query_id: str | None
    returned: Sequence[str] | None
    scores: Sequence[float] | None
    seconds: float | None
    abstained: bool
    failed: bool
    ability: str | None
    clicked: Sequence[str] | None
    rating: float | None
    request_id: str | None
    time: float | None


class Monitor(MonitorState):
    """Rolling numbers over the last `window` requests, and by hour. Thread-safe.

    `labels`: a Dataset, or `{query: {document: grade}}`; without them there are rates, times and
    feedback, but no metrics and no drift. `metrics`: as everywhere (`recall@10`). `rules`: what
    fires an alert. `state`: a file that is written every ten seconds while requests come, by `save`
    and `close` (or the end of a `with` block), and at the program's end, and read at the start, so
    that a restart continues; a program that is killed loses at most ten seconds of requests. It
    has no text of a query. `alert_log`: a file with one JSON line an alert. `on_alert` is called
    with each. `bucket`: minute, hour or day. If one of these fails, no request is lost: the error
    is reported on stderr, is in `errors`, and the operation is retried.

    Raises UsageError for wrong settings, and for a state with other settings.
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
        alerts = Alerts(None if alert_log is None else Path(alert_log), on_alert)
        super().__init__(window, labels, rules or AlertRules(), alerts, **measures)
        self._scorer = None if self.labels is None else Scorer(self.labels, self.parsed)
        named = [] if self.labels is None else self.labels.abilities
        self._label_ability = [self.ability(name or None) for name in named]
        self._pending: list[RetrievalEvent] = []
        self._flushed = self._saved = clock.monotonic()
        self._looked = 0
        self._lock = RLock()
        self._state = None if state is None else Path(state)
        if self._state is not None and self._state.is_file():
            read_state(self._state, self)
        self._hold = self.position is not None  # a log that is followed may have been read in part
        alerts.open()  # now that every argument is checked
        self._unsaved, self._save_error, self._saving = False, "", RLock()
        if self._state is not None:
            # A reference that does not keep the monitor alive for the whole program.
            atexit.register(_save_at_exit, weakref.ref(self))

    def __enter__(self) -> Self:
        """The monitor; the end of the block closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def record(self, query: str | None = None, **request: Unpack[RequestFields]) -> None:
        """Records one request; see `RetrievalEvent` for the keywords.

        These are `query_id`, `returned`, `scores`, `seconds`, `abstained`, `failed`, `ability`,
        `clicked`, `rating`, `request_id` and `time`. `returned` None: not known, for instance as it
        failed; an empty list: nothing was found. `time` is now, if not given. Raises TypeError and
        ValueError for wrong values.
        """
        self.record_many((_event(query, request),))

    def feedback(
        self, request_id: str, *, clicked: Sequence[str] | None = None, rating: float | None = None
    ) -> None:
        """What a person did with the request that was recorded as `request_id`, later.

        It counts while that request is in the window.
        """
        self.record_many(
            (Feedback(request_id, None if clicked is None else tuple(clicked), rating),)
        )

    def record_many(
        self,
        events: Iterable[RetrievalEvent | Feedback],
        position: LogPosition | None = None,
        *,
        hold: bool = False,
    ) -> None:
        """Take in requests and feedback in their order, as `harness.extensions.online.logs` reads
        them.

        `position`, how far a log was read, is stored in the state with them. `hold`:
        more are about to come whose times may be earlier, so that no day is taken to be over
        before `settle`.
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

    def snapshot(self) -> Snapshot:
        """Returns all numbers of this moment; what is not measurable is None."""
        with self._lock:
            self._settle()
            now = snapshot(self, [])
        self.rules.alerts.deliver()
        return msgspec.structs.replace(now, errors=self.errors)

    @property
    def errors(self) -> list[str]:
        """What fails at present and is retried: writing or delivering alerts, writing the state."""
        return [one for one in (self.rules.alerts.error, self._save_error) if one]

    def undecided(self) -> list[str]:
        """Describes the thresholds that too few requests have a number for, a line each."""
        with self._lock:
            return self.rules.undecided(self.stats(drift=self.rules.needs_drift))

    def save(self) -> None:
        """Writes the state, atomically. Does nothing without a state file."""
        if self._state is None:
            return
        with self._saving:  # of two states the later one is written last
            with self._lock:
                self._flush()
                packed = write_state(self)
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
        """Writes the state while requests come; a failure is reported on stderr and retried."""
        try:
            self.save()
        except (UsageError, OSError) as error:
            why = error.strerror if isinstance(error, OSError) else error
            message = f"the state is not written to {self._state}: {why}"
            if message != self._save_error:
                _log.warning(f"warning: {message}")
            self._save_error = message

    def save_changes(self) -> None:
        """Writes the state if anything changed since it was written."""
        if self._unsaved:
            self.try_save()

    def settle(self) -> None:
        """Scores pending requests, ends days that are over, and evaluates the thresholds.

        It ends the `hold` of `record_many`.
        """
        with self._lock:
            self._hold = False
            self._settle()
        self.rules.alerts.deliver()

    def close(self) -> None:
        """Scores pending requests, evaluates and delivers alerts, and writes the state."""
        with self._lock:
            self._settle()
        self.rules.alerts.deliver(at_once=True)
        self.save()

    def _settle(self) -> None:
        self._flush()
        self.rules.changes({}, self.stats, self._moment(), hold=self._hold)
        self._look()

    def _flush(self) -> None:
        """Scores pending requests and adds them to the window."""
        events, self._pending = self._pending, []
        self._flushed = clock.monotonic()
        if not events:
            return
        rows = self._rows(events)
        columns = as_columns(events, rows, self.labels, self._abilities_of(events, rows))
        values = self._values(events, rows)
        slots = self.window.append(columns, values)
        self.request_index.remember(events, slots)
        self.over_time.add(columns, values, clock.time())
        self._count(columns)
        if self.words is not None:
            unlabelled = [r.query if row < 0 else None for row, r in zip(rows, events, strict=True)]
            self.words.add(unlabelled)
        new = observations(columns, values, rows, self.metrics, clock.time() + SLACK)
        self.rules.changes(new, self.stats, self._moment(), hold=self._hold)
        if self.window.total - self._looked >= max(_TOGETHER, self.window.size // 100):
            self._look()

    def _rows(self, events: Sequence[RetrievalEvent]) -> list[int]:
        if self.labels is None:
            return [-1] * len(events)
        find = self.labels.find
        return [find(event.query_id, event.query) for event in events]

    def _abilities_of(self, events: Sequence[RetrievalEvent], rows: Sequence[int]) -> list[int]:
        """Codes of abilities: the label's, where it has one, else that of the request."""
        of_label = self._label_ability
        return [
            of_label[row] if row >= 0 and of_label[row] >= 0 else self.ability(event.ability)
            for row, event in zip(rows, events, strict=True)
        ]

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

    def _look(self) -> None:
        """Evaluates the thresholds."""
        self._looked = self.window.total
        if self.rules.has_thresholds:
            self.rules.thresholds(self.stats(drift=self.rules.needs_drift), self._moment())

    def _moment(self) -> tuple[int, float | None]:
        """The number of the newest request, and its time."""
        if not self.window.total:
            return 0, None
        time = float(self.window.columns["time"][(self.window.total - 1) % self.window.size])
        return self.window.total, None if np.isnan(time) else time


def _event(query: str | None, request: RequestFields) -> RetrievalEvent:
    """Checks a request as a program records it. Raises TypeError and ValueError."""
    for name in ("returned", "clicked"):
        if isinstance(request.get(name), str | bytes):
            raise TypeError(f"{name} is a list of ids, not one text")
    event = RetrievalEvent(query=query, **request)  # type: ignore[arg-type]  # tuples below
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
    if (one := monitor()) is not None:
        one.save_changes()
