"""Evaluates the rules of a monitor: thresholds over the window, and tests of change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from harness.errors import UsageError
from harness.extensions.online.logs.events import RateStats
from harness.extensions.online.monitor.alerts import Alerts
from harness.extensions.online.monitor.calendar import PERIODS
from harness.extensions.online.monitor.change import ChangeEvent, MeanTest, Observed, Values
from harness.extensions.online.monitor.labels import Labels
from harness.extensions.online.monitor.measure import measure_rule
from harness.extensions.online.monitor.paired_test import REQUESTS, PairedTest
from harness.extensions.online.monitor.period_test import PeriodTest
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
    check_types,
)
from harness.extensions.online.monitor.validate_rules import is_metric, validate_rules

Test = MeanTest | PeriodTest | PairedTest
"""By requests in a row, by the calendar, or query by query against a run."""

Moment = tuple[int, float | None]
"""The number of the newest request, and its time."""


class RuleEvaluator:
    """The thresholds and the tests of one monitor."""

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
        self._thresholds = [check_types(rule) for rule in rules.thresholds]
        self.alerts = alerts
        if rules.changes is None:
            changes = [ChangeRule(metric=name) for name in (metrics[0], "no_result")]
            if labels is None:
                changes = [rule for rule in changes if not is_metric(rule.metric)]
        else:
            changes = list(rules.changes)
        changes = [check_types(rule) for rule in changes]
        validate_rules([*self._thresholds, *changes], metrics, labels, window, drifts)
        self.tests: list[tuple[ChangeRule, Test]] = [
            (rule, _test(rule, labels)) for rule in changes
        ]

    @property
    def names(self) -> list[str]:
        """The names of all rules."""
        names = [rule.name for rule in self._thresholds]
        return list(dict.fromkeys([*names, *(rule.name for rule, _ in self.tests)]))

    @property
    def has_thresholds(self) -> bool:
        """True if there is a threshold."""
        return bool(self._thresholds)

    @property
    def needs_drift(self) -> bool:
        """True if a threshold is about drift, which costs more than the rest."""
        return any(rule.metric in ("drift", "unseen_words") for rule in self._thresholds)

    def thresholds(self, stats: WindowStats, moment: Moment) -> None:
        """Evaluates the thresholds on the numbers of the window."""
        for rule in self._thresholds:
            found = measure_rule(rule.metric, rule.slice, stats)
            active = rule.name in self.alerts.active
            if found.value is None or found.n < rule.min_n:
                continue
            over = f"{found.value:.4g} over {found.n} requests of the window"
            if not active and rule.broken(found.value):
                self._add(rule.name, "threshold", True, moment, found, f"{rule.name}: {over}")
            elif active and rule.cleared(found.value):
                message = f"{rule.name} is resolved: {over}"
                self._add(rule.name, "threshold", False, moment, found, message)

    def undecided(self, stats: WindowStats) -> list[str]:
        """Describes the thresholds that too few requests have a number for."""
        lines = []
        for rule in self._thresholds:
            found = measure_rule(rule.metric, rule.slice, stats)
            if found.value is None or found.n < rule.min_n:
                lines.append(
                    f"{rule.name}: not evaluated yet, {found.n} of {rule.min_n} requests have it"
                )
        return lines

    def changes(
        self,
        values: Mapping[str, Observed],
        stats: Callable[[], WindowStats],
        moment: Moment,
        *,
        hold: bool = False,
    ) -> None:
        """Adds new values of each metric and rate to the tests, in the order of the requests.

        `hold`: more will follow whose times may be earlier.
        """
        for rule, test in self.tests:
            for event in test.take(values.get(rule.metric), hold=hold):
                self._changed(rule, test, event, stats, moment)

    def _changed(
        self,
        rule: ChangeRule,
        test: Test,
        event: ChangeEvent,
        stats: Callable[[], WindowStats],
        moment: Moment,
    ) -> None:
        about, found, over = test.about, RateStats(value=event.value, n=event.n), event.over
        if found.value is None:
            found = measure_rule(rule.metric, "all", stats())
            over = f"over {found.n} requests of the window"
        value = f"{found.value:.4g} {over}"
        if event.alert:
            message = (
                f"{rule.name} from {about.reference}: {value}; the false-alarm rate over all time "
                f"is at most {rule.alpha:g} {about.condition}"
            )
        else:
            message = f"{rule.metric} is back at {about.reference}: {value}"
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
        """Returns the state of each test of change, for people."""
        tests = []
        for rule, test in self.tests:
            inner = test.test if isinstance(test, PeriodTest) else test
            reference, about = inner.reference, test.about
            tests.append(
                ChangeTest(
                    rule=rule.name,
                    metric=rule.metric,
                    alpha=rule.alpha,
                    reference=None if reference is None else reference.mean,
                    reference_bound=None if reference is None else reference.bound,
                    reference_n=None if reference is None else reference.n,
                    reference_text=about.reference,
                    condition=about.condition,
                    learned=about.learned,
                    to_learn=about.to_learn,
                    testable=inner.testable,
                    tested=inner.n,
                    observation_unit=about.observation_unit,
                    excluded={reason: n for reason, n in about.excluded.items() if n},
                    evidence=None if reference is None else inner.evidence,
                    active=inner.active,
                )
            )
        return tests

    def state(self) -> dict[str, dict[str, Any]]:
        """Returns the states of the tests to be encoded, by rule."""
        return {rule.key: test.state() for rule, test in self.tests}

    def resume(self, states: Mapping[str, Mapping[str, Any]]) -> None:
        """Continues from decoded states; tests of other rules start again."""
        for rule, test in self.tests:
            if rule.key in states:
                test.resume(states[rule.key])
            else:
                self.alerts.active.pop(rule.name, None)
        for name in [*self.alerts.active]:
            if name not in self.names:  # of a rule that was removed
                del self.alerts.active[name]


def _test(rule: ChangeRule, labels: Labels | None) -> Test:
    period = None if rule.by_requests else PERIODS[rule.period or "day"]
    if rule.of_run:
        of_run = _of_run(Path(str(rule.reference)), rule.metric, labels)
        return PairedTest(of_run, rule.alpha, rule.drop, period, rule.batch_size or REQUESTS)
    value = None if isinstance(rule.reference, str) else float(rule.reference)
    if period is not None:
        return PeriodTest(period, rule.alpha, rule.drop, value, rule.reference_periods)
    reference = None if value is None else Reference(value, value)
    first = rule.reference_requests or REFERENCE_REQUESTS
    return MeanTest(rule.alpha, rule.drop, reference, first, rule.batch_size or BATCH_SIZE)


def _of_run(folder: Path, metric: str, labels: Labels | None) -> Values:
    """Reads the score of each labelled query in a run, NaN if it has none.

    Raises UsageError where the run has no score at all.
    """
    from harness.runfiles.arrow import read_parquet
    from harness.runs.folder.run_folder import RunFolder, read_scores, scores_by_query

    record = RunFolder(folder).record
    if labels is None or record.dataset.fingerprint != labels.identity:
        raise UsageError(f"[[change]] reference {folder}: was run on other labels")
    if not (folder / "scores.json").is_file():
        raise UsageError(f"[[change]] reference {folder}: is not scored; see `harness score`")
    table = read_parquet(scores_by_query(folder, read_scores(folder))).to_pylist()
    found = np.full(len(labels), np.nan)
    for protocol in ("memory", "trec"):
        rows = [r for r in table if r["protocol"] == protocol and r["level"] != "turn>session"]
        values = {row["query"]: row[metric] for row in rows if row.get(metric) is not None}
        if values:
            at = [i for i, name in enumerate(labels.ids) if name in values]
            found[at] = [values[labels.ids[i]] for i in at]
            return found
    raise UsageError(f"[[change]] reference {folder}: has no {metric}; score it with --metrics")
