"""What a monitor knows at one moment: the window, counts since it began, what is asked of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from harness.errors import UsageError
from harness.live.monitor.alerts import Alerts, Rules
from harness.live.monitor.drift import Drift
from harness.live.monitor.labels import Labels, as_labels
from harness.live.monitor.measure import Cell, cells
from harness.live.monitor.over_time import OverTime
from harness.live.monitor.watch import Watch
from harness.live.monitor.window import Requests, Window
from harness.scoring.metrics import parse_metrics

BUCKETS = {"minute": 60, "hour": 3600, "day": 86_400}
KEPT = 720
"""Buckets over time that are kept: a month of hours."""

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
"""Bounds of the bins that the times of all recalls are counted in, for Prometheus."""

_ABILITIES = 64


class Held:
    """The numbers of a monitor, without its clock, lock and files; see `Monitor` for the arguments.

    `position` is that of who follows a log. `seconds` counts all recalls by the bins of `SECONDS`.
    Raises UsageError for settings that are wrong.
    """

    def __init__(
        self,
        window: int,
        labels: Any,
        metrics: Sequence[str] | str,
        rules: Rules,
        alerts: Alerts,
        bucket: str,
    ) -> None:
        if type(window) is not int or window < 1:
            raise UsageError(f"the window must be a number of recalls, 1 or more, not {window!r}")
        if bucket not in BUCKETS:
            raise UsageError(f"bucket must be {', '.join(BUCKETS)}, not {bucket!r}")
        parsed = parse_metrics(metrics if isinstance(metrics, str) else list(metrics))
        if not parsed:
            raise UsageError("name one metric at least, for instance recall@10")
        self.parsed = parsed
        self.metrics = [str(metric) for metric in parsed]
        self.labels: Labels | None = as_labels(labels)
        self.window = Window(window, len(parsed))
        self.over_time = OverTime(BUCKETS[bucket], KEPT, len(parsed))
        self.bucket = bucket
        self.words = None if self.labels is None else Drift(self.labels.texts, window)
        self.watch = Watch(rules, self.metrics, self.labels, alerts)
        self.abilities: dict[str, int] = {}
        self.requests = Requests(self.window)
        self.totals = dict.fromkeys(("recalls", "labelled", "failed", "no_result", "abstained"), 0)
        self.totals |= {"feedback": 0, "feedback_lost": 0}
        self.seconds = np.zeros(len(SECONDS) + 1, np.int64)  # of all recalls so far
        self.seconds_sum = 0.0
        self.position: Any = None

    def cells(self) -> dict[str, Cell]:
        """Numbers of the window by ability; see `measure`."""
        return cells(self.window, self.metrics, list(self.abilities))

    def drift(self) -> dict[str, Any] | None:
        """Words of the window against those of the labels; see `drift`."""
        return None if self.words is None else self.words.measure()

    def ability(self, name: str | None) -> int:
        """The code of an ability, a new one if it is new; -1 for none."""
        if name is None:
            return -1
        if name not in self.abilities and len(self.abilities) >= _ABILITIES:
            name = "others"
        return self.abilities.setdefault(name, len(self.abilities))
