"""What a monitor raises an alarm for.

The rules come from TOML, or from texts such as `recall@10 < 0.7`:

    window = 1000                  # requests
    metrics = ["recall@10", "mrr@10", "precision@10"]

    [[at_least]]                   # a mean over the window
    metric = "recall@10"
    value = 0.7
    slice = "temporal"             # an ability; "all" where it is not given
    n = 100                        # nothing is said over fewer requests

    [[at_most]]                    # the same, from above
    metric = "no_result"
    value = 0.05

    [[change]]                     # worse than a reference; see `harness.online.monitor.alerting`
    metric = "recall@10"
    reference = "first"            # what came first; or a number, or a run folder
    period = "day"                 # by means of days; or of hours or weeks
    alpha = 0.05

An alarm of a threshold stands until the mean is back by a tenth of the way to perfection (0.73 for
at least 0.7, 0.045 for at most 0.05; `clear` sets another value), so that it does not flicker.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.files import fields_of, known_keys, read_toml, tables
from harness.online.monitor.calendar import PERIODS
from harness.scoring.metrics import Metric

RATES = ("no_result", "abstained", "failed", "false_evidence")
TIMES = ("p50", "p95", "p99")
OTHERS = ("drift", "unseen_words", "click_rate", "first_click_mrr", "rating")
METRICS = ("recall@10", "precision@10", "mrr@10")
"""What is measured where nothing else is asked for."""

FIRST, BATCH = 2000, 10
"""Of a test by requests: how many are the reference, and how many count as one observation."""

_TEXT = re.compile(r"\s*([^\s<>=\[\]]+)\s*(?:\[([^\]]+)\])?\s*(<|>)\s*([-+.\deE]+)\s*")


@dataclass(frozen=True)
class Threshold:
    """A bound of a number over the window; `above` is True for at least."""

    metric: str
    value: float
    above: bool
    slice: str = "all"
    n: int = 100
    clear: float | None = None

    @property
    def name(self) -> str:
        """What is alarmed for: `recall@10 [temporal] < 0.7`."""
        where = "" if self.slice == "all" else f" [{self.slice}]"
        return f"{self.metric}{where} {'<' if self.above else '>'} {self.value:g}"

    def broken(self, value: float) -> bool:
        """Whether a value is on the wrong side."""
        return value < self.value if self.above else value > self.value

    def cleared(self, value: float) -> bool:
        """Whether a value is far enough on the right side to end an alarm."""
        if self.clear is not None:
            back = self.clear
        elif self.above:
            best = 1.0 if self.value < 1 else self.value
            back = self.value + 0.1 * (best - self.value)
        else:
            back = self.value - 0.1 * abs(self.value)
        return value >= back if self.above else value <= back


@dataclass(frozen=True)
class ChangeRule:
    """A test of one metric or rate against a reference: "first", a number, or a run folder.

    `worse`: drop or rise; by default drop for metrics and rise for rates. What is tested are means
    of each `period`, hour, day (the default) or week, the first `periods` of which are the
    reference "first"; or, where one of these is given, of `batch` requests in a row, the reference
    being the `first` requests.
    """

    metric: str
    reference: str | float = "first"
    first: int | None = None
    alpha: float = 0.05
    batch: int | None = None
    worse: str = ""
    period: str = ""
    periods: int | None = None

    @property
    def drop(self) -> bool:
        """Whether lower is worse."""
        return (self.worse or ("rise" if self.metric in RATES else "drop")) == "drop"

    @property
    def name(self) -> str:
        """What is alarmed for: `recall@10 dropped`."""
        return f"{self.metric} {'dropped' if self.drop else 'rose'}"

    @property
    def by_recalls(self) -> bool:
        """Whether so many requests in a row are taken together, and not those of a period."""
        return self.first is not None or self.batch is not None

    @property
    def of_run(self) -> bool:
        """Whether the reference is a run."""
        return isinstance(self.reference, str) and self.reference != "first"

    @property
    def key(self) -> str:
        """By what a state knows its test again.

        A test by requests against the stream itself, or a number, is the one that it was before
        there were periods, and keeps that version's key.
        """
        if not self.by_recalls or self.of_run:
            return repr(self)
        old = {"metric": self.metric, "reference": self.reference, "first": self.first or FIRST}
        old |= {"alpha": self.alpha, "batch": self.batch or BATCH, "worse": self.worse}
        return f"ChangeRule({', '.join(f'{name}={value!r}' for name, value in old.items())})"


@dataclass(frozen=True)
class Rules:
    """Everything that a monitor watches.

    `changes` None: recall, where there are labels, and the rate of requests without a result.
    """

    thresholds: tuple[Threshold, ...] = ()
    changes: tuple[ChangeRule, ...] | None = None


@dataclass(frozen=True)
class MonitorSettings:
    """A monitor's settings of a file; None where the file does not say."""

    rules: Rules = Rules()
    window: int | None = None
    metrics: tuple[str, ...] | None = None
    bucket: str | None = None
    log: bool = False  # the file says too how lines are read; see harness.online.logs.field_mapping

    @classmethod
    def read(cls, path: Path) -> MonitorSettings:
        """Raises UsageError for a file that is missing, broken or has unknown keys."""
        values = read_toml(path, "--config")
        known = ["window", "metrics", "bucket", "at_least", "at_most", "change", "log"]
        known_keys(path, values, known)
        thresholds = [
            _row(path, Threshold, row, above=name == "at_least")
            for name in ("at_least", "at_most")
            for row in tables(path, values, name)
        ]
        changes = [_row(path, ChangeRule, row) for row in tables(path, values, "change")]
        metrics = values.get("metrics")
        if metrics is not None and not (
            isinstance(metrics, list) and all(isinstance(one, str) for one in metrics)
        ):
            raise UsageError(f"--config {path}: metrics must be a list of texts, not {metrics!r}")
        for key, kind in (("window", int), ("bucket", str)):
            if not isinstance(values.get(key, kind()), kind):
                raise UsageError(f"--config {path}: {key} must not be {values[key]!r}")
        rules = Rules(tuple(thresholds), tuple(changes) if "change" in values else None)
        return cls(
            rules,
            values.get("window"),
            None if metrics is None else tuple(metrics),
            values.get("bucket"),
            "log" in values,
        )


