"""Drops that fail a list: larger than allowed and significant, as at `harness gate`."""

from __future__ import annotations

from collections.abc import Mapping

from harness.verdicts.gate import Check
from harness.verdicts.history import Line, Series
from harness.verdicts.verdicts import FELL, OPEN, Verdicts


def drops(lines: Mapping[Series, Line], found: Verdicts, by: float) -> list[Check]:
    """Hold each main metric over all queries against the last time; one check a metric.

    A drop beyond `by` that no test could have shown does not pass either: what nothing can fail
    guards nothing. Runs that do not compare with the last time are not held against anything.
    """
    checks = []
    for (dataset, system), line in lines.items():
        change = line.get("change") or {}
        for metric, cell in change.get("cells", {}).get("all", {}).items():
            verdict = found.cells[(dataset, system), "all", metric]
            beyond = cell["difference"] is not None and -cell["difference"] > by
            lost = beyond and verdict.said in (FELL, OPEN)
            p = "" if verdict.p is None else f", p {verdict.p:.4f} (Holm, {found.tested['all']})"
            said = "not measurable"
            if cell["difference"] is not None:
                now = cell["before"] + cell["difference"]
                said = f"{cell['before']:.4f} -> {now:.4f}, {cell['difference']:+.4f}{p}"
            if lost and verdict.said == OPEN:
                said += (
                    f"; {change['units']} {change['over']} can never show that it is significant: "
                    'take more data, or over = "queries" if questions to one haystack are '
                    "independent"
                )
            fell = f"fell by more than {by:g}" if lost else f"did not fall by more than {by:g}"
            rule = f"{metric} of {system} on {dataset} {fell}"
            checks.append(Check(rule, not lost, said))
    return checks
