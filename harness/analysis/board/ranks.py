"""Ranges of ranks on a board, and comparisons of its systems in pairs, from scores by query.

In one protocol, slice and metric of a board all systems have the same queries, so they are compared
in pairs, query by query; whole haystacks are flipped if queries share one of several, as in the
intervals. The ranges contain the true ranks of all these systems in 95% of samples, if the
differences of equal systems are symmetric. This does not hold for several slices or metrics at
once.

A pair on a page is the later run minus the earlier one, as in `harness compare`, by the headline
protocol and metrics of the board. Interval and p are of the pair alone. Whether an order is shown
is tested for all pairs of a column as one family, like the ranks, so a search through the pairs
finds no order by chance.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
from msgspec.structs import replace

from harness.analysis.board.records import (
    BOARD_VERSION,
    Board,
    BoardProtocol,
    Entry,
    PairColumns,
    PairedTests,
    ProtocolKey,
    RankedResult,
    board_headline,
)
from harness.analysis.compare.table import slice_masks
from harness.analysis.scored_run import BlockRows, Names, Values
from harness.io.terminal import count_of
from harness.scoring.metrics.described import is_lower_better
from harness.stats.joint import RankRanges, rank_ranges
from harness.stats.paired import PairTest, paired_tests

LEVEL = 0.95
_MAX_VALUES = 1 << 22
"""Number of values by query in memory at once: 32 MB."""

_NO_SCORES = "its scores by query are not in scores.parquet: no rank can be had"

Flags = npt.NDArray[np.bool_]
System = tuple[Path, BoardProtocol]
"""A run's folder, and the results of one protocol."""
Results = dict[str, RankedResult]
"""The results of one system over one slice, by metric."""


def add_ranks(results: Path, entries: Sequence[Entry]) -> None:
    """Adds `rank` and `rank_note` to the results of one board.

    A system that saw the gold labels has no rank. Nor has one that lacks a query of another system:
    means over other queries do not compare, and failing on hard ones must not raise a rank; the
    note is the reason. The note of a rank warns of too few clusters to show any order.
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
        lower = [is_lower_better(metric) for metric in some]
        values = np.stack(list(read), axis=1) * np.where(lower, -1.0, 1.0)
        # Columns over the same queries and systems share one set of flipped signs.
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
    """Returns the systems that lack no query of another; adds a note to the others."""
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
            f"{count_of(ranges.clusters, cluster_by)} cannot show an order: the smallest "
            f"possible p is {ranges.least:.3g}"
        )
    for table, best, worst in zip(tables, ranges.best, ranges.worst, strict=True):
        table[metric] = replace(table[metric], rank=(int(best), int(worst)), rank_note=note)


def haystacks_of(folder: Path, key: ProtocolKey) -> Names:
    """Returns the haystack of each query."""
    return rows_of(folder, key, ("haystack",)).names("haystack")


def values_of(
    folder: Path, key: ProtocolKey, metrics: Sequence[str], order: Sequence[str]
) -> Values:
    """Returns the scores of one run, (queries, metrics); NaN for missing ones."""
    rows = rows_of(folder, key, metrics)
    found = np.full((len(order), len(metrics)), np.nan)
    for i, metric in enumerate(metrics):
        if metric in rows.table.column_names:
            found[:, i] = rows.values(metric, order)
    return found


def rows_of(folder: Path, key: ProtocolKey, columns: Sequence[str]) -> BlockRows:
    """Reads those columns that there are of the rows by query of one protocol."""
    import pyarrow.parquet as pq

    # The file was checked when the run became an entry.
    with pq.ParquetFile(folder / "scores.parquet") as file:
        table = file.read(["query", "protocol", "level", *columns])
    mine = pc.and_(pc.equal(table["protocol"], key.name), pc.equal(table["level"], key.level))
    return BlockRows(table.filter(mine))


# -- Pairs of systems ------------------------------------------------------------------------------


_DIGITS = 6  # digits of a difference and its interval
_MAX_PAIRED = 1 << 21
"""Number of values of pairs in memory at once: 16 MB."""


def compare_pairs(results: Path, board: Board, only: Collection[str] = ()) -> PairedTests | None:
    """Compares the systems of a board; None if fewer than two compare.

    `only` restricts the pairs to these runs; the others still count in the correction. Entries that
    saw the gold labels, or have no score under the headline protocol, are not compared.
    """
    candidates = [entry for entry in board.entries if not entry.sees_gold_labels]
    headline, metrics = board_headline(candidates)
    if headline is None:
        return None
    key = headline.key
    entries = [e for e in candidates if any(one.key == key for one in e.protocols)]
    if len(entries) < 2:
        return None
    entries.sort(key=lambda e: (e.provenance.finished, e.run))
    protocols = _protocols(entries, key)
    folders = [results / entry.run for entry in entries]
    cluster_by = _cluster_by(protocols)
    labels = haystacks_of(folders[0], key) if cluster_by == "haystacks" else None
    about = rows_of(folders[0], key, ("ability", "category"))
    read = [values_of(folder, key, metrics, about.queries) for folder in folders]
    values = np.stack(read, axis=1)
    chosen = [i for i, entry in enumerate(entries) if not only or entry.run in only]
    pairs = list(combinations(chosen, 2))
    slices = _slices(protocols)
    masks = slice_masks(about, by_category=False)
    return PairedTests(
        schema_version=BOARD_VERSION,
        protocol=key.protocol,
        level=key.level,
        cluster_by=cluster_by,
        runs=[entries[i].run for i in chosen],
        metrics=metrics,
        slices=slices,
        results={
            name: {
                metric: _columns(
                    values[masks[name], :, k],
                    None if labels is None else labels[masks[name]],
                    pairs,
                )
                for k, metric in enumerate(metrics)
            }
            for name in slices
        },
    )


def _protocols(entries: Sequence[Entry], key: ProtocolKey) -> list[BoardProtocol]:
    return [next(one for one in entry.protocols if one.key == key) for entry in entries]


def _slices(protocols: Sequence[BoardProtocol]) -> list[str]:
    """Returns `all`, and the abilities if there are several."""
    known = list(dict.fromkeys(name for one in protocols for name in one.slices))
    abilities = [name for name in known if name not in ("all", "answerable")]
    return ["all", *(abilities if len(abilities) > 1 else [])]


def _cluster_by(protocols: Sequence[BoardProtocol]) -> Literal["queries", "haystacks"]:
    """Returns the independent units of the board's intervals."""
    intervals = (result.interval for one in protocols for result in one.overall.values())
    first = next((one.cluster_by for one in intervals if one is not None), "queries")
    return "haystacks" if first == "haystacks" else "queries"


