"""The alerts of a monitor: which are active, which were delivered, and their log."""

from __future__ import annotations

import errno
import logging
import os
from collections import Counter, deque
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Lock
from time import monotonic

import msgspec

from harness.errors import UsageError
from harness.masking import masked
from harness.online.monitor.records import Alert, AlertsState, PendingAlert
from harness.records.base import encode

_log = logging.getLogger(__name__)

_Key = tuple[str, int, str]
"""Rule, episode and state of an alert."""

_HISTORY = 100  # alerts
_LONGEST_PAUSE = 60.0  # seconds between two attempts


class Alerts:
    """Active alerts, and the delivery of the last ones: fired once, active until resolved.

    The alert log holds one line an alert. An alert that is there already (the same rule, episode
    and state) is not delivered again: a monitor that was killed reads some requests twice, and
    comes to the same alerts.

    `add` counts, and `deliver` writes and notifies, so that neither a log that cannot be written
    nor a `notify` that raises costs a request, or the other one an alert. What failed is retried
    with back-off, is reported on stderr, and is in `error` until it works.
    """

    def __init__(self, log: Path | None, notify: Callable[[Alert], None] | None) -> None:
        self._log, self._notify = log, notify
        self.active: dict[str, Alert] = {}
        self.history: deque[Alert] = deque(maxlen=_HISTORY)
        self.episodes: Counter[str] = Counter()
        self.error = ""
        self._done: set[_Key] = set()
        self._pending: dict[_Key, PendingAlert] = {}
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
        for key in logged & {*self._pending}:  # it was written after the state was
            self._pending[key].written = True
        self._done = logged - {*self._pending}

    def add(self, alert: Alert) -> None:
        """Adds an alert that fires or is resolved, to be delivered; its episode is counted here."""
        name = alert.rule
        if alert.state == "firing":
            self.episodes[name] += 1
        alert = msgspec.structs.replace(alert, episode=self.episodes[name])
        if alert.state == "firing":
            self.active[name] = alert
        else:
            self.active.pop(name, None)
        self.history.append(alert)
        key = _key(alert)
        if key not in self._done and key not in self._pending:
            self._pending[key] = PendingAlert(alert, self._log is None, self._notify is None)

    def deliver(self, *, at_once: bool = False) -> None:
        """Writes and notifies of pending alerts in their order, unless another thread does, or it
        failed a moment ago (but `at_once`)."""
        if not self._pending or (monotonic() < self._next and not at_once):
            return
        if not self._delivers.acquire(blocking=False):
            return
        try:
            failed = {*self._write(), *self._notify_all()}
            for key, one in [*self._pending.items()]:
                if one.written and one.delivered:
                    self._done.add(key)
                    del self._pending[key]
            self._pause = min(max(1.0, 2 * self._pause), _LONGEST_PAUSE) if failed else 0.0
            self._next = monotonic() + self._pause
            error = "; ".join(sorted(failed))
            if error and error != self.error:
                _log.warning(f"warning: {error}; will be retried")
            self.error = error
        finally:
            self._delivers.release()

    def _write(self) -> Iterator[str]:
        for one in [*self._pending.values()]:
            if self._log is not None and not one.written:
                try:
                    _append(self._log, one.alert)
                except OSError as error:
                    yield f"{self._log}: alerts cannot be written ({error.strerror})"
                    return
                one.written = True

    def _notify_all(self) -> Iterator[str]:
        for one in [*self._pending.values()]:
            if self._notify is not None and not one.delivered:
                try:
                    self._notify(one.alert)
                except Exception as error:  # foreign code
                    reason = f"{type(error).__name__}: {masked(str(error))}"
                    yield f"alerts cannot be delivered ({reason})"
                    return
                one.delivered = True

    def state(self) -> AlertsState:
        """Returns the state for `resume`."""
        return AlertsState(
            active=dict(self.active),
            history=list(self.history),
            episodes=dict(self.episodes),
            pending=[*self._pending.values()],
        )

    def resume(self, state: AlertsState) -> None:
        """Continues from a state."""
        self.active = dict(state.active)
        self.history.extend(state.history)
        self.episodes.update(state.episodes)
        for one in state.pending:
            one.written = one.written or self._log is None
            one.delivered = one.delivered or self._notify is None
            self._pending[_key(one.alert)] = one


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
