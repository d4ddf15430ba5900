"""What a monitor raises an alarm for, and the alarms that it raised.

The rules come from TOML, or from texts such as `recall@10 < 0.7`:

    window = 1000                  # recalls
    metrics = ["recall@10", "mrr@10", "precision@10"]

    [[at_least]]                   # a mean over the window
    metric = "recall@10"
    value = 0.7
    slice = "temporal"             # an ability; "all" where it is not given
    n = 100                        # nothing is said over fewer recalls

    [[at_most]]                    # the same, from above
    metric = "no_result"
    value = 0.05

    [[change]]                     # worse than a reference; see `harness.live.monitor.change`
    metric = "recall@10"
    reference = "first"            # the first recalls; or a number, or a run folder
    first = 2000
    alpha = 0.05

An alarm of a threshold stands until the mean is back by a tenth of the way to perfection (0.73 for
at least 0.7, 0.045 for at most 0.05; `clear` sets another value), so that it does not flicker.
"""

from __future__ import annotations

import os
import re
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.files import fields_of, known_keys, read_toml, tables
from harness.scoring.metrics import Metric

RATES = ("no_result", "abstained", "failed", "false_evidence")
TIMES = ("p50", "p95", "p99")
OTHERS = ("drift", "unseen_words", "click_rate", "first_click_mrr", "rating")
METRICS = ("recall@10", "precision@10", "mrr@10")
"""What is measured where nothing else is asked for."""

Alert = dict[str, Any]
"""An event of an alarm, as JSON.

alert (its name), kind, state (raised or cleared), episode, recall (its number), time, value, n, and
`said`, a sentence.
"""

_TEXT = re.compile(r"\s*([^\s<>=\[\]]+)\s*(?:\[([^\]]+)\])?\s*(<|>)\s*([-+.\deE]+)\s*")
_KEPT = 100  # events of the history


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

    `worse`: drop or rise; by default drop for metrics and rise for rates.
    """

    metric: str
    reference: str | float = "first"
    first: int = 2000
    alpha: float = 0.05
    batch: int = 10
    worse: str = ""

    @property
    def drop(self) -> bool:
        """Whether lower is worse."""
        return (self.worse or ("rise" if self.metric in RATES else "drop")) == "drop"

    @property
    def name(self) -> str:
        """What is alarmed for: `recall@10 dropped`."""
        return f"{self.metric} {'dropped' if self.drop else 'rose'}"


@dataclass(frozen=True)
class Rules:
    """Everything that a monitor watches.

    `changes` None: recall, where there are labels, and the rate of recalls without a result.
    """

    thresholds: tuple[Threshold, ...] = ()
    changes: tuple[ChangeRule, ...] | None = None


@dataclass(frozen=True)
class Settings:
    """A monitor's settings of a file; None where the file does not say."""

    rules: Rules = Rules()
    window: int | None = None
    metrics: tuple[str, ...] | None = None
    bucket: str | None = None
    log: bool = False  # the file says too how lines are read; see harness.live.logs.mapping

    @classmethod
    def read(cls, path: Path) -> Settings:
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
    if rule.batch < 1 or rule.first < 20 * rule.batch:
        raise UsageError("[[change]] batch must be 1 or more, and first 20 batches or more")
    if isinstance(rule.reference, float | int) and not 0 <= rule.reference <= 1:
        raise UsageError(f"[[change]] reference must be from 0 to 1, not {rule.reference}")
    return rule


def _row(path: Path, kind: Any, row: dict[str, Any], **given: Any) -> Any:
    """A Threshold or a ChangeRule from its table."""
    values = fields_of(path, kind, row, **given)
    try:
        return checked(kind(**values))
    except UsageError as error:
        raise UsageError(f"--config {path}: {error}") from None


# -- Alarms that were raised -----------------------------------------------------------------------


class Alerts:
    """Which alarms stand, and what became of the last ones: raised once, standing until cleared.

    The journal holds one line an event. An event that stands there already (the same alarm and
    episode, raised or cleared) is not told again: a monitor that was killed reads some recalls
    twice, and comes to the same events.
    """

    def __init__(self, journal: Path | None, tell: Callable[[Alert], None] | None) -> None:
        self._journal, self._tell = journal, tell
        self.standing: dict[str, Alert] = {}
        self.history: deque[Alert] = deque(maxlen=_KEPT)
        self.raised: Counter[str] = Counter()
        self._told = _read(journal)

    def event(self, alert: Alert) -> None:
        """Take in that an alarm was raised or cleared."""
        name = alert["alert"]
        if alert["state"] == "raised":
            self.raised[name] += 1
            alert["episode"] = self.raised[name]
            self.standing[name] = alert
        else:
            alert["episode"] = self.raised[name]
            self.standing.pop(name, None)
        self.history.append(alert)
        key = (name, alert["episode"], alert["state"])
        if key in self._told:
            return
        self._told.add(key)
        if self._journal is not None:
            _append(self._journal, alert)
        if self._tell is not None:
            self._tell(alert)

    def state(self) -> dict[str, Any]:
        """JSON for `resume`."""
        return {
            "standing": self.standing,
            "history": list(self.history),
            "raised": dict(self.raised),
        }

    def resume(self, state: dict[str, Any]) -> None:
        """Take up where `state` left."""
        self.standing = state["standing"]
        self.history.extend(state["history"])
        self.raised.update(state["raised"])


def _read(journal: Path | None) -> set[tuple[str, int, str]]:
    """What a journal tells of already. A last line that was not finished is cut off."""
    import orjson

    told: set[tuple[str, int, str]] = set()
    if journal is None or not journal.is_file():
        return told
    data = journal.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        os.truncate(journal, whole)
    for line in data[:whole].splitlines():
        try:
            one = orjson.loads(line)
            told.add((one["alert"], one["episode"], one["state"]))
        except (orjson.JSONDecodeError, KeyError, TypeError):
            continue  # a line of somebody else's
    return told


def _append(journal: Path, alert: Alert) -> None:
    import orjson

    journal.parent.mkdir(parents=True, exist_ok=True)
    with open(journal, "ab") as file:
        file.write(orjson.dumps(alert) + b"\n")
        file.flush()
        os.fsync(file.fileno())
