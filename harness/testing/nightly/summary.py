"""summary.json and summary.md: one night, every run, what changed, and drops that fail the list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import harness
from harness.files import write_bytes, write_json
from harness.testing.nightly.kept import kept_name
from harness.testing.nightly.plan import Plan
from harness.testing.nightly.render import render
from harness.verdicts.gate import Check
from harness.verdicts.gate import status as gate_status
from harness.verdicts.history import Line, Series, Verdicts, drops, told, verdicts

VERSION = 1


def summary(
    plan: Plan,
    began: str,
    series: Sequence[Series],
    lines: Mapping[Series, Line],
    why: Mapping[Series, str],
    before: Mapping[Series, Mapping[str, Any]],
    stopped: bool,
) -> dict[str, Any]:
    """One night as plain values. `why` says why runs failed, `before` their times the last time."""
    mine = {one: lines[one] for one in series if one in lines}
    found = verdicts(mine.values())
    checks = drops(mine.values(), found)
    runs = [_run(one, mine.get(one), why.get(one), before.get(one), found) for one in series]
    return {
        "version": VERSION,
        "harness": harness.__version__,
        "night": began,
        "ended": datetime.now(UTC).isoformat(timespec="seconds"),
        "complete": not stopped and len(mine) == len(set(series)),
        "tests": {
            "alpha": plan.alpha,
            "correction": "holm",
            "over": plan.over,
            "all queries": found.tested["all"],
            "by ability": found.tested["by ability"],
        },
        "told": told([*mine.values()], found),
        "max_drop": plan.max_drop,
        "drops": [asdict(check) for check in checks if not check.passed],
        "failed": [
            {"dataset": run["dataset"], "system": run["system"], "why": run["why"]}
            for run in runs
            if run["state"] == "failed"
        ],
        "runs": runs,
    }


def write_summary(folder: Path, found: Mapping[str, Any]) -> None:
    """Write both files, each whole."""
    write_json(folder / "summary.json", found)
    write_bytes(folder / "summary.md", render(found, "markdown").encode("utf-8"))


def status(found: Mapping[str, Any]) -> int:
    """Exit status of a list by its numbers, as a gate's: 1 where one dropped by more than it may,
    2 where none did, but one fell so and no drop could have been shown."""
    return gate_status([Check(**check) for check in found["drops"]])


def _run(
    series: Series,
    line: Line | None,
    why: str | None,
    before: Mapping[str, Any] | None,
    found: Verdicts,
) -> dict[str, Any]:
    """What the summary says of one run; all of its line but what is the same for all."""
    dataset, system = series
    head = {"dataset": dataset, "system": system}
    if line is None:
        return {**head, "state": "not run"}
    if line["state"] == "failed":
        return {**head, "state": "failed", "at": line["at"], "why": why or line["error"]}
    change = {key: value for key, value in line["change"].items() if key != "cells"}
    compared = line["change"].get("cells", {})
    cells = {
        part: {
            metric: {**cell, **_change(series, part, metric, compared, found)}
            for metric, cell in metrics.items()
        }
        for part, metrics in line["cells"].items()
    }
    about = ("run", "at", "queries", "data", "k", "protocol", "level", "versions", "intervals")
    return {
        **head,
        "state": "ok",
        **{key: line[key] for key in about},
        "metrics": cells,
        "change": change,
        "changed": line["changed"],
        "times": line["times"],
        "times_before": before,
        "kept": kept_name(series),
    }


def _change(
    series: Series,
    part: str,
    metric: str,
    compared: Mapping[str, Mapping[str, Any]],
    found: Verdicts,
) -> dict[str, Any]:
    cell = compared.get(part, {}).get(metric)
    if cell is None:
        return {}
    verdict = found.cells[series, part, metric]
    return {"change": {**cell, "verdict": verdict.said, "p_corrected": verdict.p}}
