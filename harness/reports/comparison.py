"""A comparison of several runs as a page: what `harness compare` prints of them, to look through.

Every number comes from `harness.analysis.compare`; the page chooses which of them to show.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import harness
from harness.analysis.board.entries import distinct_params, labels, read_board
from harness.analysis.compare.compare import compare
from harness.analysis.compare.comparison import Comparison, Group, Options, Pair, Table
from harness.analysis.compare.foot import foot
from harness.analysis.compare.render import shown_of
from harness.reports.html import page
from harness.reports.records import (
    ComparedMetric,
    ComparedRun,
    ComparisonData,
    Mean,
    PairResult,
    SettingRow,
)


def comparison_page(folders: Sequence[Path], *, home: str = "") -> bytes:
    """One self-contained file; `home` is where the board is, for one that is served.

    Raises UsageError for runs that do not compare.
    """
    data = comparison_data(folders)
    return page(f"{len(folders)} runs on {data.dataset}", "compare", data, home=home)


def comparison_data(folders: Sequence[Path]) -> ComparisonData:
    """Everything that the page draws, of the same metrics as `harness compare` shows.

    Raises UsageError as `compare` does.
    """
    protocols, metrics, level = shown_of(folders[0])
    compared = compare(folders, Options(protocols=protocols, metrics=metrics))
    group = compared.groups[0]
    table = next(one for one in group.tables if level in (None, one.level))
    entries = [entry for folder in folders for entry in read_board(folder).entries]
    return ComparisonData(
        harness=harness.__version__,
        dataset=group.essentials["dataset"],
        protocol=table.protocol,
        level=table.level,
        clusters=table.clusters,
        cluster_by=table.cluster_by,
        runs=[
            ComparedRun(
                run=entry.run,
                name=label,
                distinct_params=params,
                finished=entry.provenance.finished,
            )
            for entry, label, params in zip(
                entries, labels(entries), distinct_params(entries), strict=True
            )
        ],
        settings=setting_rows(group),
        slices=list(dict.fromkeys(cell.slice for cell in table.cells)),
        metrics=list(dict.fromkeys(cell.metric for cell in table.cells)),
        results=_results(table),
        footnotes=_footnotes(compared, table),
        command=shlex.join(["harness", "compare", *(folder.name for folder in folders)]),
    )


def setting_rows(group: Group) -> list[SettingRow]:
    """Returns what differs between the settings of the runs."""
    return [SettingRow(setting=row.what, values=list(row.values)) for row in group.settings]


def pair_result(pair: Pair) -> PairResult:
    """Returns what a pair of runs shows in one metric over one slice."""
    found = pair.found
    return PairResult(
        a=pair.a,
        b=pair.b,
        difference=found.difference.value,
        low=found.difference.low,
        high=found.difference.high,
        p=pair.p,
        shown=pair.shown,
        detectable=found.power.detectable,
        effect_size=found.effect_size,
        wins=found.wins,
        losses=found.losses,
        ties=found.ties,
    )


def _results(table: Table) -> dict[str, dict[str, ComparedMetric]]:
    found: dict[str, dict[str, ComparedMetric]] = {}
    for cell in table.cells:
        found.setdefault(cell.slice, {})[cell.metric] = ComparedMetric(
            n=cell.means[0].n,
            means=[Mean(value=mean.value, low=mean.low, high=mean.high) for mean in cell.means],
            pairs=[pair_result(pair) for pair in cell.pairs],
        )
    return found


def _footnotes(compared: Comparison, table: Table) -> list[str]:
    """How the numbers were made, and queries of a run that are in none of them."""
    lines = foot(table, table.cells).splitlines()
    for name, n in zip(compared.runs, table.dropped, strict=False):
        if n:
            lines.append(
                f"{n} queries of {name} in no mean here, as another run has no value there"
            )
    return lines
