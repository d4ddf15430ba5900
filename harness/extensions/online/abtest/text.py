"""Formatting of numbers and lines for both reports."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping
from datetime import UTC, datetime

from harness.extensions.online.abtest.plan import ABTestPlan

WIDTH = 100


def heading(plan: ABTestPlan, method: str, first: float | None, last: float | None) -> str:
    """Returns the heading: the test, its systems and its time."""
    when = ""
    if first is not None and last is not None:
        start, end = (
            datetime.fromtimestamp(t, UTC).strftime("%Y-%m-%d %H:%M") for t in (first, last)
        )
        if start[:10] == end[:10]:
            end = end[11:]  # the day once
        when = f", {start} UTC" if start.endswith(end) else f", {start} to {end} UTC"
    return f"A/B test {plan.name}: a = {plan.a}, b = {plan.b}, {method}{when}"


def wrap_text(text: str) -> list[str]:
    """Wraps a text; later lines are indented."""
    return textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)


def finite_or_none(value: float) -> float | None:
    """Returns None for a number that is not measurable."""
    return value if math.isfinite(value) else None


def number(value: float | None, *, sign: bool = False) -> str:
    """Formats a number in significant digits; `-` for not measurable."""
    if value is None:
        return "-"
    size = abs(value)
    plus = "+" if sign else ""
    if size >= 1000:
        return f"{value:{plus},.0f}"
    if size >= 100:
        return f"{value:{plus}.1f}"
    if 0 < size < 0.001:
        return f"{value:{plus}.1e}"
    return f"{value:{plus}.3f}"


def format_interval(low: float | None, high: float | None) -> str:
    """Formats an interval."""
    if low is None or high is None:
        return "-"
    return f"{number(low, sign=True)} to {number(high, sign=True)}"


def p_value(p: float | None) -> str:
    """Formats a p value; never 0."""
    if p is None:
        return "-"
    if p < 0.0001:
        return "<0.0001"
    return f"{p:.4f}" if p < 0.01 else f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def group_by_arm(kinds: Mapping[tuple[str, str], int]) -> dict[str, dict[str, int]]:
    """Groups counts of failures by arm and kind of error; empty if nothing failed."""
    found: dict[str, dict[str, int]] = {"a": {}, "b": {}} if kinds else {}
    for (arm, kind), n in sorted(kinds.items()):
        found[arm][kind] = n
    return found


def failures_text(plan: ABTestPlan, failures: Mapping[str, Mapping[str, int]]) -> str:
    """Formats how often each system failed, and with which errors."""
    parts = []
    for arm, system in (("a", plan.a), ("b", plan.b)):
        kinds = failures[arm]
        how = f" ({', '.join(f'{n:,} {kind}' for kind, n in kinds.items())})" if kinds else ""
        parts.append(f"{system} {sum(kinds.values()):,}{how}")
    return f"FAILURES: {', '.join(parts)}"


def no_longer_shown(what: str, p: float | None, low: float | None, high: float | None) -> str:
    """Says that something was shown once, and that the present interval contains 0."""
    return (
        f"{what} was shown at an earlier moment (p {p_value(p)}), but the present interval, "
        f"{format_interval(low, high)}, contains 0 again: did something change on the way?"
    )


def single_look(alpha: float, where: str = "") -> str:
    """Says what a low p of a single look, at any time but the planned one, does not show."""
    return (
        f". The p of a single look is below {alpha:.2g}{where}: that counts only if this number of "
        "units was fixed before and nobody looked earlier"
    )
