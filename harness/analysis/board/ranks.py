"""Ranges of ranks on a board, from the scores by query of the run folders.

In one protocol, slice and metric of a board all systems were asked the same queries, so they are
compared pair by pair, query by query; whole haystacks are flipped where queries share one of
several, as in the intervals. The ranges hold the true ranks of all these systems at once in 95% of
samples, if the differences of equal systems are symmetric; no promise is made for several slices or
metrics together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from harness.analysis.board.records import BoardProtocol, Entry, ProtocolKey, RankedResult
from harness.analysis.compare.scored import BlockRows, Names, Values
from harness.analysis.compare.table import slice_masks
from harness.runfiles.arrow import read_parquet
from harness.scoring.results import counted
from harness.stats.joint import RankRanges, rank_ranges

LEVEL = 0.95
_MAX_VALUES = 1 << 22
"""Values by query of all systems that are in memory at once: 32 MB."""

_NO_SCORES = "its scores by query are not in scores.parquet: no rank can be had"

Flags = npt.NDArray[np.bool_]
System = tuple[Path, BoardProtocol]
"""A run's folder, and the results of one protocol from its entry."""
Results = dict[str, RankedResult]
"""The results of one system over one slice, by metric."""


def add_ranks(results: Path, entries: Sequence[Entry]) -> None:
    """Adds `rank`, and a `rank_note` where one is due, to the results of one board.

    A system that saw the gold labels has no rank. Nor has one that lacks a query that another was
    measured on, be its queries as many: means over other queries do not compare, and to fail on
    hard ones must not raise a rank. Its note says so. The note of a rank says that the clusters are
    too few to show any order.
    """
    protocols: dict[ProtocolKey, list[System]] = {}
    for entry in entries:
        if not entry.sees_gold_labels:
            for protocol in entry.protocols:
                protocols.setdefault(protocol.key, []).append((results / entry.run, protocol))
    for key, systems in protocols.items():
        columns: dict[tuple[str, str], dict[int, Results]] = {}
        for i, (_, protocol) in enumerate(systems):
            for name, found in protocol.slices.items():
                for metric, result in found.items():
                    if result.interval is not None:
                        columns.setdefault((metric, name), {})[i] = found
        _rank_columns([folder for folder, _ in systems], key, columns)


def _rank_columns(
    folders: Sequence[Path],
    key: ProtocolKey,
    columns: Mapping[tuple[str, str], dict[int, Results]],
) -> None:
    """Ranks the systems of one protocol by every (metric, slice), some metrics at a time."""
    about = rows_of(folders[0], key, ("ability", "category"))
    masks = slice_masks(about, by_category=False)
    labels = haystacks_of(folders[0], key)
    metrics = list(dict.fromkeys(metric for metric, _ in columns))
    step = max(1, _MAX_VALUES // (len(about.queries) * len(folders)))
    for start in range(0, len(metrics), step):
        some = metrics[start : start + step]
        read = (values_of(folder, key, some, about.queries) for folder in folders)
        values = np.stack(list(read), axis=1)
        # Columns over the same queries and systems are ranked in one go, which flips signs once.
        alike: dict[tuple[bytes, tuple[int, ...], str], list[tuple[str, list[Results]]]] = {}
        for (metric, name), found in columns.items():
            if metric not in some:
                continue
            systems = list(found)
            measured: Flags = ~np.isnan(values[:, systems, some.index(metric)])
            measured &= masks[name][:, None]
            complete = _complete(found, metric, measured)
            if complete:
                interval = found[complete[0]][metric].interval
                cluster_by = interval.cluster_by if interval else ""
                group = measured.any(axis=1).tobytes(), tuple(complete), cluster_by
                alike.setdefault(group, []).append((metric, [found[i] for i in complete]))
        for (queries, ranked, cluster_by), members in alike.items():
            rows = np.frombuffer(queries, bool)
            ranked_metrics = list(dict.fromkeys(metric for metric, _ in members))
            ks = [some.index(metric) for metric in ranked_metrics]
            clusters = labels[rows] if cluster_by == "haystacks" else None
            ranges = rank_ranges(values[rows][:, ranked][:, :, ks], clusters, level=LEVEL)
            for metric, tables in members:
                _write(tables, metric, ranges[ranked_metrics.index(metric)], cluster_by)


def _complete(found: Mapping[int, Results], metric: str, measured: Flags) -> list[int]:
    """Returns the systems that lack no query that another has; the others get a note."""
    counts = dict(zip(found, measured.sum(axis=0).tolist(), strict=True))
    total = int(measured.any(axis=1).sum())
    for i, n in counts.items():
        if n < total or not n:
            lacks = f"lacks {total - n} of the queries that others were measured on"
            note = lacks if n else _NO_SCORES
            found[i][metric] = replace(found[i][metric], rank_note=note)
    return [i for i, n in counts.items() if n == total > 0]


def _write(tables: Sequence[Results], metric: str, ranges: RankRanges, cluster_by: str) -> None:
    note = ""
    if len(tables) > 1 and ranges.least > 1 - LEVEL:
        note = (
            f"{counted(ranges.clusters, cluster_by)} can show no order: the least p that "
            f"there could be is {ranges.least:.3g}"
        )
    for table, best, worst in zip(tables, ranges.best, ranges.worst, strict=True):
        table[metric] = replace(table[metric], rank=(int(best), int(worst)), rank_note=note)


def haystacks_of(folder: Path, key: ProtocolKey) -> Names:
    """Returns the haystack of each query."""
    return rows_of(folder, key, ("haystack",)).names("haystack")


def values_of(
    folder: Path, key: ProtocolKey, metrics: Sequence[str], order: Sequence[str]
) -> Values:
    """Returns the scores of one run, (queries, metrics); NaN where a query or metric has none."""
    import pyarrow.parquet as pq

    known = set(pq.read_schema(folder / "scores.parquet").names)
    rows = rows_of(folder, key, [metric for metric in metrics if metric in known])
    found = np.full((len(order), len(metrics)), np.nan)
    for i, metric in enumerate(metrics):
        if metric in known:
            found[:, i] = rows.values(metric, order)
    return found


def rows_of(folder: Path, key: ProtocolKey, columns: Sequence[str]) -> BlockRows:
    """Reads columns of the rows by query of one protocol."""
    mine = [("protocol", "==", key.name), ("level", "==", key.level)]
    path = folder / "scores.parquet"  # which was checked when the run became an entry
    return BlockRows(read_parquet(path, columns=["query", *columns], filters=mine))
