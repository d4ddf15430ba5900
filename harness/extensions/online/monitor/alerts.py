"""The alerts of a monitor: active alerts, their delivery, and the alert log."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any, Literal

import msgspec
import numpy as np

from harness.errors import UsageError
from harness.extensions.online.logs.events import RateStats
from harness.extensions.online.monitor.change import MeanTest, Observed, Saved, Values
from harness.extensions.online.monitor.measure import measure_rule
from harness.extensions.online.monitor.period_test import PERIODS, REQUESTS, PairedTest, PeriodTest
from harness.extensions.online.monitor.records import (
    Alert,
    ChangeTest,
    Reference,
    WindowStats,
)
from harness.extensions.online.monitor.rules import (
    BATCH_SIZE,
    REFERENCE_REQUESTS,
    AlertRules,
    ChangeRule,
    is_metric,
    validate_rules,
)
from harness.extensions.online.monitor.window import Labels
from harness.io.masking import redact
from harness.io.records import encode

_log = logging.getLogger(__name__)

_Key = tuple[str, int, str]
"""Rule, episode and state of an alert."""

_HISTORY = 100  # alerts
_LONGEST_PAUSE = 60.0  # seconds between two attempts


@dataclass
class PendingAlert:
    """An alert to be written to the alert log or delivered."""

    alert: Alert
    written: bool
    delivered: bool


class Alerts(Saved):
    """Active and recent alerts, and their delivery; an alert fires once, until it is resolved.

    `add` queues, `deliver` writes a line to the alert log and notifies. An alert that is already in
    the log (same rule, episode and state) is not delivered again, as a monitor that was killed
    reads some requests twice. A failure is retried with back-off, and reported on stderr and in
    `error`. `episodes` counts how often each rule fired, `history` has the last alerts.
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
        """Reads the alerts in the log, and truncates an unfinished last line.

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
        for one in self.pending:  # it may have been written after the state
            one.written = one.written or _key(one.alert) in logged
        self._done = logged - {_key(one.alert) for one in self.pending}

    def add(self, alert: Alert) -> None:
        """Queues an alert that fires or is resolved for delivery, and counts its episode."""
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
        """Writes and notifies of pending alerts in order. Does nothing if another thread does so,
        or during the back-off after a failure (unless `at_once`)."""
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
                    reason = f"{type(error).__name__}: {redact(str(error))}"
                    yield f"alerts cannot be delivered ({reason})"
                    return
                one.delivered = True

    def resume(self, state: Mapping[str, Any]) -> None:
        """Restores a decoded state."""
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
            continue  # a line of another program
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
            os.truncate(log, whole)  # a partial line would corrupt the next one
            raise


Test = MeanTest | PeriodTest | PairedTest
"""A test over consecutive requests, over calendar periods, or by query against a run."""

Moment = tuple[int, float | None]
"""The number of the newest request, and its time."""


class RuleEvaluator:
    """The thresholds and the change tests of one monitor."""

    def __init__(
        self,
        rules: AlertRules,
        metrics: Sequence[str],
        labels: Labels | None,
        alerts: Alerts,
        window: int,
        drifts: bool,
    ) -> None:
        """Raises UsageError for a rule that can never fire; see `validate_rules`."""
        self.alerts = alerts
        self.thresholds = list(rules.thresholds)
        if rules.changes is None:
            changes = [ChangeRule(metric=name) for name in (metrics[0], "no_result")]
            if labels is None:
                changes = [rule for rule in changes if not is_metric(rule.metric)]
        else:
            changes = list(rules.changes)
        validate_rules([*self.thresholds, *changes], metrics, labels, window, drifts)
        self.tests: list[tuple[ChangeRule, Test]] = [
            (rule, _test(rule, labels)) for rule in changes
        ]

    @property
    def names(self) -> list[str]:
        """The names of all rules."""
        names = [rule.name for rule in self.thresholds]
        return list(dict.fromkeys([*names, *(rule.name for rule, _ in self.tests)]))

    @property
    def needs_drift(self) -> bool:
        """True if a threshold is on drift, which is more expensive than other statistics."""
        return any(rule.metric in ("drift", "unseen_words") for rule in self.thresholds)

    def check_thresholds(self, stats: WindowStats, moment: Moment) -> None:
        """Evaluates the thresholds on the statistics of the window."""
        for rule in self.thresholds:
            found = measure_rule(rule.metric, rule.slice, stats)
            if found.value is None or found.n < rule.min_n:
                continue
            active = rule.name in self.alerts.active
            if rule.is_cleared(found.value) if active else rule.is_violated(found.value):
                message = f"{rule.name}{' is resolved' if active else ''}: {found.value:.4g} "
                message += f"({found.n:,} requests in the window)"
                self._add(rule.name, "threshold", not active, moment, found, message)

    def undecided(self, stats: WindowStats) -> list[str]:
        """Describes the thresholds for which too few requests have a value."""
        found = [(rule, measure_rule(rule.metric, rule.slice, stats)) for rule in self.thresholds]
        return [
            f"alert {rule.name} is not evaluated yet: {one.n} of {rule.min_n} requests have a value"
            for rule, one in found
            if one.value is None or one.n < rule.min_n
        ]

    def changes(
        self,
        values: Mapping[str, Observed],
        stats: Callable[[], WindowStats],
        moment: Moment,
        *,
        hold: bool = False,
    ) -> None:
        """Adds new values of each metric and rate to the tests, in the order of the requests.

        `hold`: requests with earlier times may follow.
        """
        for rule, test in self.tests:
            for event in test.take(values.get(rule.metric), hold=hold):
                found, over = RateStats(value=event.value, n=event.n), event.over
                if found.value is None:
                    found = measure_rule(rule.metric, "all", stats())
                    over = f"{found.n:,} requests in the window"
                about, now = test.about, f"{found.value:.4g} ({over})"
                if event.alert:
                    message = f"{rule.name} from {about.reference_text} to {now}; false-alarm rate "
                    message += f"over all time at most {100 * rule.alpha:g}%, {about.condition}"
                else:
                    message = (
                        f"{rule.metric} has recovered: {now}, reference {about.reference_text}"
                    )
                when = (moment[0], moment[1] if event.time is None else event.time)
                self._add(rule.name, "change", event.alert, when, found, message)

    def _add(
        self,
        rule: str,
        kind: Literal["threshold", "change"],
        firing: bool,
        moment: Moment,
        found: RateStats,
        message: str,
    ) -> None:
        self.alerts.add(
            Alert(
                rule=rule,
                kind=kind,
                state="firing" if firing else "resolved",
                episode=0,
                request_number=moment[0],
                time=moment[1],
                value=found.value,
                n=found.n,
                message=message,
            )
        )

    def summary(self) -> list[ChangeTest]:
        """Returns the state of each change test, for display."""
        tests = []
        for rule, test in self.tests:
            inner = test.test if isinstance(test, PeriodTest) else test
            reference, about = inner.reference, asdict(test.about)
            about["excluded"] = {reason: n for reason, n in about["excluded"].items() if n}
            tests.append(
                ChangeTest(
                    **about,
                    rule=rule.name,
                    metric=rule.metric,
                    alpha=rule.alpha,
                    reference=None if reference is None else reference.mean,
                    reference_bound=None if reference is None else reference.bound,
                    reference_n=None if reference is None else reference.n,
                    testable=inner.testable,
                    tested=inner.n,
                    evidence=None if reference is None else inner.evidence,
                    active=inner.active,
                )
            )
        return tests

    def state(self) -> dict[str, dict[str, Any]]:
        """Returns the encodable states of the tests, by rule."""
        return {rule.key: test.state() for rule, test in self.tests}

    def resume(self, states: Mapping[str, Mapping[str, Any]]) -> None:
        """Restores decoded states; tests of other rules start from scratch."""
        for rule, test in self.tests:
            if rule.key in states:
                test.resume(states[rule.key])
            else:
                self.alerts.active.pop(rule.name, None)
        for name in [*self.alerts.active]:
            if name not in self.names:  # its rule was removed
                del self.alerts.active[name]


def _test(rule: ChangeRule, labels: Labels | None) -> Test:
    period = None if rule.counts_requests else PERIODS[rule.period or "day"]
    if rule.compares_run:
        scores = _run_scores(Path(str(rule.reference)), rule.metric, labels)
        return PairedTest(scores, rule.alpha, rule.drop, period, rule.batch_size or REQUESTS)
    value = None if isinstance(rule.reference, str) else float(rule.reference)
    if period is not None:
        return PeriodTest(period, rule.alpha, rule.drop, value, rule.reference_periods)
    reference = None if value is None else Reference(value, value)
    first = rule.reference_requests or REFERENCE_REQUESTS
    return MeanTest(rule.alpha, rule.drop, reference, first, rule.batch_size or BATCH_SIZE)


def _run_scores(folder: Path, metric: str, labels: Labels | None) -> Values:
    """Reads the score of each labelled query in a run, NaN if it has none.

    Raises UsageError if the run has other labels or no scores of this metric.
    """
    from harness.runs.folder.run_folder import RunFolder, read_scores_by_query

    record = RunFolder(folder).record
    if labels is None or record.dataset.fingerprint != labels.identity:
        raise UsageError(
            f"[[change]] reference {folder}: this run has other labels; run the same dataset again"
        )
    if not (folder / "scores.json").is_file():
        raise UsageError(
            f"[[change]] reference {folder}: this run has no scores; run `harness score {folder}`"
        )
    table = read_scores_by_query(folder)[1].to_pylist()
    found = np.full(len(labels), np.nan)
    for protocol in ("memory", "trec"):
        rows = [r for r in table if r["protocol"] == protocol and r["level"] != "turn>session"]
        values = {row["query"]: row[metric] for row in rows if row.get(metric) is not None}
        if values:
            at = [i for i, name in enumerate(labels.ids) if name in values]
            found[at] = [values[labels.ids[i]] for i in at]
            return found
    raise UsageError(
        f"[[change]] reference {folder}: this run has no {metric}; "
        f"run `harness score {folder} --metrics {metric}`"
    )
