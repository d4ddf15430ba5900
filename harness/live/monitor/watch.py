"""Holds a monitor's numbers against its rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import UsageError
from harness.live.monitor.able import is_metric, refuse
from harness.live.monitor.alerts import Alert, Alerts
from harness.live.monitor.by_period import ByPeriod
from harness.live.monitor.by_query import RECALLS, ByQuery
from harness.live.monitor.change import Change, Event, Observed, Reference, Values
from harness.live.monitor.labels import Labels
from harness.live.monitor.measure import Cell, number
from harness.live.monitor.periods import PERIODS
from harness.live.monitor.rules import (
    BATCH,
    FIRST,
    ChangeRule,
    Rules,
    checked,
)

Test = Change | ByPeriod | ByQuery
"""By recalls in a row, by the calendar, or query by query against a run."""


class Watch:
    """The thresholds and the tests of one monitor."""

    def __init__(
        self,
        rules: Rules,
        metrics: Sequence[str],
        labels: Labels | None,
        alerts: Alerts,
        window: int,
        drifts: bool,
    ) -> None:
        """Raises UsageError for a rule that could never raise an alarm; see `able`."""
        self._thresholds = [checked(rule) for rule in rules.thresholds]
        self.alerts = alerts
        changes = rules.changes
        if changes is None:
            changes = tuple(ChangeRule(name) for name in (metrics[0], "no_result"))
        changes = tuple(checked(rule) for rule in changes)
        if rules.changes is None and labels is None:  # nobody asked for that one
            changes = tuple(rule for rule in changes if not is_metric(rule.metric))
        refuse([*self._thresholds, *changes], metrics, labels, window, drifts)
        self.tests: list[tuple[ChangeRule, Test]] = [
            (rule, _test(rule, labels)) for rule in changes
        ]
        self._about = ("", 0)

    @property
    def names(self) -> list[str]:
        """Everything that can raise an alarm."""
        rules = (*self._thresholds, *(rule for rule, _ in self.tests))
        return list(dict.fromkeys(rule.name for rule in rules))

    @property
    def slices(self) -> set[str]:
        """Slices that a threshold is about."""
        return {rule.slice for rule in self._thresholds}

    @property
    def asks_for_drift(self) -> bool:
        """Whether a threshold is about drift, which costs more than the rest."""
        return any(rule.metric in ("drift", "unseen_words") for rule in self._thresholds)

    def thresholds(
        self,
        cells: Mapping[str, Cell],
        feedback: Mapping[str, Any] | None,
        drift: Mapping[str, Any] | None,
        moment: tuple[int, float | None],
    ) -> None:
        """Raise and clear what the window's numbers ask for; `moment`: the recall and its time."""
        for rule in self._thresholds:
            value, n = number(rule.metric, cells.get(rule.slice), feedback, drift)
            stands = rule.name in self.alerts.standing
            if value is None or n < rule.n:
                continue
            if not stands and rule.broken(value):
                said = f"{rule.name}: {value:.4g} over {n} recalls of the window"
                self._tell(rule.name, "threshold", "raised", moment, value, n, said)
            elif stands and rule.cleared(value):
                said = f"{rule.name} is over: {value:.4g} over {n} recalls of the window"
                self._tell(rule.name, "threshold", "cleared", moment, value, n, said)

    def untold(
        self,
        cells: Mapping[str, Cell],
        feedback: Mapping[str, Any] | None,
        drift: Mapping[str, Any] | None,
    ) -> list[str]:
        """Thresholds that nothing is said of yet, and why: too few recalls have their number."""
        found = []
        for rule in self._thresholds:
            value, n = number(rule.metric, cells.get(rule.slice), feedback, drift)
            if value is None or n < rule.n:
                found.append(f"{rule.name}: nothing is said yet, over {n} recalls of {rule.n}")
        return found

    def changes(
        self,
        values: Mapping[str, Observed],
        cells: Callable[[], Mapping[str, Cell]],
        moment: tuple[int, float | None],
        *,
        hold: bool = False,
    ) -> None:
        """Take new values of each metric and rate into the tests, in the order of the recalls.

        `hold`: more are about to come whose times may be earlier.
        """
        for rule, test in self.tests:
            for event in test.take(values.get(rule.metric), hold=hold):
                self._changed(rule, test, event, cells, moment)

    def _changed(
        self,
        rule: ChangeRule,
        test: Test,
        event: Event,
        cells: Callable[[], Mapping[str, Cell]],
        moment: tuple[int, float | None],
    ) -> None:
        about, value, n, over = test.about, event.value, event.n, event.over
        if value is None:
            value, n = number(rule.metric, cells().get("all"), None, None)
            over = f"over {n} recalls of the window"
        if event.alarm:
            said = (
                f"{rule.name} from {about.held_to}: {value:.4g} {over}; the chance of ever saying "
                f"so without a change is at most {rule.alpha:g} {about.condition}"
            )
        else:
            said = f"{rule.metric} is back at {about.held_to}: {value:.4g} {over}"
        when = (moment[0], moment[1] if event.time is None else event.time)
        state = "raised" if event.alarm else "cleared"
        self._tell(rule.name, "change", state, when, value, n, said)

    def _tell(
        self,
        name: str,
        kind: str,
        state: str,
        moment: tuple[int, float | None],
        value: float | None,
        n: int,
        said: str,
    ) -> None:
        alert: Alert = {"alert": name, "kind": kind, "state": state, "recall": moment[0]}
        self.alerts.event({**alert, "time": moment[1], "value": value, "n": n, "said": said})

    def summary(self) -> list[dict[str, Any]]:
        """How each test stands."""
        found = []
        for rule, test in self.tests:
            judge = test.judge if isinstance(test, ByPeriod) else test
            reference, about = judge.reference, test.about
            found.append(
                {
                    "test": rule.name,
                    "metric": rule.metric,
                    "alpha": rule.alpha,
                    "reference": None if reference is None else reference.mean,
                    "reference_bound": None if reference is None else reference.bound,
                    "reference_n": None if reference is None else reference.n,
                    "held_to": about.held_to,
                    "condition": about.condition,
                    "learning": reference is None,
                    "learned": about.learned,
                    "testable": judge.testable,
                    "tested": judge.n,
                    "unit": about.unit,
                    "left_out": {why: n for why, n in about.left_out.items() if n},
                    "evidence": None if reference is None else judge.evidence,
                    "alarm": judge.alarmed,
                }
            )
        return found

    def state(self) -> dict[str, Any]:
        """JSON for `resume`."""
        return {
            "alerts": self.alerts.state(),
            "tests": [[rule.key, test.state()] for rule, test in self.tests],
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Take up where `state` left; tests of other rules than then begin anew."""
        self.alerts.resume(state["alerts"])
        kept = dict(state["tests"])
        for rule, test in self.tests:
            if rule.key in kept:
                test.resume(kept[rule.key])
            else:
                self.alerts.standing.pop(rule.name, None)
        for name in [*self.alerts.standing]:
            if name not in self.names:  # nobody asks for it any more
                del self.alerts.standing[name]


def _test(rule: ChangeRule, labels: Labels | None) -> Test:
    period = None if rule.by_recalls else PERIODS[rule.period or "day"]
    if rule.of_run:
        of_run = _of_run(Path(str(rule.reference)), rule.metric, labels)
        return ByQuery(of_run, rule.alpha, rule.drop, period, rule.batch or RECALLS)
    set_ = None if isinstance(rule.reference, str) else float(rule.reference)
    if period is not None:
        return ByPeriod(period, rule.alpha, rule.drop, set_, rule.periods)
    reference = None if set_ is None else Reference(set_, set_)
    return Change(rule.alpha, rule.drop, reference, rule.first or FIRST, rule.batch or BATCH)


def _of_run(folder: Path, metric: str, labels: Labels | None) -> Values:
    """The score of each labelled query in a run, NaN where it has none.

    Raises UsageError where the run has no score at all.
    """
    from harness.rankings.arrow import read_parquet
    from harness.runs.folder.run_folder import RunFolder, read_scores, scores_by_query

    record = RunFolder(folder).record
    if labels is None or record.dataset.fingerprint != labels.identity:
        raise UsageError(f"[[change]] reference {folder}: was run on other labels than these")
    if not (folder / "scores.json").is_file():
        raise UsageError(f"[[change]] reference {folder}: is not scored; see `harness score`")
    table = read_parquet(scores_by_query(folder, read_scores(folder, record))).to_pylist()
    found = np.full(len(labels), np.nan)
    for protocol in ("memory", "trec"):
        rows = [r for r in table if r["protocol"] == protocol and r["unit"] != "turn>session"]
        values = {row["query"]: row[metric] for row in rows if row.get(metric) is not None}
        if values:
            at = [i for i, name in enumerate(labels.ids) if name in values]
            found[at] = [values[labels.ids[i]] for i in at]
            return found
    raise UsageError(f"[[change]] reference {folder}: has no {metric}; score it with --metrics")
