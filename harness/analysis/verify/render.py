"""Formats the results of a verification: differences, and numbers that were not recomputed."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from harness.analysis.verify.verify import TOLERANCE, Difference, Verification
from harness.io.terminal import grid

STATED = (
    "not verifiable from files: that the rankings are the system's, its name, version and "
    "parameters, times and costs; ask for a re-run"
)
_SHOWN = 12
"""Maximum number of differing metrics in the text; the JSON has all."""


def lines(verdict: Verification, *, quiet: bool = False) -> list[str]:
    """Returns the printed text; with `quiet` only errors."""
    differences = _differences(verdict)
    if quiet:
        failed = [f"FAIL  {one.what}: {one.message}" for one in verdict.checks if one.ok is False]
        return [] if verdict.agrees else [*failed, *differences, _conclusion(verdict)]
    rows = [
        [section, verdict.values[section] or "", numbers]
        for section, numbers in verdict.compared.items()
    ]
    signs = {True: "ok", False: "FAIL", None: "-"}
    checks = [[signs[one.ok], one.what, one.message] for one in verdict.checks]
    left = [f"  {n:,}  {kind}" for kind, n in verdict.not_recomputed.items()]
    parts = [
        grid(checks, style="plain").splitlines(),
        grid(rows, ["section", "values of queries", "numbers"]).splitlines(),
        differences,
        ["not recomputed:", *left] if left else [],
        [STATED],
    ]
    found = [line for part in parts if part for line in (*part, "")]
    return [*found, _conclusion(verdict)]


def as_json(verdict: Verification) -> dict[str, Any]:
    """Returns the verification as JSON values."""
    return {
        "run": str(verdict.folder.path),
        "agrees": verdict.agrees,
        "numbers": verdict.numbers,
        "recomputed": verdict.recomputed,
        "from_table": verdict.from_table,
        "compared": dict(verdict.compared),
        "checks": [asdict(check) for check in verdict.checks],
        "differences": [asdict(one) for one in verdict.differences],
        "not_recomputed": verdict.not_recomputed,
    }


def _differences(verdict: Verification) -> list[str]:
    """Returns the largest difference of each metric, and the queries that differ, as lines."""
    by_metric: dict[tuple[str, str], list[Difference]] = {}
    for one in verdict.differences:
        by_metric.setdefault((one.section, one.what), []).append(one)
    found: list[str] = []
    for (section, what), ones in list(by_metric.items())[:_SHOWN]:
        means = [one for one in ones if not one.queries]
        said = f"FAIL  {section}: {what}"
        if means:
            worst = max(means, key=lambda one: _distance(one.published, one.recomputed))
            published, recomputed = _numbers(worst.published, worst.recomputed)
            where = f" ({worst.slice})" if worst.slice else ""
            said += f"{where} is published as {published}, recomputed as {recomputed}"
            said += f"; {len(means) - 1} more slices differ" if len(means) > 1 else ""
        found.append(said)
        for query, *pair in (query for one in ones for query in one.queries):
            published, recomputed = _numbers(*pair)
            found.append(f"      {query}: {published} in scores.parquet, recomputed {recomputed}")
    if len(by_metric) > _SHOWN:
        found.append(f"      and {len(by_metric) - _SHOWN} more; --json has all")
    return found


def _distance(published: float | None, recomputed: float | None) -> float:
    if published is None or recomputed is None:
        return math.inf
    return abs(published - recomputed)


def _numbers(*pair: float | None) -> tuple[str, ...]:
    """Returns both numbers with enough digits to show the difference."""
    apart = _distance(*pair)
    digits = max(4, 1 + math.ceil(-math.log10(apart))) if 0 < apart < math.inf else 4
    return tuple(
        "nothing" if one is None else str(one) if isinstance(one, int) else f"{one:.{digits}f}"
        for one in pair
    )


def _conclusion(verdict: Verification) -> str:
    said = f"{verdict.folder.path}: {verdict.recomputed:,} numbers recomputed"
    if verdict.from_table:
        said += f" ({verdict.from_table:,} of them from scores.parquet only)"
    said += f", {verdict.numbers - verdict.recomputed:,} not"
    skipped = sum(check.ok is None for check in verdict.checks)
    said += f"; checks not made: {skipped}" if skipped else ""
    if verdict.agrees:
        return f"{said}; those recomputed agree within {TOLERANCE:.0e}"
    wrong = len({(one.section, one.what, one.slice) for one in verdict.differences})
    failed = sum(check.ok is False for check in verdict.checks)
    return f"{said}; differences: {wrong:,}, failed checks: {failed}"
