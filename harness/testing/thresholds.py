"""Thresholds as keywords (`recall_at_10=0.7`), their checks, and the reported lines."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.analysis.drops import GateOutcome
from harness.errors import UsageError, suggest
from harness.scoring.metrics import ALIASES, METRICS, find_metric
from harness.scoring.metrics.described import is_lower_better
from harness.scoring.protocols import ANSWERS, metric_name

WORST = 3
"""Maximum number of queries named in a message."""


@dataclass(frozen=True)
class Measurement:
    """A value of a run: mean over `n` queries with its 95% interval.

    `value` is None if it is not measurable, for the reason `why`. `how` names the protocol.
    `approximate`: why the interval is. `worst`: labels and values of the lowest queries, `as_low`:
    how many queries have the lowest value. `upper_bound`: the value of the best ranking.
    """

    value: float | None
    n: int
    how: str
    low: float | None = None
    high: float | None = None
    approximate: str = ""
    why: str = ""
    worst: tuple[tuple[str, float], ...] = ()
    as_low: int = 0
    upper_bound: float | None = None


@dataclass(frozen=True)
class Checked:
    """The check of a threshold. `name` is the metric and, in brackets, the ability.

    `above`: the value must reach the threshold; else it must not exceed it. `message` is that of
    checks that do not compare one value (failed queries, a drop).
    """

    name: str
    threshold: float
    above: bool
    outcome: GateOutcome
    found: Measurement
    message: str = ""

    @property
    def passed(self) -> bool:
        """True if the outcome is `pass`; see `GateOutcome`."""
        return self.outcome is GateOutcome.PASS

    @property
    def word(self) -> str:
        """The outcome in lists: `pass`, `FAIL` or `INCONCLUSIVE`."""
        return str(self.outcome) if self.passed else self.outcome.upper()

    @property
    def within_noise(self) -> bool:
        """True if the 95% interval contains the threshold: the two cannot be separated."""
        low, high = self.found.low, self.found.high
        return low is not None and high is not None and low <= self.threshold <= high

    @property
    def line(self) -> str:
        """Value, threshold, interval and n in one line."""
        if self.message:
            return f"{self.name}: {self.message}"
        sign = ">=" if self.above else "<="
        if self.found.value is None:
            limit = f"threshold {sign} {_number(self.threshold)}"
            return f"{self.name} not measurable: {self.found.why}; {limit}"
        if not self.passed:
            sign = "<" if self.above else ">"
        value, threshold = _number(self.found.value), _number(self.threshold)
        if value == threshold and not self.passed:  # the digits that differ
            value, threshold = repr(self.found.value), repr(self.threshold)
        text = f"{self.name} {value} {sign} {threshold}"
        if self.found.low is not None and self.found.high is not None:
            text += f", 95% {_number(self.found.low)} to {_number(self.found.high)}"
        return f"{text}, n {self.found.n}"

    @property
    def lines(self) -> list[str]:
        """The line and, if the check failed, details such as the worst queries."""
        lines = [self.line]
        if self.passed or self.message:
            return lines
        found = self.found
        if self.above and found.upper_bound is not None and found.upper_bound < self.threshold:
            lines.append(
                "no ranking reaches it: with these relevant ids the best is "
                f"{found.upper_bound:.4f}"
            )
        elif found.value is not None:
            if self.within_noise:
                lines.append("within noise: the interval contains the threshold; use more queries")
            elif found.low is not None:
                lines.append("not noise: the interval does not contain the threshold")
            if found.approximate:
                lines.append(f"the interval is approximate: {found.approximate}")
        if found.worst:
            worse = [
                (query, value)
                for query, value in found.worst
                if (value < self.threshold if self.above else value > self.threshold)
            ]
            named = ", ".join(f"{query} {value:.2f}" for query, value in worse)
            more = f" ({found.as_low} queries are as low as the first)" if found.as_low > 1 else ""
            lines.append(f"worst: {named}{more}")
        if found.how:
            lines.append(f"by {found.how}")
        return lines

    def plain(self) -> dict[str, Any]:
        """Returns the values of pytest's summary in a form that pytest-xdist can send."""
        own = {name: getattr(self, name) for name in ("name", "threshold", "above", "word")}
        return {
            **own,
            **{name: getattr(self.found, name) for name in ("value", "n", "low", "high")},
            "line": self.line,
        }


def worst_first(names: Sequence[str], values: Any) -> tuple[tuple[tuple[str, float], ...], int]:
    """Returns the lowest queries, and the number of queries with the lowest value.

    `values` has shape (n,), with NaN for unscored queries.
    """
    import numpy as np

    scored = np.flatnonzero(~np.isnan(values))
    order = scored[np.argsort(values[scored], kind="stable")]
    low = order[: WORST if len(order) else 0]
    as_low = int((values[scored] == values[order[0]]).sum()) if len(order) else 0
    return tuple((names[at], float(values[at])) for at in low), as_low


def _number(value: float) -> str:
    """Formats with four decimals; values above 1 with six significant digits."""
    return f"{value:.4f}" if abs(value) <= 1 else f"{value:.6g}"


# -- Thresholds as keywords ------------------------------------------------------------------------

FALSE_POSITIVE_RATE = "false_positive_rate"
TIMES = ("p50_ms", "p95_ms", "p99_ms")
AT_MOST = {f"max_{name}": name for name in (FALSE_POSITIVE_RATE, *TIMES)}
"""Keywords of maxima; every other keyword is a metric with a minimum."""

_AT = re.compile(r"(.+)_at_(\d+)")


@dataclass(frozen=True)
class Limit:
    """The minimum (`above`) or maximum of a value."""

    name: str
    value: float
    above: bool

    @property
    def sign(self) -> str:
        """The comparison sign before the threshold."""
        return ">=" if self.above else "<="


def metric_of(name: str, protocol: str = "") -> str:
    """Converts `recall_at_10` to `recall@10`. Raises UsageError with similar names."""
    found = _AT.fullmatch(name.strip())
    text = f"{found[1]}@{found[2]}" if found else name
    if protocol == ANSWERS.name:
        return text
    if not _known(text):
        names = [*AT_MOST, *(f"{metric}_at_10" for metric in [*METRICS, *ALIASES]), "mrr", "map"]
        raise UsageError(f"unknown metric {name!r}{suggest(name, names)}")
    return metric_name(text)


def parse_limits(thresholds: Mapping[str, object], protocol: str = "") -> list[Limit]:
    """Parses keywords as limits. Raises UsageError for unknown names and invalid values."""
    if not thresholds:
        raise UsageError("assert_quality needs a threshold: recall_at_10=0.7")
    found = []
    for keyword, value in thresholds.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            raise UsageError(f"{keyword} must be a number, not {value!r:.60}")
        bare = keyword.removeprefix("max_")
        lower = is_lower_better(bare.partition("_at_")[0])
        if lower and bare == keyword:
            raise UsageError(f"{keyword}: it is better the lower it is; give max_{keyword}")
        above = keyword not in AT_MOST and not lower
        name = AT_MOST.get(keyword) or metric_of(bare if lower else keyword, protocol)
        if name not in TIMES and not 0 <= value <= 1:
            raise UsageError(f"{keyword} must be from 0 to 1, not {value!r}")
        found.append(Limit(name, float(value), above))
    return found


def _known(text: str) -> bool:
    """Tests whether the name before the cut-off is a metric."""
    name = re.split(r"[@(]", text, maxsplit=1)[0].strip().lower()
    return is_lower_better(name) or find_metric(name) is not None