def threshold(text: str) -> Threshold:
    """The alarm `recall@10 < 0.7`, `recall@10[temporal] < 0.6` or `p95 > 0.5`. UsageError else."""
    found = _TEXT.fullmatch(text)
    try:
        if found is None:
            raise ValueError
        metric, where, sign, value = found.groups()
        rule: Threshold = checked(Threshold(metric, float(value), sign == "<", where or "all"))
        return rule
    except ValueError:
        raise UsageError(
            f"{text!r} is no alarm; write `recall@10 < 0.7`, `recall@10[temporal] < 0.6` or "
            "`p95 > 0.5` (seconds)"
        ) from None


def checked(rule: Any) -> Any:
    """A rule with its metric in the form that it is known by. Raises UsageError."""
    known = [*RATES, *TIMES, *OTHERS]
    if rule.metric not in known:
        try:
            rule = replace(rule, metric=str(Metric.parse(rule.metric)))
        except UsageError as error:
            raise UsageError(f"{error}; or one of {', '.join(known)}") from None
    if isinstance(rule, Threshold):
        if not abs(rule.value) < float("inf"):
            raise UsageError(f"{rule.metric}: the value must be a number, not {rule.value}")
        if rule.n < 1:
            raise UsageError(f"{rule.name}: n must be 1 or more, not {rule.n}")
        return rule
    if rule.metric in (*TIMES, *OTHERS):
        raise UsageError(
            f"[[change]] {rule.metric}: a change is tested of values between 0 and 1, metrics and "
            f"{', '.join(RATES)}; use a threshold"
        )
    if rule.worse not in ("", "drop", "rise"):
        raise UsageError(f"[[change]] worse must be drop or rise, not {rule.worse!r}")
    if not 0 < rule.alpha < 1:
        raise UsageError(f"[[change]] alpha must be between 0 and 1, not {rule.alpha}")
    if isinstance(rule.reference, float | int) and not 0 <= rule.reference <= 1:
        raise UsageError(f"[[change]] reference must be from 0 to 1, not {rule.reference}")
    _check_observations(rule)
    return rule


def _check_observations(rule: ChangeRule) -> None:
    """What is one observation of a test of change, and how many are its reference."""
    if rule.by_recalls:
        batch, first = rule.batch or BATCH, rule.first or FIRST
        if rule.period or rule.periods is not None:
            raise UsageError(
                "[[change]] first and batch count requests, period and periods go by the calendar: "
                "name those of one way"
            )
        if rule.of_run and rule.batch is not None and rule.batch < 100:
            raise UsageError(
                "[[change]] batch, with a run as reference, is how many requests one look at its "
                f"queries is about: 100 or more, not {rule.batch}"
            )
        if min(batch, first) < 1 or (not rule.of_run and first < 20 * batch):
            raise UsageError("[[change]] batch must be 1 or more, and first 20 batches or more")
        return
    if rule.period and rule.period not in PERIODS:
        raise UsageError(f"[[change]] period must be {', '.join(PERIODS)}, not {rule.period!r}")
    cycle = PERIODS[rule.period or "day"].cycle
    if rule.periods is not None and rule.periods < 2 * cycle:
        raise UsageError(
            f"[[change]] periods must be {2 * cycle} or more, two weeks, not {rule.periods}"
        )


def _row(path: Path, kind: Any, row: dict[str, Any], **given: Any) -> Any:
    """A Threshold or a ChangeRule from its table."""
    values = fields_of(path, kind, row, **given)
    try:
        return checked(kind(**values))
    except UsageError as error:
        raise UsageError(f"--config {path}: {error}") from None