def _columns(
    values: Values, clusters: Names | None, pairs: Sequence[tuple[int, int]]
) -> PairColumns:
    """Compares pairs by one metric over one slice; `values` has the shape (queries, systems)."""
    better = _better(values, clusters)
    step = max(1, _MAX_PAIRED // max(1, len(values)))
    compared: list[PairTest] = []
    for start in range(0, len(pairs), step):
        first, second = zip(*pairs[start : start + step], strict=True)
        compared += paired_tests(
            values[:, first], values[:, second], clusters, level=LEVEL, bounds=(-1, 1)
        )
    return PairColumns(
        difference=[_rounded(one.difference.value) for one in compared],
        low=[_rounded(one.difference.low) for one in compared],
        high=[_rounded(one.difference.high) for one in compared],
        p=[_rounded(one.test.p) for one in compared],
        wins=[one.wins for one in compared],
        losses=[one.losses for one in compared],
        ties=[one.ties for one in compared],
        ordered=[_ordered(better, a, b) for a, b in pairs],
    )


def _better(values: Values, clusters: Names | None) -> dict[tuple[int, int], bool]:
    """Whether the first of two systems is shown to be better, if both lack no query."""
    measured = ~np.isnan(values)
    some = measured.any(axis=1)
    complete = np.flatnonzero(measured.sum(axis=0) == some.sum())
    if len(complete) < 2 or not some.any():
        return {}
    mine = None if clusters is None else clusters[some]
    (ranges,) = rank_ranges(values[some][:, complete], mine, level=LEVEL)
    return {
        (int(j), int(k)): bool(ranges.better[a, b])
        for a, j in enumerate(complete)
        for b, k in enumerate(complete)
        if j != k
    }


def _ordered(better: Mapping[tuple[int, int], bool], a: int, b: int) -> bool | None:
    """Whether an order of two is shown; None if one lacks queries of others."""
    if (a, b) not in better:
        return None
    return better[a, b] or better[b, a]


def _rounded(value: float) -> float | None:
    """Rounds a number; None for NaN, which JSON lacks."""
    return None if np.isnan(value) else round(float(value), _DIGITS)
