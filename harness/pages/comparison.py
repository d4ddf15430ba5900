"""A comparison of several runs as a page: what `harness compare` prints of them, to look through.

Every number comes from `harness.verdicts.compare`; the page chooses which of them to show.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import harness
from harness.pages.html import page
from harness.statistics.intervals import Interval
from harness.verdicts.board.entries import labels, read_entry, told
from harness.verdicts.compare.compare import compare
from harness.verdicts.compare.comparison import Cell, Comparison, Group, Options, Table
from harness.verdicts.compare.foot import foot
from harness.verdicts.compare.render import shown_of


def comparison_page(folders: Sequence[Path], *, home: str = "") -> bytes:
    """One self-contained file; `home` is where the board is, for one that is served.

    Raises UsageError for runs that do not compare.
    """
    data = comparison_data(folders)
    return page(f"{len(folders)} runs on {data['dataset']}", "compare", data, home=home)


def comparison_data(folders: Sequence[Path]) -> dict[str, Any]:
    """Everything that the page draws, of the same metrics as `harness compare` shows.

    Raises UsageError as `compare` does.
    """
    protocols, metrics, level = shown_of(folders[0])
    compared = compare(folders, Options(protocols=protocols, metrics=metrics))
    group = compared.groups[0]
    table = next(one for one in group.tables if level in (None, one.level))
    entries = [read_entry(folder)[1] for folder in folders]
    return {
        "harness": harness.__version__,
        "dataset": group.essentials["dataset"],
        "protocol": table.protocol,
        "level": table.level,
        "units": table.units,
        "over": table.over,
        "runs": [
            {
                "run": entry["run"],
                "name": label,
                "told": apart["told"],
                "finished": entry["provenance"]["finished"],
            }
            for entry, label, apart in zip(entries, labels(entries), told(entries), strict=True)
        ],
        "settings": _settings(group),
        "slices": list(dict.fromkeys(cell.slice for cell in table.cells)),
        "metrics": list(dict.fromkeys(cell.metric for cell in table.cells)),
        "cells": _cells(table),
        "foot": _foot(compared, table),
        "command": shlex.join(["harness", "compare", *(folder.name for folder in folders)]),
    }


def _settings(group: Group) -> list[dict[str, Any]]:
    """What differs between the settings of the runs."""
    return [{"what": row.what, "values": list(row.values)} for row in group.settings]


def _cells(table: Table) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for cell in table.cells:
        found.setdefault(cell.slice, {})[cell.metric] = {
            "n": cell.means[0].n,
            "means": [_interval(mean) for mean in cell.means],
            "pairs": _pairs(cell),
        }
    return found


def _interval(found: Interval) -> dict[str, Any]:
    return {"value": found.value, "low": found.low, "high": found.high}


def _pairs(cell: Cell) -> list[dict[str, Any]]:
    return [
        {
            "a": pair.a,
            "b": pair.b,
            **_interval(pair.found.difference),
            "p": pair.p,
            "shown": pair.shown,
            "detectable": pair.found.power.detectable,
            "effect_size": pair.found.effect_size,
            "won": pair.found.won,
            "lost": pair.found.lost,
            "tied": pair.found.tied,
        }
        for pair in cell.pairs
    ]


def _foot(compared: Comparison, table: Table) -> list[str]:
    """How the numbers were made, and queries of a run that are in none of them."""
    lines = foot(table, table.cells).splitlines()
    for name, n in zip(compared.runs, table.dropped, strict=False):
        if n:
            lines.append(
                f"{n} queries of {name} in no mean here, as another run has no value there"
            )
    return lines
