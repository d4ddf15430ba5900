"""The `[nightly]` table of a list of runs: where its history is, and when a drop fails it.

history = "results/nightly"    # folder of history and summary; default: `out`; false: neither
max_drop = 0.02                # a main metric that falls by more, and significantly, fails the list
alpha = 0.05                   # for all tests of a night together (Holm)
over = "auto"                  # what is independent: haystacks, queries, auto
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.errors import UsageError, near

OVER = ("auto", "haystacks", "queries")


@dataclass(frozen=True)
class Plan:
    """`folder` holds history and summary; `max_drop` None: no drop fails the list."""

    folder: Path
    max_drop: float | None = None
    alpha: float = 0.05
    over: str = "auto"


def read_plan(file: Path, table: Any, out: str) -> Plan | None:
    """What the table of a config says; `out` is the folder of the runs. None: no history is kept.

    Raises UsageError for unknown keys and values of the wrong kind.
    """
    if not isinstance(table, dict):
        raise UsageError(f"--config {file}: nightly must be a table: [nightly]")
    known = ("history", "max_drop", "alpha", "over")
    for key in table:
        if key not in known:
            found = near(key, list(known))
            raise UsageError(f"--config {file}: unknown key {key!r} in [nightly]{found}")
    history = table.get("history", out)
    if history is not False and (not isinstance(history, str) or not history):
        raise UsageError(
            f"--config {file}: history must be a folder, or false for none, not {history!r}"
        )
    over = table.get("over", "auto")
    if over not in OVER:
        raise UsageError(f"--config {file}: over must be {', '.join(OVER)}, not {over!r}")
    max_drop = table.get("max_drop")
    plan = Plan(
        Path(history or out),
        None if max_drop is None else _between(file, "max_drop", max_drop, closed=True),
        _between(file, "alpha", table.get("alpha", 0.05), closed=False),
        over,
    )
    return None if history is False else plan


def _between(file: Path, name: str, value: Any, *, closed: bool) -> float:
    """A number from 0 to below 1; `closed` allows 0."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or math.isnan(value) or not (0 <= value < 1) or (value == 0 and not closed):
        least = "from 0" if closed else "above 0"
        raise UsageError(
            f"--config {file}: {name} must be a number {least} to below 1, not {value!r}"
        )
    return float(value)
