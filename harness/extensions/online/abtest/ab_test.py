"""An A/B test in a running system: routes, searches, records and reports."""

from __future__ import annotations

import math
import time as clock
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any

import msgspec

from harness.errors import HarnessError, UsageError
from harness.extensions.online.abtest.event_log import (
    ABTestLog,
    Lines,
    read_columns,
    read_plan,
    read_records,
)
from harness.extensions.online.abtest.interleaving_report import (
    InterleavingReport,
    interleaving_report,
)
from harness.extensions.online.abtest.plan import (
    EARLIEST,
    LATEST,
    ABTestPlan,
    Arm,
    Bounds,
    Clicks,
    Impression,
    Interleaved,
    Observation,
    as_unit_id,
    team_draft,
)
from harness.extensions.online.abtest.report import SplitReport, split_report
from harness.io.records import convert

Retrieve = Callable[[str, int], Any]
Report = SplitReport | InterleavingReport


@dataclass(frozen=True)
class RoutedResult:
    """The result of the routed system for a query, and its latency in seconds."""

    arm: Arm
    system: str
    result: Any
    seconds: float


class ABTest:
    """Compares two systems in production.

        test = ABTest(old, new, name="reranker", log="reranker.jsonl")
        answer = test.search("when did we move?", 10, unit_id="user 7")
        test.record("user 7", {"click": 1, "seconds": answer.seconds})
        print(test.report())

    `a` and `b` are functions `retrieve(query, k)`, or names of systems that the caller calls
    after `route`. The other arguments are those of an `ABTestPlan` (`salt`, `randomization_unit`,
    `one_observation_per_unit`, `interleave`, `min_effects` and `on_failure`); `metrics` may also be
    a list of names.
    With a `log` every record is written to that file immediately, a restart continues it, and
    several processes may share it; without one the records are in memory. Raises UsageError for an
    invalid plan, and for a log with a different plan.
    """

    def __init__(
        self,
        a: str | Retrieve,
        b: str | Retrieve,
        split: float = 0.5,
        *,
        name: str | None = None,
        log: str | PathLike[str] | None = None,
        metrics: Mapping[str, Bounds] | Iterable[str] = (),
        **options: Any,
    ) -> None:
        labels = (_label(a, "a"), _label(b, "b"))
        if labels[0] == labels[1] and callable(a) and callable(b):
            labels = ("a", "b")
        if isinstance(metrics, str):
            raise UsageError(f"metrics must be a list of names or a mapping, not {metrics!r}")
        if not isinstance(metrics, Mapping):
            metrics = dict.fromkeys(metrics)
        values = {
            "name": f"{labels[0]} or {labels[1]}" if name is None else name,
            "a": labels[0],
            "b": labels[1],
            "split": split,
            "metrics": dict(metrics),
            **{key: value for key, value in options.items() if value is not None},
        }
        self.plan = convert(values, ABTestPlan, "A/B test")
        self._systems: dict[Arm, str | Retrieve] = {"a": a, "b": b}
        self._router = self.plan.router()
        self._records: list[Observation | Impression] = []
        self._log = None if log is None else ABTestLog(Path(log), self.plan)

    def route(self, unit_id: str | int) -> Arm:
        """Returns the arm of a unit, "a" or "b", always the same one. Raises UsageError."""
        return self._router.arm(as_unit_id(unit_id))

    def search(self, query: str, k: int, unit_id: str | int | None = None) -> RoutedResult:
        """Calls the system of the unit's arm, and measures the time.

        An exception of the system is recorded as a failure of its arm (`record_failure`) and raised
        again; nothing else is recorded. If the randomization unit is the query, `unit_id` is
        optional. Raises UsageError if the systems are names.
        """
        if unit_id is None:
            if self.plan.randomization_unit != "query":
                unit = self.plan.randomization_unit
                raise UsageError(f"search needs unit_id=, the id of the {unit} that asks")
            unit_id = query
        arm = self.route(unit_id)
        system = self._systems[arm]
        if isinstance(system, str):
            raise UsageError(
                f"system {system!r} is a name; call it after route(), or give ABTest a function"
            )
        start = clock.perf_counter()
        try:
            result = system(query, k)
        except Exception as error:
            try:
                self.record_failure(unit_id, type(error).__name__, arm=arm)
            except HarnessError as lost:  # raise the system's own error instead
                error.add_note(f"this failure was not recorded: {lost}")
            raise
        seconds = clock.perf_counter() - start
        return RoutedResult(arm, self.plan.a if arm == "a" else self.plan.b, result, seconds)

    def record(
        self,
        unit_id: str | int,
        metrics: Mapping[str, float],
        *,
        arm: Arm | None = None,
        time: float | datetime | None = None,
    ) -> None:
        """Records the metrics of one request (or visit, or day) of a unit.

        `metrics` maps names to numbers, or to None for values that could not be measured. `arm` is
        the arm that the unit saw, by default the routed one; the report counts units that saw the
        other arm. Raises UsageError for names that are not in the plan and for values that are not
        finite or out of bounds, RunError if the log cannot be written.
        """
        if self.plan.interleave:
            raise UsageError(
                "an interleaved test records clicks; call record_clicks(unit_id, shown, clicked)"
            )
        unit = as_unit_id(unit_id)
        arm = self._router.arm(unit) if arm is None else _checked_arm(arm)
        values = self._values(metrics)
        self._append(Observation(time=_seconds(time), unit_id=unit, arm=arm, metrics=values))

    def record_failure(
        self,
        unit_id: str | int,
        error: str = "",
        *,
        arm: Arm | None = None,
        time: float | datetime | None = None,
    ) -> None:
        """Records that the system of a unit failed, instead of `record` or `record_clicks`.

        `search` calls it itself. By intention to treat, a failure counts for its arm, with the
        value of the plan's `on_failure`. `error` is the kind of error, one word. In an interleaved
        test `arm` is the system that failed, which loses the impression. Raises UsageError and
        RunError like `record`.
        """
        unit, seconds, error = as_unit_id(unit_id), _seconds(time), error or "failed"
        if self.plan.interleave:
            failed = _checked_arm(arm)
            self._append(Impression(time=seconds, unit_id=unit, arm=failed, error=error))
            return
        arm = self._router.arm(unit) if arm is None else _checked_arm(arm)
        values = self.plan.failure_values()
        self._append(Observation(time=seconds, unit_id=unit, arm=arm, metrics=values, error=error))

    def interleave(
        self,
        ranking_a: Sequence[str],
        ranking_b: Sequence[str],
        k: int,
        unit_id: str | int,
        *,
        impression: str | int = "",
    ) -> Interleaved:
        """Interleaves two rankings for a reader, by team draft.

        The coin is a hash of the unit and `impression`, the id of this impression (for instance a
        request id, or query and time): the same ids give the same ranking on every machine.
        """
        shown = as_unit_id(unit_id)
        if impression != "":
            shown = f"{shown}\0{as_unit_id(impression)}"
        return team_draft(
            ranking_a, ranking_b, k, lambda turn: self._router.share(f"{shown}\0{turn}") < 0.5
        )

    def record_clicks(
        self,
        unit_id: str | int,
        shown: Interleaved,
        clicked: Iterable[str],
        *,
        time: float | datetime | None = None,
    ) -> None:
        """Records the clicked documents of one interleaved ranking.

        In an offline trial, relevant documents may replace clicks. Raises UsageError for a test
        that is not interleaved and for documents that were not shown.
        """
        if not self.plan.interleave:
            raise UsageError(
                "this test is not interleaved; create it with ABTest(..., interleave=True)"
            )
        a, b = shown.credit(clicked)
        unit, clicks = as_unit_id(unit_id), Clicks(a=a, b=b)
        self._append(Impression(time=_seconds(time), unit_id=unit, clicks=clicks))

    def report(
        self, *, level: float = 0.95, min_effects: Mapping[str, float] | None = None
    ) -> Report:
        """Reports the records so far; `str` formats it. `min_effects` overrides the plan's."""
        if self._log is not None:
            return report(self._log.path, level=level, min_effects=min_effects)
        return _report(self.plan, enumerate(self._records, 1), "records", level, min_effects)

    def close(self) -> None:
        """Syncs the log to disk and closes it."""
        if self._log is not None:
            self._log.close()

    def __enter__(self) -> ABTest:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _append(self, record: Observation | Impression) -> None:
        record = msgspec.structs.replace(record, id=uuid.uuid4().hex[:16])
        if self._log is not None:
            self._log.append(record)
        else:
            self._records.append(record)

    def _values(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Converts measured values to floats, validated against the plan."""
        if not isinstance(metrics, Mapping) or not metrics:
            raise UsageError(f'metrics must be a mapping such as {{"click": 1}}, not {metrics!r}')
        values: dict[str, float] = {}
        for name, value in metrics.items():
            if value is None:
                continue
            if not isinstance(value, Real) or not math.isfinite(value):
                raise UsageError(f"metric {name!r} must be a finite number or None, not {value!r}")
            self.plan.check_value(name, float(value))
            values[name] = float(value)
        return values


def report(
    path: str | PathLike[str],
    *,
    level: float = 0.95,
    min_effects: Mapping[str, float] | None = None,
) -> Report:
    """Reports a test from its event log, which may still grow. Raises UsageError."""
    log = Path(path)
    plan = read_plan(log)
    return _report(plan, read_records(log, plan), str(log), level, min_effects)


def _report(
    plan: ABTestPlan,
    lines: Lines,
    where: str,
    level: float,
    min_effects: Mapping[str, float] | None,
) -> Report:
    if not 0 < level < 1:
        raise UsageError(f"level must be between 0 and 1, not {level!r}")
    if min_effects is not None:
        plan = msgspec.structs.replace(plan, min_effects=dict(min_effects))
    columns = read_columns(lines, where, plan)
    return (interleaving_report if plan.interleave else split_report)(plan, columns, level)


def _checked_arm(arm: Arm | None) -> Arm:
    if arm not in ("a", "b"):
        raise UsageError(f'arm must be "a" or "b", not {arm!r}')
    return arm


def _label(system: str | Retrieve, arm: Arm) -> str:
    """Returns the name of a system: as given, else the function's name, else the arm."""
    if isinstance(system, str):
        return system
    if not callable(system):
        raise UsageError(f"a and b must be names or functions retrieve(query, k), not {system!r}")
    name = getattr(system, "__name__", "")
    return name if name.isidentifier() else arm


def _seconds(time: float | datetime | None) -> float:
    """Converts a time to seconds since 1970. Raises UsageError."""
    if time is None:
        return clock.time()
    seconds = time.timestamp() if isinstance(time, datetime) else time
    known = isinstance(seconds, Real) and not isinstance(seconds, bool)
    if not (known and EARLIEST <= seconds <= LATEST):
        raise UsageError(f"time must be seconds since 1970 or a datetime, not {time!r}")
    return float(seconds)
