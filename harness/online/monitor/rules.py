"""The rules of a monitor: thresholds, and tests of change.

They come from TOML, or from texts such as `recall@10 < 0.7`:

    window = 1000                  # requests
    metrics = ["recall@10", "mrr@10", "precision@10"]

    [[at_least]]                   # a mean over the window
    metric = "recall@10"
    value = 0.7
    slice = "temporal"             # an ability; "all" if missing
    min_n = 100                    # not evaluated over fewer requests

    [[at_most]]                    # the same, from above
    metric = "no_result"
    value = 0.05

    [[change]]                     # worse than a reference; see `harness.online.monitor.alerting`
    metric = "recall@10"
    reference = "initial"          # the first periods; or a number, or a run folder
    period = "day"                 # by means of days; or of hours or weeks
    alpha = 0.05

An alert of a threshold is active until the mean is back by a tenth of the way to perfection (0.73
for at least 0.7, 0.045 for at most 0.05; `clear_at` sets another value), so that it does not
flicker.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TypeVar

import msgspec

from harness.errors import UsageError
from harness.online.logs.field_mapping import FieldMapping
from harness.online.monitor.calendar import PERIODS
from harness.records.base import Record, encode, read_toml_record
from harness.scoring.metrics import Metric

RATES = ("no_result", "abstained", "failed", "false_positive")
TIMES = ("p50", "p95", "p99")
OTHERS = ("drift", "unseen_words", "click_rate", "first_click_mrr", "rating")
METRICS = ("recall@10", "precision@10", "mrr@10")
"""The default metrics."""

REFERENCE_REQUESTS, BATCH_SIZE = 2000, 10
"""Defaults of a test by requests: the number of the reference, and of one observation."""

_TEXT = re.compile(r"\s*([^\s<>=\[\]]+)\s*(?:\[([^\]]+)\])?\s*(<|>)\s*([-+.\deE]+)\s*")


class Threshold(Record):
    """A bound of a number over the window: `AtLeast` or `AtMost`."""

    above: ClassVar[bool]
    metric: str
    value: float
    slice: str = "all"
    min_n: int = 100
    clear_at: float | None = None

    @property
    def name(self) -> str:
        """The name of the alert: `recall@10 [temporal] < 0.7`."""
        where = "" if self.slice == "all" else f" [{self.slice}]"
        return f"{self.metric}{where} {'<' if self.above else '>'} {self.value:g}"

    def broken(self, value: float) -> bool:
        """Tests whether a value is on the wrong side."""
        return value < self.value if self.above else value > self.value

    def cleared(self, value: float) -> bool:
        """Tests whether a value is far enough on the right side to end an alert."""
        if self.clear_at is not None:
            back = self.clear_at
        elif self.above:
            best = 1.0 if self.value < 1 else self.value
            back = self.value + 0.1 * (best - self.value)
        else:
            back = self.value - 0.1 * abs(self.value)
        return value >= back if self.above else value <= back


class AtLeast(Threshold):
    """An alert if the number is below `value`."""

    above: ClassVar[bool] = True


class AtMost(Threshold):
    """An alert if the number is above `value`."""

    above: ClassVar[bool] = False


class ChangeRule(Record):
    """A test of one metric or rate against a reference: "initial", a number, or a run folder.

    `direction`: drop or rise; by default drop for metrics and rise for rates. It tests means of
    each `period`, hour, day (the default) or week, the first `reference_periods` of which are the
    reference "initial"; or, if one of these is set, means of `batch_size` requests in a row, with
    the first `reference_requests` as the reference.
    """

    metric: str
    reference: str | float = "initial"
    alpha: float = 0.05
    direction: str = ""
    period: str = ""
    reference_periods: int | None = None
    batch_size: int | None = None
    reference_requests: int | None = None

    @property
    def drop(self) -> bool:
        """True if lower is worse."""
        return (self.direction or ("rise" if self.metric in RATES else "drop")) == "drop"

    @property
    def name(self) -> str:
        """The name of the alert: `recall@10 dropped`."""
        return f"{self.metric} {'dropped' if self.drop else 'rose'}"

    @property
    def by_requests(self) -> bool:
        """True if an observation is a number of requests in a row, and not a period."""
        return self.reference_requests is not None or self.batch_size is not None

    @property
    def of_run(self) -> bool:
        """True if the reference is a run."""
        return isinstance(self.reference, str) and self.reference != "initial"

    @property
    def key(self) -> str:
        """The key of the test in a state file."""
        return encode(self).decode()


@dataclass(frozen=True)
class Rules:
    """All rules of a monitor.

    `changes` None: the first metric, if there are labels, and the rate of requests without a
    result.
    """

    thresholds: tuple[Threshold, ...] = ()
    changes: tuple[ChangeRule, ...] | None = None


class MonitorConfig(Record):
    """The TOML file of a monitor; None: not set."""

    window: int | None = None
    metrics: list[str] | None = None
    bucket: str | None = None
    at_least: list[AtLeast] = msgspec.field(default_factory=list)
    at_most: list[AtMost] = msgspec.field(default_factory=list)
    change: list[ChangeRule] | None = None
    log: FieldMapping | None = None

    @property
    def rules(self) -> Rules:
        """The rules of the file."""
        changes = None if self.change is None else tuple(self.change)
        return Rules((*self.at_least, *self.at_most), changes)

    @classmethod
    def read(cls, path: Path) -> MonitorConfig:
        """Reads a file. Raises UsageError for one that is missing, broken or has unknown keys."""
        config = read_toml_record(path, cls, "--config")
        try:
            for threshold in config.rules.thresholds:
                checked_threshold(threshold)
            for change in config.change or ():
                checked_change(change)
        except UsageError as error:
            raise UsageError(f"--config {path}: {error}") from None
        return config


def parse_threshold(text: str) -> Threshold:
    """Parses `recall@10 < 0.7`, `recall@10[temporal] < 0.6` or `p95 > 0.5`. Raises UsageError."""
    match = _TEXT.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        metric, where, sign, value = match.groups()
        kind = AtLeast if sign == "<" else AtMost
        return checked_threshold(kind(metric=metric, value=float(value), slice=where or "all"))
    except ValueError:
        raise UsageError(
            f"{text!r} is no alert rule; write `recall@10 < 0.7`, `recall@10[temporal] < 0.6` or "
            "`p95 > 0.5` (seconds)"
        ) from None


R = TypeVar("R", Threshold, ChangeRule)


def _with_canonical_metric(rule: R) -> R:
    known = [*RATES, *TIMES, *OTHERS]
    if rule.metric in known:
        return rule
    try:
        return msgspec.structs.replace(rule, metric=str(Metric.parse(rule.metric)))
    except UsageError as error:
        raise UsageError(f"{error}; or one of {', '.join(known)}") from None


def checked_threshold(rule: Threshold) -> Threshold:
    """Returns a threshold with its canonical metric. Raises UsageError for wrong values."""
    rule = _with_canonical_metric(rule)
    if not abs(rule.value) < float("inf"):
        raise UsageError(f"{rule.metric}: the value must be a number, not {rule.value}")
    if rule.min_n < 1:
        raise UsageError(f"{rule.name}: min_n must be 1 or more, not {rule.min_n}")
    return rule


def checked_change(rule: ChangeRule) -> ChangeRule:
    """Returns a test of change with its canonical metric. Raises UsageError for wrong values."""
    rule = _with_canonical_metric(rule)
    if rule.metric in (*TIMES, *OTHERS):
        raise UsageError(
            f"[[change]] {rule.metric}: a change is tested of values between 0 and 1, metrics and "
            f"{', '.join(RATES)}; use a threshold"
        )
    if rule.direction not in ("", "drop", "rise"):
        raise UsageError(f"[[change]] direction must be drop or rise, not {rule.direction!r}")
    if not 0 < rule.alpha < 1:
        raise UsageError(f"[[change]] alpha must be between 0 and 1, not {rule.alpha}")
    if isinstance(rule.reference, float | int) and not 0 <= rule.reference <= 1:
        raise UsageError(f"[[change]] reference must be from 0 to 1, not {rule.reference}")
    _check_observations(rule)
    return rule


def _check_observations(rule: ChangeRule) -> None:
    """Checks what is one observation of a test of change, and how many are its reference."""
    if rule.by_requests:
        batch = rule.batch_size or BATCH_SIZE
        first = rule.reference_requests or REFERENCE_REQUESTS
        if rule.period or rule.reference_periods is not None:
            raise UsageError(
                "[[change]] reference_requests and batch_size count requests, period and "
                "reference_periods go by the calendar: set those of one kind"
            )
        if rule.of_run and rule.batch_size is not None and rule.batch_size < 100:
            raise UsageError(
                "[[change]] batch_size, with a run as reference, is the number of requests of one "
                f"look at its queries: 100 or more, not {rule.batch_size}"
            )
        if min(batch, first) < 1 or (not rule.of_run and first < 20 * batch):
            raise UsageError(
                "[[change]] batch_size must be 1 or more, and reference_requests 20 batches or more"
            )
        return
    if rule.period and rule.period not in PERIODS:
        raise UsageError(f"[[change]] period must be {', '.join(PERIODS)}, not {rule.period!r}")
    cycle = PERIODS[rule.period or "day"].cycle
    if rule.reference_periods is not None and rule.reference_periods < 2 * cycle:
        raise UsageError(
            f"[[change]] reference_periods must be {2 * cycle} or more, two weeks, not "
            f"{rule.reference_periods}"
        )
