"""The rules of a monitor: thresholds, and change tests (docs/reference/toml/monitor.md).

To avoid flicker, an alert of a threshold is active until the mean has recovered by a tenth of the
distance to the best value (0.73 for at least 0.7, 0.045 for at most 0.05), or to `clear_at`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import msgspec
import numpy as np
from msgspec import Meta
from msgspec.structs import force_setattr

from harness.errors import UsageError, suggest
from harness.extensions.online.logs.field_mapping import FieldMapping
from harness.extensions.online.monitor.period_test import PERIODS
from harness.extensions.online.monitor.window import Labels
from harness.io.records import Record, convert, encode, read_toml_record
from harness.schema import Ability
from harness.scoring.metrics import Metric

RATES = ("no_result", "abstained", "failed", "false_positive")
TIMES = ("p50", "p95", "p99")
OTHERS = ("drift", "unseen_words", "click_rate", "first_click_mrr", "rating")
METRICS = ("recall@10", "precision@10", "mrr@10")
"""The default metrics."""

REFERENCE_REQUESTS, BATCH_SIZE = 2000, 10
"""Defaults of a test by requests: requests in the reference, and in one observation."""

_TEXT = re.compile(r"\s*([^\s<>=\[\]]+)\s*(?:\[([^\]]+)\])?\s*(<|>)\s*([-+.\deE]+)\s*")


class AlertThreshold(Record):
    """A bound on a statistic of the window: `AlertBelow` or `AlertAbove`."""

    lower_is_worse: ClassVar[bool]
    metric: str
    value: float
    slice: str = "all"
    min_n: Annotated[int, Meta(ge=1)] = 100
    clear_at: float | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "metric", _canonical(self.metric))
        if not math.isfinite(self.value):
            raise ValueError(f"the value must be a number, not {self.value}")

    @property
    def name(self) -> str:
        """The name of the alert: `recall@10 [temporal] < 0.7`."""
        where = "" if self.slice == "all" else f" [{self.slice}]"
        return f"{self.metric}{where} {'<' if self.lower_is_worse else '>'} {self.value:g}"

    def is_violated(self, value: float) -> bool:
        """Tests whether a value violates the bound."""
        return value < self.value if self.lower_is_worse else value > self.value

    def is_cleared(self, value: float) -> bool:
        """Tests whether a value is good enough to end an alert."""
        if self.clear_at is not None:
            back = self.clear_at
        elif self.lower_is_worse:
            best = 1.0 if self.value < 1 else self.value
            back = self.value + 0.1 * (best - self.value)
        else:
            back = self.value - 0.1 * abs(self.value)
        return value >= back if self.lower_is_worse else value <= back


class AlertBelow(AlertThreshold):
    """An alert if the statistic is below `value`."""

    lower_is_worse: ClassVar[bool] = True


class AlertAbove(AlertThreshold):
    """An alert if the statistic is above `value`."""

    lower_is_worse: ClassVar[bool] = False


class ChangeRule(Record):
    """A test of one metric or rate against a reference: "initial", a number, or a run folder.

    `direction`: drop or rise; by default drop for metrics and rise for rates. It tests the mean of
    each `period`, hour, day (the default) or week, with the first `reference_periods` as the
    reference "initial". If `batch_size` or `reference_requests` is set, it tests means of
    `batch_size` consecutive requests, with the first `reference_requests` as the reference.
    """

    metric: str
    reference: str | float = "initial"
    alpha: Annotated[float, Meta(gt=0, lt=1)] = 0.05
    direction: Literal["drop", "rise"] | None = None
    period: Literal["hour", "day", "week"] | None = None
    reference_periods: Annotated[int, Meta(ge=1)] | None = None
    batch_size: Annotated[int, Meta(ge=1)] | None = None
    reference_requests: Annotated[int, Meta(ge=1)] | None = None

    def __post_init__(self) -> None:
        force_setattr(self, "metric", _canonical(self.metric))
        if self.metric in (*TIMES, *OTHERS):
            raise ValueError(
                f"{self.metric}: tests of change need values from 0 to 1 (metrics, "
                f"{', '.join(RATES)}); use a threshold"
            )
        if isinstance(self.reference, float | int) and not 0 <= self.reference <= 1:
            raise ValueError(f"reference must be from 0 to 1, not {self.reference}")
        if self.counts_requests:
            self._check_requests()
        elif self.reference_periods is not None:
            least = 2 * PERIODS[self.period or "day"].cycle
            if self.reference_periods < least:
                raise ValueError(
                    f"reference_periods must be {least} or more (two weeks), not "
                    f"{self.reference_periods}"
                )

    def _check_requests(self) -> None:
        batch = self.batch_size or BATCH_SIZE
        if self.period or self.reference_periods is not None:
            raise ValueError(
                "reference_requests and batch_size count requests, period and reference_periods "
                "count calendar periods; set only one kind"
            )
        if self.compares_run and self.batch_size is not None and batch < 100:
            raise ValueError(
                "batch_size with a run as the reference is the number of requests per look: 100 or "
                f"more, not {batch}"
            )
        if not self.compares_run and (self.reference_requests or REFERENCE_REQUESTS) < 20 * batch:
            raise ValueError("reference_requests must be 20 times batch_size or more")

    @property
    def drop(self) -> bool:
        """True if lower is worse."""
        return (self.direction or ("rise" if self.metric in RATES else "drop")) == "drop"

    @property
    def name(self) -> str:
        """The name of the alert: `recall@10 dropped`."""
        return f"{self.metric} {'dropped' if self.drop else 'rose'}"

    @property
    def counts_requests(self) -> bool:
        """True if an observation is a number of consecutive requests instead of a period."""
        return self.reference_requests is not None or self.batch_size is not None

    @property
    def compares_run(self) -> bool:
        """True if the reference is a run."""
        return isinstance(self.reference, str) and self.reference != "initial"

    @property
    def key(self) -> str:
        """The key of the test in a state file."""
        return encode(self).decode()


@dataclass(frozen=True)
class AlertRules:
    """All rules of a monitor.

    `changes` None: tests of the first metric, if there are labels, and of the rate of requests
    without a result.
    """

    thresholds: tuple[AlertThreshold, ...] = ()
    changes: tuple[ChangeRule, ...] | None = None


class MonitorConfig(Record):
    """The TOML file of a monitor; None: not set."""

    window: int = 1000
    metrics: list[str] | None = None
    bucket: str = "hour"
    at_least: list[AlertBelow] = msgspec.field(default_factory=list)
    at_most: list[AlertAbove] = msgspec.field(default_factory=list)
    change: list[ChangeRule] | None = None
    log: FieldMapping | None = None

    @property
    def rules(self) -> AlertRules:
        """The rules of the file."""
        changes = None if self.change is None else tuple(self.change)
        return AlertRules((*self.at_least, *self.at_most), changes)

    @classmethod
    def read(cls, path: Path) -> MonitorConfig:
        """Reads a file. Raises UsageError for one that is missing, broken or has unknown keys."""
        return read_toml_record(path, cls, "--config")


def parse_threshold(text: str) -> AlertThreshold:
    """Parses `recall@10 < 0.7`, `recall@10[temporal] < 0.6` or `p95 > 0.5`. Raises UsageError."""
    try:
        match = _TEXT.fullmatch(text)
        value = float(match[4]) if match else None
    except ValueError:
        value = None
    if match is None or value is None:
        raise UsageError(
            f"{text!r} is not an alert rule; write `recall@10 < 0.7`, `recall@10[temporal] < 0.6` "
            "or `p95 > 0.5` (seconds)"
        )
    kind = AlertBelow if match[3] == "<" else AlertAbove
    return convert({"metric": match[1], "value": value, "slice": match[2] or "all"}, kind, text)


def _canonical(metric: str) -> str:
    """Returns the canonical name of a metric or rate. Raises ValueError."""
    known = [*RATES, *TIMES, *OTHERS]
    if metric in known:
        return metric
    try:
        return str(Metric.parse(metric))
    except UsageError as error:
        raise ValueError(f"{error}; or one of {', '.join(known)}") from None


# -- Rules that can never fire ---------------------------------------------------------------------

_BY_WORDS = ("drift", "unseen_words")
_UNBOUNDED = (*TIMES, *_BY_WORDS, "rating")


def is_metric(name: str) -> bool:
    """Tests for a metric of rankings, which needs labels."""
    return name not in (*RATES, *TIMES, *OTHERS)


def validate_rules(
    rules: Sequence[AlertThreshold | ChangeRule],
    metrics: Sequence[str],
    labels: Labels | None,
    window: int,
    drifts: bool,
) -> None:
    """Raises UsageError for the first rule that can never fire.

    `metrics` are measured, `window` is its size in requests; `drifts`: there are enough labelled
    queries to measure drift.
    """
    for rule in rules:
        problems = [*_missing(rule.metric, metrics, labels, drifts)]
        if isinstance(rule, AlertThreshold):
            problems += _unreachable(rule, labels, window)
        elif rule.reference == (0 if rule.drop else 1):
            problems.append(
                f"can never fire: nothing is worse than the reference {rule.reference:g}"
            )
        if problems:
            raise UsageError(f"{rule.name}: {problems[0]}")


def _missing(
    metric: str, metrics: Sequence[str], labels: Labels | None, drifts: bool
) -> Iterator[str]:
    """Yields the reasons why the metric cannot be measured with these labels."""
    if is_metric(metric) and labels is not None and metric not in metrics:
        yield f"is not a measured metric ({', '.join(metrics)}); add it to metrics"
    if not is_metric(metric) and metric not in (*_BY_WORDS, "false_positive"):
        return
    if labels is None:
        without = ", ".join(name for name in (*RATES, *TIMES) if name != "false_positive")
        yield (
            "needs labels: add --dataset (labels= in Python); without labels use "
            f"{without} or feedback"
        )
    elif is_metric(metric) and not labels.has_evidence.any():
        yield "can never be measured: no labelled query has a relevant document"
    elif metric == "false_positive" and not labels.unanswerable.any():
        yield f"can never be measured: no labelled query has the ability {Ability.ABSTENTION}"
    elif metric in _BY_WORDS and not drifts:
        yield "can never be measured: too few labelled queries have a text"


def _unreachable(rule: AlertThreshold, labels: Labels | None, window: int) -> Iterator[str]:
    """Yields the reasons why no value can violate the threshold."""
    if rule.min_n > window:
        yield (
            f"needs {rule.min_n} requests, but the window has {window}; set a larger --window, or "
            "a smaller min_n in [[at_least]] or [[at_most]]"
        )
    if rule.metric not in _UNBOUNDED and not (
        rule.value > 0 if rule.lower_is_worse else rule.value < 1
    ):
        yield f"can never fire: {rule.metric} is always from 0 to 1"
    if rule.metric in TIMES and rule.lower_is_worse and rule.value <= 0:
        yield "can never fire: a time is never below 0"
    if rule.slice == "all":
        return
    if rule.metric in OTHERS:
        yield f"{rule.metric} is measured over the whole window; remove [{rule.slice}]"
    if rule.metric == "false_positive" and rule.slice != Ability.ABSTENTION:
        yield f"is measured only for the ability {Ability.ABSTENTION}; remove [{rule.slice}]"
    if labels is None or not is_metric(rule.metric) or not any(labels.abilities):
        return  # rates and times use the log's abilities
    if rule.slice not in labels.abilities:
        known = suggest(rule.slice, ["all", *sorted({*labels.abilities} - {""})])
        yield f"no labelled query has the ability {rule.slice!r}{known}"
    elif not labels.has_evidence[np.array(labels.abilities) == rule.slice].any():
        yield f"can never be measured: no {rule.slice} query has a relevant document"
