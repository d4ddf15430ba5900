"""Holds a monitor's numbers against its rules."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.errors import UsageError, near
from harness.live.monitor.alerts import (
    OTHERS,
    RATES,
    TIMES,
    Alert,
    Alerts,
    ChangeRule,
    Rules,
    checked,
)
from harness.live.monitor.change import Change, Reference, Values, reference_of
from harness.live.monitor.labels import Labels
from harness.live.monitor.measure import Cell, number


class Watch:
    """The thresholds and the tests of one monitor."""

    def __init__(
        self, rules: Rules, metrics: Sequence[str], labels: Labels | None, alerts: Alerts
    ) -> None:
        self._thresholds = [checked(rule) for rule in rules.thresholds]
        self.alerts = alerts
        changes = rules.changes
        if changes is None:
            changes = tuple(ChangeRule(name) for name in (metrics[0], "no_result"))
        changes = tuple(checked(rule) for rule in changes)
        for rule in (*self._thresholds, *changes):
            if rule.metric.partition("@")[0] in TIMES:
                continue
            if rule.metric not in metrics and _is_metric(rule.metric):
                raise UsageError(
                    f"{rule.metric} is not among the metrics that are measured "
                    f"({', '.join(metrics)}); name it there too"
                )
        known = _abilities(labels)
        for one in self._thresholds:
            if known and _is_metric(one.metric) and one.slice not in known:
                raise UsageError(
                    f"{one.name}: no labelled query is of the ability {one.slice!r}"
                    f"{near(one.slice, known)}"
                )
        self.tests: list[tuple[ChangeRule, Change]] = [
            (rule, _test(rule, labels))
            for rule in changes
            if labels is not None or not _is_metric(rule.metric)
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

    def changes(
        self,
        values: Mapping[str, Values],
        cells: Callable[[], Mapping[str, Cell]],
        moment: tuple[int, float | None],
    ) -> None:
        """Take new values of each metric and rate into the tests, in the order of the recalls."""
        for rule, test in self.tests:
            new = values.get(rule.metric)
            if new is None or not len(new):
                continue
            for event in test.update(new):
                value, n = number(rule.metric, cells().get("all"), None, None)
                reference = test.reference
                assert reference is not None
                held = f"{reference.mean:.4g}" + (
                    "" if reference.n is None else f" (n {reference.n})"
                )
                if event == "alarm":
                    said = (
                        f"{rule.name} from {held}: {value:.4g} over {n} recalls of the window; the "
                        f"chance of ever saying so without a change is at most {rule.alpha:g}"
                    )
                else:
                    said = f"{rule.metric} is back at {held}: {value:.4g} over {n} recalls"
                state = "raised" if event == "alarm" else "cleared"
                self._tell(rule.name, "change", state, moment, value, n, said)

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
            reference = test.reference
            found.append(
                {
                    "test": rule.name,
                    "metric": rule.metric,
                    "alpha": rule.alpha,
                    "reference": None if reference is None else reference.mean,
                    "reference_bound": None if reference is None else reference.bound,
                    "reference_n": None if reference is None else reference.n,
                    "learning": test.reference is None,
                    "testable": test.testable,
                    "tested": test.n,
                    "evidence": None if test.reference is None else test.evidence,
                    "alarm": test.alarmed,
                }
            )
        return found

    def state(self) -> dict[str, Any]:
        """JSON for `resume`."""
        return {
            "alerts": self.alerts.state(),
            "tests": [[repr(rule), test.state()] for rule, test in self.tests],
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Take up where `state` left; tests of other rules than then begin anew."""
        self.alerts.resume(state["alerts"])
        kept = dict(state["tests"])
        for rule, test in self.tests:
            if repr(rule) in kept:
                test.resume(kept[repr(rule)])
            else:
                self.alerts.standing.pop(rule.name, None)
        for name in [*self.alerts.standing]:
            if name not in self.names:  # nobody asks for it any more
                del self.alerts.standing[name]


def _is_metric(name: str) -> bool:
    """True for a metric of rankings, which needs labels."""
    return name not in (*RATES, *TIMES, *OTHERS)


def _test(rule: ChangeRule, labels: Labels | None) -> Change:
    reference: Reference | None = None
    if isinstance(rule.reference, float | int):
        reference = Reference(float(rule.reference), float(rule.reference))
    elif rule.reference != "first":
        values = _of_run(Path(rule.reference), rule.metric, labels)
        reference = reference_of(values, rule.alpha / 2, drop=rule.drop)
    return Change(rule.alpha, rule.drop, reference, rule.first, rule.batch)


def _of_run(folder: Path, metric: str, labels: Labels | None) -> Values:
    """The values that a scored run has for a metric. Raises UsageError where there are none."""
    import pyarrow.parquet as pq

    from harness.runs.folder.run_folder import RunFolder

    record = RunFolder(folder).record
    if labels is not None and record["dataset"]["fingerprint"] != labels.identity:
        raise UsageError(f"[[change]] reference {folder}: was run on other labels than these")
    scores = folder / "scores.parquet"
    if not scores.is_file():
        raise UsageError(f"[[change]] reference {folder}: is not scored; see `harness score`")
    table = pq.read_table(scores).to_pylist()
    for protocol in ("memory", "trec"):
        rows = [r for r in table if r["protocol"] == protocol and r["unit"] != "turn>session"]
        values = [row[metric] for row in rows if row.get(metric) is not None]
        if values:
            return np.array(values, np.float64)
    raise UsageError(f"[[change]] reference {folder}: has no {metric}; score it with --metrics")


def _abilities(labels: Labels | None) -> list[str]:
    """Slices that a metric can have; none where the labels do not say what abilities there are."""
    named = set(filter(None, labels.abilities)) if labels is not None else set()
    return ["all", *sorted(named)] if named else []
