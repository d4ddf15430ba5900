"""What changed since the last time: numbers paired by query where they compare, and settings.

| key | what |
|---|---|
| state | `first`, `not comparable`, `unchanged` (every value of every query) or `compared` |
| since | when the run that it is compared with was finished |
| reasons | why it does not compare: `data fingerprint a -> b` |
| cells | slice -> metric -> before, difference, low, high, p, smallest, n, won, lost |
| alpha, units, over, how | what tests and intervals rest on |

`difference` is tonight less the last time, over the queries that both have a value for. p is that
of a randomisation test, not corrected; `smallest` the least that it could have been.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from harness.testing.nightly.labels import plain
from harness.verdicts.compare.comparable import differing, essentials, settings
from harness.verdicts.compare.comparison import Cell, Options
from harness.verdicts.compare.scored import Block, ScoredRun
from harness.verdicts.compare.table import table

_DIGITS = 6


def change(
    now: ScoredRun, last: ScoredRun | None, metrics: Sequence[str], alpha: float, over: str
) -> dict[str, Any]:
    """Compare a run with the last one; both hold the one protocol that is compared."""
    if last is None:
        return {"state": "first"}
    since = last.record["finished"]
    blocks = list(dict.fromkeys([*last.blocks, *now.blocks]))
    reasons = [
        f"{row.what} {row.values[0]} -> {row.values[1]}"
        for row in differing([essentials(last, blocks), essentials(now, blocks)])
    ]
    if reasons:
        return {"state": "not comparable", "since": since, "reasons": reasons}
    if _equal(now, last, blocks[0], metrics):
        return {"state": "unchanged", "since": since}
    found = table([now, last], blocks[0], [(0, 1)], Options(metrics=tuple(metrics), over=over))
    cells: dict[str, dict[str, Any]] = {}
    for cell in found.cells:
        cells.setdefault(cell.slice, {})[cell.metric] = _cell(cell)
    first = found.cells[0].pairs[0].found.difference if found.cells else None
    return {
        "state": "compared",
        "since": since,
        "alpha": alpha,
        "units": found.units,
        "over": found.over,
        "how": first.how if first else "",
        "rough": first.note if first else "",
        "dropped": list(found.dropped),
        "cells": cells,
    }


def _equal(now: ScoredRun, last: ScoredRun, block: Block, metrics: Sequence[str]) -> bool:
    """Whether both have the same value, or both none, for each query in each metric."""
    rows, others = now.rows(block), last.rows(block)
    return all(
        metric in others.table.column_names
        and np.array_equal(rows.values(metric), others.values(metric, rows.queries), equal_nan=True)
        for metric in metrics
    )


def _cell(cell: Cell) -> dict[str, Any]:
    found = cell.pairs[0].found
    difference = found.difference
    return {
        "before": number(found.mean_b),
        "difference": number(difference.value),
        "low": number(difference.low),
        "high": number(difference.high),
        "p": number(found.test.p),
        "smallest": number(found.test.smallest),
        "n": difference.n,
        "won": found.won,
        "lost": found.lost,
    }


def number(value: float | None) -> float | None:
    """To six digits after the point, for a history; None for what is not known."""
    return None if value is None or math.isnan(value) else round(value, _DIGITS)


def changed(now: ScoredRun, last: ScoredRun) -> list[dict[str, str]]:
    """Settings that are not the same in two runs: what, before and now, as short text.

    Folders of files are left out: where a checkout stands is no setting.
    """
    rows = differing([_settings(last), _settings(now)])
    return [{"what": row.what, "before": row.values[0], "now": row.values[1]} for row in rows]


def _settings(run: ScoredRun) -> dict[str, str]:
    machine = run.record.get("machine") or {}
    return {
        **{name: plain(value) for name, value in settings(run).items()},
        "git commit": commit(run.record),
        "processor": str(machine.get("processor") or "-"),
    }


def commit(record: Mapping[str, Any]) -> str:
    """The first digits of a run's git commit, and whether there were changes; `-` without git."""
    git = record.get("git") or {}
    changes = ", with changes" if git.get("changed") else ""
    return f"{plain(git['commit'])}{changes}" if git.get("commit") else "-"
