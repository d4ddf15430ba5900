"""What is fixed before a test begins, and stands in the first line of its journal."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from harness.errors import UsageError, near
from harness.live.abtest.routing import Router
from harness.statistics.sequential import TUNED_FOR

Bounds = tuple[float, float] | None
_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,200}")


@dataclass(frozen=True)
class Plan:
    """The plan of a test.

    `split` is the share of units that go to a. `unit` says what a unit is, for people ("user",
    "query"). `once` promises that a unit has one record. `metrics` maps the names that may be
    recorded to (lowest, highest) or None for no bounds; empty allows any name, without bounds.
    `failed` is by metric what a request counts as whose system raised: 0 where nothing is said and
    the bounds are (0, 1), a success or not; None, and any other metric: it has no value there.
    `wanted` is by metric the true difference that the test is to show. `expected` is about how many
    units there will be in all. Raises UsageError for a plan that cannot be.
    """

    name: str
    a: str = "a"
    b: str = "b"
    split: float = 0.5
    salt: str = ""
    unit: str = "user"
    once: bool = False
    interleave: bool = False
    metrics: Mapping[str, Bounds] = field(default_factory=dict)
    wanted: Mapping[str, float] = field(default_factory=dict)
    failed: Mapping[str, float | None] = field(default_factory=dict)
    expected: int = TUNED_FOR

    def __post_init__(self) -> None:
        for what in ("name", "a", "b", "unit"):
            value = getattr(self, what)
            if not (isinstance(value, str) and _NAME.fullmatch(value) and value.strip()):
                raise UsageError(f"A/B test: {what} must be a text of one line, not {value!r}")
        if self.a == self.b:
            raise UsageError(
                f"A/B test {self.name!r}: both systems are named {self.a!r}; give names"
            )
        if not isinstance(self.salt, str):
            raise UsageError(f"A/B test {self.name!r}: salt must be text, not {self.salt!r}")
        if not (_number(self.split) and 0 < self.split < 1):
            raise UsageError(
                f"A/B test {self.name!r}: split must be between 0 and 1 (the share of a), "
                f"not {self.split!r}"
            )
        if self.interleave and (self.split != 0.5 or self.metrics or self.wanted or self.failed):
            raise UsageError(
                f"A/B test {self.name!r}: an interleaved test compares clicks, each reader sees "
                "both systems: it has no split, metrics or wanted differences"
            )
        if not (_number(self.expected) and self.expected >= 1):
            raise UsageError(
                f"A/B test {self.name!r}: expected must be a number of units, not {self.expected!r}"
            )
        self._check_metrics()

    def _check_metrics(self) -> None:
        for metric, bounds in self.metrics.items():
            known = bounds is None or (
                isinstance(bounds, tuple | list)
                and len(bounds) == 2
                and all(map(_number, bounds))
                and bounds[0] < bounds[1]
            )
            if not (isinstance(metric, str) and _NAME.fullmatch(metric) and known):
                raise UsageError(
                    f"A/B test {self.name!r}: metric {metric!r} has bounds {bounds!r}; give "
                    "(lowest, highest), or None where there are none"
                )
        for metric, difference in self.wanted.items():
            if self.metrics and metric not in self.metrics:
                raise UsageError(
                    f"A/B test {self.name!r}: wanted names {metric!r}, which is no metric of it"
                    + near(metric, list(self.metrics))
                )
            if not (_number(difference) and difference):
                raise UsageError(
                    f"A/B test {self.name!r}: the difference wanted in {metric!r} must be a "
                    f"number other than 0, not {difference!r}"
                )

        for metric, value in self.failed.items():
            bounds = self.metrics.get(metric)
            if self.metrics and metric not in self.metrics:
                raise UsageError(
                    f"A/B test {self.name!r}: failed names {metric!r}, which is no metric of it"
                    + near(metric, list(self.metrics))
                )
            if value is not None and not (
                _number(value) and (bounds is None or bounds[0] <= value <= bounds[1])
            ):
                raise UsageError(
                    f"A/B test {self.name!r}: a failure cannot count as {value!r} in {metric!r}: "
                    "give a number within its bounds, or None for no value"
                )

    def of_failure(self) -> dict[str, float]:
        """What a request whose system raised counts as, by metric; see `failed`."""
        successes = {name: 0.0 for name, bounds in self.metrics.items() if bounds == (0, 1)}
        counted = {**successes, **self.failed}
        return {name: float(value) for name, value in counted.items() if value is not None}

    def router(self) -> Router:
        """What deals units to the arms, by name, salt and split alone."""
        return Router(self.name, self.salt, self.split)

    def bounds(self, metric: str) -> Bounds:
        """The bounds of a metric, None where it has none."""
        return self.metrics.get(metric)

    def record(self) -> dict[str, Any]:
        """The plan as the first line of a journal."""
        bounds = {name: list(b) if b else None for name, b in self.metrics.items()}
        own = {"metrics": bounds, "wanted": dict(self.wanted), "failed": dict(self.failed)}
        return {"abtest": 1, **asdict(self), **own}

    @classmethod
    def from_record(cls, record: Any, where: str) -> Plan:
        """Read the first line of a journal. Raises UsageError that names `where`."""
        if not isinstance(record, dict) or "abtest" not in record:
            raise UsageError(f"{where}: not the journal of an A/B test (its first line is no plan)")
        if record["abtest"] != 1:
            raise UsageError(
                f"{where}: a journal of version {record['abtest']!r}; this harness reads version 1"
            )
        known = set(cls.__dataclass_fields__)
        given = {key: value for key, value in record.items() if key != "abtest"}
        if unknown := sorted(set(given) - known):
            raise UsageError(f"{where}: the plan in its first line has unknown fields {unknown}")
        try:
            bounds = {k: tuple(v) if v else None for k, v in dict(given.pop("metrics", {})).items()}
            return cls(**{**given, "metrics": bounds})
        except (TypeError, ValueError, AttributeError) as error:
            raise UsageError(f"{where}: the plan in its first line is damaged ({error})") from None

    def same_as(self, other: Plan, where: str) -> None:
        """Raises UsageError that names the first thing in which a journal's plan is another."""
        mine, theirs = self.record(), other.record()
        for key, value in mine.items():
            if theirs[key] != value:
                raise UsageError(
                    f"{where}: this test was begun with {key}={theirs[key]!r}, not {value!r}; "
                    "a test cannot change on its way: take another name and journal"
                )


def _number(value: object) -> bool:
    """Whether it is a number that a float can be; an int may have any number of digits."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -sys.float_info.max <= value <= sys.float_info.max
