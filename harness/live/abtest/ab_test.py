"""An A/B test in a running system: route, search, record, report."""

from __future__ import annotations

import math
import time as clock
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from numbers import Real
from os import PathLike
from pathlib import Path
from typing import Any

from harness.errors import HarnessError, UsageError, near
from harness.live.abtest.plan import Bounds, Plan
from harness.live.abtest.preference import PreferenceReport, preference_report
from harness.live.abtest.records import (
    EARLIEST,
    LATEST,
    Journal,
    Lines,
    gather,
    gather_clicks,
    read_plan,
    read_records,
)
from harness.live.abtest.routing import Arm, Interleaved, team_draft, unit_id
from harness.live.abtest.split import split_report
from harness.live.abtest.split_report import SplitReport
from harness.statistics.sequential import TUNED_FOR

Retrieve = Callable[[str, int], Any]
Report = SplitReport | PreferenceReport


@dataclass(frozen=True)
class Answer:
    """What the routed system returned for a query, and how long it took."""

    arm: Arm
    system: str
    found: Any
    seconds: float


class ABTest:
    """Compare two systems in use.

        test = ABTest(old, new, name="reranker", journal="reranker.jsonl")
        answer = test.search("when did we move?", 10, unit="user 7")
        test.record("user 7", {"click": 1, "seconds": answer.seconds})
        print(test.report())

    `a` and `b` are functions `retrieve(query, k)`, or names of systems that are called elsewhere,
    after `route`. The other arguments are those of a `Plan`; `metrics` may also be a list of names.
    With a `journal` every record is in that file at once, a restart goes on with it, and several
    processes may share it; without one the records are in memory. Raises UsageError for a plan that
    cannot be, and for a journal that was begun with another.
    """

    def __init__(
        self,
        a: str | Retrieve,
        b: str | Retrieve,
        split: float = 0.5,
        *,
        name: str | None = None,
        salt: str = "",
        journal: str | PathLike[str] | None = None,
        unit: str = "user",
        once: bool = False,
        interleave: bool = False,
        metrics: Mapping[str, Bounds] | Iterable[str] = (),
        wanted: Mapping[str, float] | None = None,
        failed: Mapping[str, float | None] | None = None,
        expected: int = TUNED_FOR,
    ) -> None:
        labels = _labels(a, b)
        if isinstance(metrics, str):
            raise UsageError(f"metrics must be a list of names or a mapping, not {metrics!r}")
        if not isinstance(metrics, Mapping):
            metrics = dict.fromkeys(metrics)
        self.plan = Plan(
            name=f"{labels[0]} or {labels[1]}" if name is None else name,
            a=labels[0],
            b=labels[1],
            split=split,
            salt=salt,
            unit=unit,
            once=once,
            interleave=interleave,
            metrics=dict(metrics),
            wanted=dict(wanted or {}),
            failed=dict(failed or {}),
            expected=expected,
        )
        self._systems: dict[Arm, str | Retrieve] = {"a": a, "b": b}
        self._router = self.plan.router()
        self._memory: list[dict[str, Any]] = []
        self._journal = None if journal is None else Journal(Path(journal), self.plan)

    def route(self, unit: str | int) -> Arm:
        """The arm of a unit, "a" or "b": always the same one. Raises UsageError for no id."""
        return self._router.arm(unit_id(unit))

    def search(self, query: str, k: int, unit: str | int | None = None) -> Answer:
        """Ask the unit's system, and time it.

        What it raises is recorded as a failure of its arm (`record_failure`), and raised on; else
        nothing is recorded. Where the unit is the query itself, `unit` may be left out. Raises
        UsageError where the systems are names.
        """
        if unit is None:
            if self.plan.unit != "query":
                raise UsageError(f"search needs unit=: which {self.plan.unit} asks")
            unit = query
        arm = self.route(unit)
        system = self._systems[arm]
        if isinstance(system, str):
            raise UsageError(
                f"system {system!r} is a name: call it after route(), or give ABTest a function"
            )
        start = clock.perf_counter()
        try:
            found = system(query, k)
        except Exception as error:
            try:
                self.record_failure(unit, type(error).__name__, arm=arm)
            except HarnessError as lost:  # the product's own error is what it has to see
                error.add_note(f"nor was this failure recorded: {lost}")
            raise
        seconds = clock.perf_counter() - start
        return Answer(arm, self.plan.a if arm == "a" else self.plan.b, found, seconds)

    def record(
        self,
        unit: str | int,
        metrics: Mapping[str, float],
        *,
        arm: Arm | None = None,
        time: float | datetime | None = None,
    ) -> None:
        """Record what was measured of one answer (or visit, or day) of a unit.

        `metrics` maps names to numbers, or to None for what could not be measured. `arm` is what
        the unit saw, the routed one where it is left out; one that was seen otherwise is reported.
        Raises UsageError for names the plan does not have and for values that are not finite or
        outside their bounds, RunError where the journal cannot be written.
        """
        if self.plan.interleave:
            raise UsageError("an interleaved test records clicks: record_clicks(shown, clicked)")
        who = unit_id(unit)
        if arm is None:
            arm = self._router.arm(who)
        elif arm not in ("a", "b"):
            raise UsageError(f'arm must be "a" or "b", not {arm!r}')
        values = self._values(metrics)
        self._keep({"time": _seconds(time), "unit": who, "arm": arm, "metrics": values})

    def record_failure(
        self,
        unit: str | int,
        error: str = "",
        *,
        arm: Arm | None = None,
        time: float | datetime | None = None,
    ) -> None:
        """Record that a unit's system failed, in place of `record` (or `record_clicks`).

        `search` does so itself. By intention to treat a failure stays with the arm: in a metric
        that the plan's `failed` names, or whose bounds are (0, 1), it counts as that value, or as
        0; other metrics have no value for it, and the report says so. `error` is its kind, a word.
        In an interleaved test `arm` says whose system failed, and the impression is lost by it.
        Raises UsageError and RunError as `record`.
        """
        who = unit_id(unit)
        if arm not in ("a", "b", None) or (arm is None and self.plan.interleave):
            raise UsageError(f'arm must be "a" or "b", not {arm!r}')
        if arm is None:
            arm = self._router.arm(who)
        record = {"time": _seconds(time), "unit": who, "arm": arm, "failed": error or "failed"}
        more = {} if self.plan.interleave else {"metrics": self.plan.of_failure()}
        self._keep({**record, **more})

    def interleave(
        self,
        ranking_a: Sequence[str],
        ranking_b: Sequence[str],
        k: int,
        unit: str | int,
        *,
        impression: str | int = "",
    ) -> Interleaved:
        """One ranking of both, for a reader; see `team_draft`.

        The coin is a hash of the unit and `impression`, which names this showing (a query and its
        time, a request's id): the same one gives the same ranking again, on every machine.
        """
        shown = unit_id(unit)
        if impression != "":
            shown = f"{shown}\0{unit_id(impression)}"
        return team_draft(
            ranking_a, ranking_b, k, lambda turn: self._router.share(f"{shown}\0{turn}") < 0.5
        )

    def record_clicks(
        self,
        unit: str | int,
        shown: Interleaved,
        clicked: Iterable[str],
        *,
        time: float | datetime | None = None,
    ) -> None:
        """Record which of the documents of one interleaved ranking were clicked, or none.

        Judged documents may stand for clicks in an offline trial. Raises UsageError for a test that
        is not interleaved and for documents that were not shown.
        """
        if not self.plan.interleave:
            raise UsageError(
                "this test splits its units: make it with ABTest(..., interleave=True)"
            )
        a, b = shown.credit(clicked)
        record = {"time": _seconds(time), "unit": unit_id(unit), "clicks": {"a": a, "b": b}}
        self._keep(record)

    def report(self, *, level: float = 0.95, wanted: Mapping[str, float] | None = None) -> Report:
        """What the records show so far; `print` it. `wanted` stands in for the plan's."""
        if self._journal is not None:
            return report(self._journal.path, level=level, wanted=wanted)
        return _report(self.plan, enumerate(self._memory, 1), "records", level, wanted)

    def close(self) -> None:
        """Force the journal to the disk and close it."""
        if self._journal is not None:
            self._journal.close()

    def __enter__(self) -> ABTest:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _keep(self, record: dict[str, Any]) -> None:
        if self._journal is None:
            self._memory.append(record)
            return
        import orjson

        self._journal.append(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))

    def _values(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """The measured ones as plain numbers, checked against the plan."""
        if not isinstance(metrics, Mapping) or not metrics:
            raise UsageError(f'metrics must be a mapping such as {{"click": 1}}, not {metrics!r}')
        values: dict[str, float] = {}
        for name, value in metrics.items():
            if not isinstance(name, str) or not name:
                raise UsageError(f"a metric's name must be text, not {name!r}")
            if self.plan.metrics and name not in self.plan.metrics:
                known = list(self.plan.metrics)
                raise UsageError(f"metric {name!r} is not in the plan{near(name, known)}")
            if value is None:
                continue
            if not isinstance(value, Real) or not math.isfinite(value):
                raise UsageError(f"metric {name!r} must be a finite number or None, not {value!r}")
            bounds = self.plan.bounds(name)
            if bounds is not None and not bounds[0] <= value <= bounds[1]:
                raise UsageError(
                    f"metric {name!r} is {value!r}, outside its bounds {bounds[0]} to {bounds[1]}"
                )
            values[name] = float(value)
        return values


def report(
    path: str | PathLike[str],
    *,
    level: float = 0.95,
    wanted: Mapping[str, float] | None = None,
) -> Report:
    """The report of a test from its journal, which may be growing. Raises UsageError."""
    journal = Path(path)
    plan = read_plan(journal)
    return _report(plan, read_records(journal), str(journal), level, wanted)


def _report(
    plan: Plan, lines: Lines, where: str, level: float, wanted: Mapping[str, float] | None
) -> Report:
    if not 0 < level < 1:
        raise UsageError(f"level must be between 0 and 1, not {level!r}")
    if wanted is not None:
        plan = Plan(**{**vars(plan), "wanted": dict(wanted)})
    if plan.interleave:
        return preference_report(plan, gather_clicks(lines, where), level)
    return split_report(plan, gather(lines, where, plan), level)


def _labels(a: str | Retrieve, b: str | Retrieve) -> tuple[str, str]:
    """Names for people: as given, else a function's own."""
    for system in (a, b):
        if not isinstance(system, str) and not callable(system):
            raise UsageError(f"a and b are names or functions retrieve(query, k), not {system!r}")
    own = [s if isinstance(s, str) else getattr(s, "__name__", "") for s in (a, b)]
    given = [isinstance(system, str) for system in (a, b)]
    alike = own[0] == own[1]
    labels = [
        name if named or (name.isidentifier() and not alike) else arm
        for name, named, arm in zip(own, given, "ab", strict=True)
    ]
    return labels[0], labels[1]


def _seconds(time: float | datetime | None) -> float:
    """Seconds since 1970. Raises UsageError."""
    if time is None:
        return clock.time()
    seconds = time.timestamp() if isinstance(time, datetime) else time
    known = isinstance(seconds, Real) and not isinstance(seconds, bool)
    if not (known and EARLIEST <= seconds <= LATEST):
        raise UsageError(f"time must be seconds since 1970 or a datetime, not {time!r}")
    return float(seconds)
