"""The alerts of a monitor: which are active, which were delivered, and their log."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any

import msgspec

from harness.errors import UsageError
from harness.extensions.online.monitor.records import Alert
from harness.extensions.online.monitor.saved import Saved
from harness.io.masking import masked
from harness.io.records import encode

_log = logging.getLogger(__name__)

_Key = tuple[str, int, str]
"""Rule, episode and state of an alert."""

_HISTORY = 100  # alerts
_LONGEST_PAUSE = 60.0  # seconds between two attempts


@dataclass
class PendingAlert:
    """An alert that is to be written to the alert log, or delivered."""

    alert: Alert
    written: bool
    delivered: bool


class Alerts(Saved):
    """Active alerts, and the delivery of the last ones: fired once, active until resolved.

    The alert log holds one line an alert. An alert that is there already (the same rule, episode
    and state) is not delivered again: a monitor that was killed reads some requests twice, and
    comes to the same alerts.

    `add` counts, and `deliver` writes and notifies, so that neither a log that cannot be written
    nor a `notify` that raises costs a request, or the other one an alert. What failed is retried
    with back-off, is reported on stderr, and is in `error` until it works. `episodes` counts how
    often each rule fired, `history` has the last alerts.
    """

    STATE = ("active", "history", "episodes", "pending")

    active: dict[str, Alert]
    history: list[Alert]
    episodes: dict[str, int]
    pending: list[PendingAlert]

    def __init__(self, log: Path | None, notify: Callable[[Alert], None] | None) -> None:
        self._log, self._notify = log, notify
        self.active, self.history, self.episodes, self.pending = {}, [], {}, []
        self.error = ""
        self._done: set[_Key] = set()
        self._delivers = Lock()
        self._pause = self._next = 0.0

    def open(self) -> None:
        """Reads the alerts that the log has already, and cuts off an unfinished last line.

        Raises UsageError for a log that cannot be written.
        """
        if self._log is not None:
            try:
                self._log.parent.mkdir(parents=True, exist_ok=True)
                with open(self._log, "ab"):
                    pass
            except OSError as error:
                raise UsageError(
                    f"{self._log}: the alert log cannot be written ({error.strerror}); name "
                    "another file"
                ) from None
        logged = _read(self._log)
        for one in self.pending:  # it may have been written after the state was
            one.written = one.written or _key(one.alert) in logged
        self._done = logged - {_key(one.alert) for one in self.pending}

    def add(self, alert: Alert) -> None:
        """Adds an alert that fires or is resolved, to be delivered; its episode is counted here."""
        name = alert.rule
        if alert.state == "firing":
            self.episodes[name] = self.episodes.get(name, 0) + 1
        alert = msgspec.structs.replace(alert, episode=self.episodes.get(name, 0))
        if alert.state == "firing":
            self.active[name] = alert
        else:
            self.active.pop(name, None)
        self.history = [*self.history, alert][-_HISTORY:]
        key = _key(alert)
        if key not in self._done and all(key != _key(one.alert) for one in self.pending):
            self.pending.append(PendingAlert(alert, self._log is None, self._notify is None))

    def deliver(self, *, at_once: bool = False) -> None:
        """Writes and notifies of pending alerts in their order, unless another thread does, or it
        failed a moment ago (but `at_once`)."""
        if not self.pending or (monotonic() < self._next and not at_once):
            return
        if not self._delivers.acquire(blocking=False):
            return
        try:
            failed = {*self._write(), *self._notify_all()}
            for one in [*self.pending]:
                if one.written and one.delivered:
                    self._done.add(_key(one.alert))
                    self.pending.remove(one)
            self._pause = min(max(1.0, 2 * self._pause), _LONGEST_PAUSE) if failed else 0.0
            self._next = monotonic() + self._pause
            error = "; ".join(sorted(failed))
            if error and error != self.error:
                _log.warning(f"warning: {error}; will be retried")
            self.error = error
        finally:
            self._delivers.release()

    def _write(self) -> Iterator[str]:
        for one in [*self.pending]:
            if self._log is not None and not one.written:
                try:
                    _append(self._log, one.alert)
                except OSError as error:
                    yield f"{self._log}: alerts cannot be written ({error.strerror})"
                    return
                one.written = True

    def _notify_all(self) -> Iterator[str]:
        for one in [*self.pending]:
            if self._notify is not None and not one.delivered:
                try:
                    self._notify(one.alert)
                except Exception as error:  # foreign code
                    reason = f"{type(error).__name__}: {masked(str(error))}"
                    yield f"alerts cannot be delivered ({reason})"
                    return
                one.delivered = True

    def resume(self, state: Mapping[str, Any]) -> None:
        """Continues from a decoded state."""
        super().resume(state)
        for one in self.pending:
            one.written = one.written or self._log is None
            one.delivered = one.delivered or self._notify is None


def _key(alert: Alert) -> _Key:
    return alert.rule, alert.episode, alert.state


def _read(log: Path | None) -> set[_Key]:
    keys: set[_Key] = set()
    if log is None or not log.is_file():
        return keys
    data = log.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(log, whole)
    for line in data[:whole].splitlines():
        try:
            keys.add(_key(msgspec.json.decode(line, type=Alert)))
        except msgspec.DecodeError:
            continue  # another program's line
    return keys


def _append(log: Path, alert: Alert) -> None:
    log.parent.mkdir(parents=True, exist_ok=True)
    line = encode(alert) + b"\n"
    with open(log, "ab", buffering=0) as file:
        whole = file.seek(0, os.SEEK_END)
        try:
            if file.write(line) != len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(file.fileno())
        except OSError:
            os.truncate(log, whole)  # half a line would spoil the next one
            raise
