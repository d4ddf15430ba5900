"""The lines of an A/B test's event log: its plan, fixed before it begins, and then records."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Annotated, TypedDict

import msgspec
from msgspec import Meta

from harness.errors import UsageError, near
from harness.extensions.online.abtest.routing import Arm, Router
from harness.io.records import Record, to_plain
from harness.stats.sequential import TUNED_FOR

Bounds = tuple[float, float] | None
_NAME = re.compile(r"[^\x00-\x1f\x7f]{1,200}")


class PlanOptions(TypedDict, total=False):
    """Arguments of an A/B test that have a default in its plan; see `ABTestPlan`."""

    salt: str
    randomization_unit: str
    one_observation_per_unit: bool
    interleave: bool
    min_effects: Mapping[str, float] | None
    on_failure: Mapping[str, float | None] | None
    expected_n: int


class ABTestPlan(Record, omit_defaults=False, tag_field="log", tag="abtest/1"):
    """The plan of an A/B test.

    `split` is the share of units that are routed to a. `randomization_unit` names what is routed as
    a whole ("user", "query"). `one_observation_per_unit` promises that each unit is observed once.
    `metrics` maps the names that may be recorded to (lowest, highest), or None for no bounds; empty
    allows any name, without bounds. `on_failure` is by metric the value of a request whose system
    raised: 0 by default if the bounds are (0, 1), a success or not; None, as for all other metrics:
    no value. `min_effects` is by metric the true difference that the test is to detect.
    `expected_n` is about how many units there will be in all. Raises UsageError for wrong values.
    """

    name: str
    a: str = "a"
    b: str = "b"
    split: float = 0.5
    salt: str = ""
    randomization_unit: str = "user"
    one_observation_per_unit: bool = False
    interleave: bool = False
    metrics: dict[str, Bounds] = msgspec.field(default_factory=dict)
    min_effects: dict[str, float] = msgspec.field(default_factory=dict)
    on_failure: dict[str, float | None] = msgspec.field(default_factory=dict)
    expected_n: int = TUNED_FOR

    def __post_init__(self) -> None:
        for what in ("name", "a", "b", "randomization_unit"):
            value = getattr(self, what)
            if not (_NAME.fullmatch(value) and value.strip()):
                raise UsageError(f"A/B test: {what} must be a text of one line, not {value!r}")
        if self.a == self.b:
            raise self._error(f"both systems are named {self.a!r}; give them different names")
        if not 0 < self.split < 1:
            raise self._error(f"split must be between 0 and 1 (the share of a), not {self.split!r}")
        if self.interleave and (
            self.split != 0.5 or self.metrics or self.min_effects or self.on_failure
        ):
            raise self._error(
                "an interleaved test compares clicks, each reader sees both systems: it has no "
                "split, metrics or min_effects"
            )
        if self.expected_n < 1:
            raise self._error(f"expected_n must be a number of units, not {self.expected_n}")
        self._check_metrics()

    def _check_metrics(self) -> None:
        for metric, bounds in self.metrics.items():
            known = bounds is None or -math.inf < bounds[0] < bounds[1] < math.inf
            if not (_NAME.fullmatch(metric) and known):
                raise self._error(
                    f"metric {metric!r} has bounds {bounds!r}; give (lowest, highest), or None "
                    "for no bounds"
                )
        for argument in ("min_effects", "on_failure"):
            for metric in getattr(self, argument):
                if self.metrics and metric not in self.metrics:
                    known_names = near(metric, list(self.metrics))
                    raise self._error(f"{argument} has an unknown metric {metric!r}{known_names}")
        for metric, effect in self.min_effects.items():
            if not (effect and math.isfinite(effect)):
                raise self._error(
                    f"min_effects of {metric!r} must be a number other than 0, not {effect!r}"
                )
        for metric, value in self.on_failure.items():
            low, high = self.metrics.get(metric) or (-math.inf, math.inf)
            if value is not None and not (math.isfinite(value) and low <= value <= high):
                raise self._error(
                    f"a failure cannot count as {value!r} in {metric!r}: give a number within its "
                    "bounds, or None for no value"
                )

    def _error(self, message: str) -> UsageError:
        return UsageError(f"A/B test {self.name!r}: {message}")

    def failure_values(self) -> dict[str, float]:
        """Returns the value of a failed request by metric; see `on_failure`."""
        successes = {name: 0.0 for name, bounds in self.metrics.items() if bounds == (0, 1)}
        counted = {**successes, **self.on_failure}
        return {name: float(value) for name, value in counted.items() if value is not None}

    def router(self) -> Router:
        """Returns the router of units to arms, a function of name, salt and split alone."""
        return Router(self.name, self.salt, self.split)

    def bounds(self, metric: str) -> Bounds:
        """Returns the bounds of a metric, None if it has none."""
        return self.metrics.get(metric)

    def check_same(self, other: ABTestPlan, where: str) -> None:
        """Raises UsageError that names the first field in which another plan differs."""
        mine, theirs = to_plain(self), to_plain(other)
        for key, value in mine.items():
            if theirs[key] != value:
                raise UsageError(
                    f"{where}: this test was begun with {key}={theirs[key]!r}, not {value!r}; "
                    "the plan of a running test cannot change: use another name and log"
                )


# -- Records ---------------------------------------------------------------------------------------

EARLIEST, LATEST = -62_135_596_800, 253_402_300_799
"""The years 1 to 9999, in seconds since 1970: the range of times."""

Time = Annotated[float, Meta(ge=EARLIEST, le=LATEST)]
Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class Observation(Record):
    """What was measured of one request of a unit; `error`: the kind of error of its system."""

    time: Time
    unit_id: str
    arm: Arm
    metrics: dict[str, float]
    error: str | None = None


class Clicks(Record):
    """Clicks on the documents of each team."""

    a: Count
    b: Count


class Impression(Record):
    """Clicks on an interleaved ranking, or the `error` of the system of `arm`."""

    time: Time
    unit_id: str
    clicks: Clicks | None = None
    arm: Arm | None = None
    error: str | None = None

    def __post_init__(self) -> None:
        if (self.clicks is None) == (self.error is None):
            raise ValueError("one of clicks and error is needed")
        if (self.arm is None) != (self.error is None):
            raise ValueError("arm and error are needed together")

    @property
    def credit(self) -> Clicks:
        """The clicks; a failed system has lost the impression, with no click against one."""
        if self.clicks is not None:
            return self.clicks
        return Clicks(a=int(self.arm == "b"), b=int(self.arm == "a"))
