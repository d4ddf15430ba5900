"""`recall_at_10=0.7`: thresholds as keywords."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.errors import UsageError, near
from harness.scoring.answers import ANSWERS
from harness.scoring.metrics import ALIASES, FUNCTIONS, Metric

FALSE_EVIDENCE = "false_evidence_rate"
TIMES = ("p50_ms", "p95_ms", "p99_ms")
AT_MOST = {f"max_{name}": name for name in (FALSE_EVIDENCE, *TIMES)}
"""Keywords of what must not be exceeded; every other one is a metric that must be reached."""

_AT = re.compile(r"(.+)_at_(\d+)")


@dataclass(frozen=True)
class Limit:
    """What one number must reach (`above`) or must not exceed."""

    name: str
    value: float
    above: bool

    @property
    def sign(self) -> str:
        """As it is written before the threshold."""
        return ">=" if self.above else "<="


def metric_of(name: str, protocol: str = "") -> str:
    """`recall_at_10` or `recall@10` as the harness names it. Raises UsageError with near names."""
    found = _AT.fullmatch(name.strip())
    text = f"{found[1]}@{found[2]}" if found else name
    if protocol == ANSWERS.name:
        return text
    if not _known(text):
        names = [*AT_MOST, *(f"{metric}_at_10" for metric in [*FUNCTIONS, *ALIASES]), "mrr", "map"]
        raise UsageError(f"unknown metric {name!r}{near(name, names)}")
    return str(Metric.parse(text))


def limits(thresholds: Mapping[str, object], protocol: str = "") -> list[Limit]:
    """Limits from keywords. Raises UsageError for unknown names, and for values that are none."""
    if not thresholds:
        raise UsageError("assert_quality asks for nothing; name a threshold: recall_at_10=0.7")
    found = []
    for keyword, value in thresholds.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            raise UsageError(f"{keyword} must be a number, not {value!r:.60}")
        above = keyword not in AT_MOST
        name = metric_of(keyword, protocol) if above else AT_MOST[keyword]
        if name not in TIMES and not 0 <= value <= 1:
            raise UsageError(f"{keyword} must be from 0 to 1, not {value!r}")
        found.append(Limit(name, float(value), above))
    return found


def _known(text: str) -> bool:
    """Whether the name before the cut-off is one."""
    name = re.split(r"[@(]", text, maxsplit=1)[0].strip().lower()
    return ALIASES.get(name, name) in FUNCTIONS
