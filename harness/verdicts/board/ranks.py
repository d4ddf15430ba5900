"""Ranges of ranks on a board, from the scores by query that the run folders hold.

In one cell of a board (protocol, slice, metric) all systems were asked the same queries, so they
are compared pair by pair, query by query; whole haystacks are flipped where queries share one of
several, as in the intervals. The ranges of a cell hold the true ranks of all its systems at once in
95% of samples, if the differences of equal systems are symmetric; no promise is made for several
cells together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.rankings.arrow import read_parquet
from harness.scoring.uncertainty import counted
from harness.statistics.joint import RankRanges, rank_ranges
from harness.verdicts.board.leading import Key, key_of
from harness.verdicts.compare.scored import BlockRows, Names, Values
from harness.verdicts.compare.table import slice_masks

LEVEL = 0.95
# Values by query of all systems that are held at once: 32 MB.
_HELD = 1 << 22

_NO_SCORES = "its scores by query are not in scores.parquet: no rank can be had"

Flags = npt.NDArray[np.bool_]
System = tuple[Path, Mapping[str, Any]]
"""A run's folder, and the block of one protocol from its entry."""
Cells = dict[int, dict[str, Any]]
"""The cell of each system, by its place."""


def add_ranks(results: Path, entries: Sequence[Mapping[str, Any]]) -> None:
    """Give the cells of one board their `rank`, [best, worst], and a `rank_note` where one is due.

    A system that was shown the answer key has no rank. Nor has one that lacks a query that another
    was measured on, be its queries as many: means over other queries do not compare, and to fail on
    hard ones must not raise a rank. Its note says so. The note of a rank says that the units are
    too few to show any order.
    """
    blocks: dict[Key, list[System]] = {}
    for entry in entries:
        if not entry["sees_gold_labels"]:
            for block in entry["protocols"]:
                blocks.setdefault(key_of(block), []).append((results / entry["run"], block))
    for (protocol, level, *_), systems in blocks.items():
        cells: dict[tuple[str, str], Cells] = {}
        for at, (_, block) in enumerate(systems):
            for name, metrics in block["slices"].items():
                for metric, cell in metrics.items():
                    if "interval" in cell:
                        cells.setdefault((metric, name), {})[at] = cell
        _rank_cells([folder for folder, _ in systems], protocol.partition("/")[0], level, cells)


def _rank_cells(
    folders: Sequence[Path], protocol: str, level: str, cells: Mapping[tuple[str, str], Cells]
) -> None:
    """Rank the systems of one protocol in every (metric, slice), some metrics at a time."""
    about = rows_of(folders[0], protocol, level, ("ability", "category"))
    masks = slice_masks(about, by_category=False)
    labels = haystacks_of(folders[0], protocol, level)
    metrics = list(dict.fromkeys(metric for metric, _ in cells))
    step = max(1, _HELD // (len(about.queries) * len(folders)))
    for start in range(0, len(metrics), step):
        some = metrics[start : start + step]
        read = (values_of(folder, protocol, level, some, about.queries) for folder in folders)
        values = np.stack(list(read), axis=1)
        # Cells over the same queries and systems are ranked in one go, which flips signs once.
        alike: dict[tuple[bytes, tuple[int, ...], str], list[tuple[int, Cells]]] = {}
        for (metric, name), found in cells.items():
            if metric in some:
                k, who = some.index(metric), list(found)
                measured: Flags = ~np.isnan(values[:, who, k]) & masks[name][:, None]
                whole = _whole(found, measured)
                over = found[who[0]]["interval"]["cluster_by"]
                if whole:
                    key = (measured.any(axis=1).tobytes(), tuple(whole), over)
                    alike.setdefault(key, []).append((k, whole))
        for (queries, ranked, over), members in alike.items():
            rows = np.frombuffer(queries, bool)
            ks = list(dict.fromkeys(k for k, _ in members))
            clusters = labels[rows] if over == "haystacks" else None
            ranges = rank_ranges(values[rows][:, ranked][:, :, ks], clusters, level=LEVEL)
            for k, whole in members:
                _write(whole, ranges[ks.index(k)], over)


def _whole(found: Cells, measured: Flags) -> Cells:
    """The systems that lack no query that another has; the others get a note."""
    has = measured.sum(axis=0).tolist()
    every = int(measured.any(axis=1).sum())
    for cell, n in zip(found.values(), has, strict=True):
        if not n:
            cell["rank_note"] = _NO_SCORES
        elif n < every:
            cell["rank_note"] = f"lacks {every - n} of the queries that others were measured on"
    return {at: found[at] for at, n in zip(found, has, strict=True) if n == every > 0}


def _write(whole: Cells, ranges: RankRanges, over: str) -> None:
    for place, cell in enumerate(whole.values()):
        cell["rank"] = [int(ranges.best[place]), int(ranges.worst[place])]
        if len(whole) > 1 and ranges.least > 1 - LEVEL:
            cell["rank_note"] = (
                f"{counted(ranges.units, over)} can show no order: the least p that there could be "
                f"is {ranges.least:.3g}"
            )


def haystacks_of(folder: Path, protocol: str, level: str) -> Names:
    """Haystack of each query."""
    return rows_of(folder, protocol, level, ("haystack",)).names("haystack")


def values_of(
    folder: Path, protocol: str, level: str, metrics: Sequence[str], order: Sequence[str]
) -> Values:
    """Scores of one run, (queries, metrics); NaN where a query or a metric has none."""
    import pyarrow.parquet as pq

    known = set(pq.read_schema(folder / "scores.parquet").names)
    rows = rows_of(folder, protocol, level, [metric for metric in metrics if metric in known])
    found = np.full((len(order), len(metrics)), np.nan)
    for at, metric in enumerate(metrics):
        if metric in known:
            found[:, at] = rows.values(metric, order)
    return found


def rows_of(folder: Path, protocol: str, level: str, columns: Sequence[str]) -> BlockRows:
    """Columns of the rows by query of one protocol, and no others."""
    mine = [("protocol", "==", protocol), ("level", "==", level)]
    columns = ["query", *columns]
    path = folder / "scores.parquet"  # which was checked when the run became an entry
    return BlockRows(read_parquet(path, columns=columns, filters=mine))
