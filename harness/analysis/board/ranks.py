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

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

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
from harness.stats.paired import compare_columns

LEVEL = 0.95
LARGE = 100
"""A board of more systems has ranks by its headline metrics alone, and pairs of its best systems.

All pairs of a thousand systems in every metric would take an hour, and a page of 200 MB.
"""
_MAX_VALUES = 1 << 22
"""Number of values by query in memory at once: 32 MB."""

_TOO_MANY = f"boards of more than {LARGE} systems have ranks by their headline metrics alone"
_NO_SCORES = "its scores by query are not in scores.parquet: no rank can be had"

Flags = npt.NDArray[np.bool_]
System = tuple[Path, BoardProtocol]
"""A run's folder, and the results of one protocol."""
Results = dict[str, RankedResult]
"""The results of one system over one slice, by metric."""
KnownRanges = dict[bytes, RankRanges]
"""Ranges of ranks by a digest of the scores that they are computed from.

Half of a board's metrics, slices and protocols have the scores of another one.
"""


def add_ranks(results: Path, entries: Sequence[Entry], known: KnownRanges | None = None) -> None:
    """Adds `rank` and `rank_note` to the results of one board.

    Ranges are looked up in `known`, and added to it.

    A system that saw the gold labels has no rank. Nor has one that lacks a query of another system:
    means over other queries do not compare, and failing on hard ones must not raise a rank; the
    note is the reason. The note of a rank warns of too few clusters to show any order.
    """
    candidates = [entry for entry in entries if not entry.sees_gold_labels]
    protocols: dict[ProtocolKey, list[System]] = {}
    for entry in candidates:
        for protocol in entry.protocols:
            protocols.setdefault(protocol.key, []).append((results / entry.run, protocol))
    headline, main = board_headline(candidates) if len(candidates) > LARGE else (None, [])
    for key, systems in protocols.items():
        columns: dict[tuple[str, str], dict[int, Results]] = {}
        for i, (_, protocol) in enumerate(systems):
            for name, found in protocol.slices.items():
                for metric, result in found.items():
                    if headline is not None and (key != headline.key or metric not in main):
                        found[metric] = replace(result, rank_note=_TOO_MANY)
                    elif result.interval is not None:
                        columns.setdefault((metric, name), {})[i] = found
        folders = [folder for folder, _ in systems]
        _rank_columns(folders, key, columns, {} if known is None else known)


def _rank_columns(
    folders: Sequence[Path],
    key: ProtocolKey,
    columns: Mapping[tuple[str, str], dict[int, Results]],
    known: KnownRanges,
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
            ranges = _ranges(values[rows][:, ranked][:, :, ks], clusters, known)
            for metric, tables in members:
                _write(tables, metric, ranges[ranked_metrics.index(metric)], cluster_by)


def _ranges(values: Values, clusters: Names | None, known: KnownRanges) -> list[RankRanges]:
    """Returns the ranges of each metric; `values` has the shape (queries, systems, metrics)."""
    of_clusters = b"" if clusters is None else "\n".join(clusters.tolist()).encode()
    columns = [np.ascontiguousarray(values[:, :, k]) for k in range(values.shape[2])]
    keys = [hashlib.sha256(column.tobytes() + of_clusters).digest() for column in columns]
    new = {key: k for k, key in enumerate(keys) if key not in known}
    if new:
        ranges = rank_ranges(values[:, :, list(new.values())], clusters, level=LEVEL)
        known.update(zip(new, ranges, strict=True))
    return [known[key] for key in keys]


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


def compare_pairs(
    results: Path,
    board: Board,
    only: Collection[str] = (),
    known: KnownRanges | None = None,
) -> PairedTests | None:
    """Compares the systems of a board; None if fewer than two compare.

    `only` restricts the pairs to these runs, else they are of the `LARGE` best ones; the others
    still count in the correction. Entries that saw the gold labels, or have no score under the
    headline protocol, are not compared. `known` has the ranges that `add_ranks` found.
    """
    candidates = [entry for entry in board.entries if not entry.sees_gold_labels]
    headline, metrics = board_headline(candidates)
    if headline is None:
        return None
    key = headline.key
    entries = [e for e in candidates if any(one.key == key for one in e.protocols)]
    if len(entries) < 2:
        return None
    protocols = _protocols(entries, key)
    folders = [results / entry.run for entry in entries]
    cluster_by = _cluster_by(protocols)
    labels = haystacks_of(folders[0], key) if cluster_by == "haystacks" else None
    about = rows_of(folders[0], key, ("ability", "category"))
    read = [values_of(folder, key, metrics, about.queries) for folder in folders]
    values = np.stack(read, axis=1)
    first = [one.overall.get(metrics[0]) for one in protocols]
    means = [(result and result.value) or 0.0 for result in first]
    best = sorted(range(len(entries)), key=lambda i: -means[i])[:LARGE]
    chosen = [i for i, entry in enumerate(entries) if entry.run in only] if only else best
    chosen.sort(key=lambda i: (entries[i].provenance.finished, entries[i].run))
    pairs = np.array(list(combinations(chosen, 2)), np.int64).reshape(-1, 2)
    slices = _slices(protocols)
    masks = slice_masks(about, by_category=False)
    known = {} if known is None else known
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
                    known,
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
    values: Values, clusters: Names | None, pairs: npt.NDArray[np.int64], known: KnownRanges
) -> PairColumns:
    """Compares pairs by one metric over one slice; `values` has the shape (queries, systems)."""
    step = max(1, _MAX_PAIRED // max(1, len(values)))
    parts = [
        compare_columns(values[:, a], values[:, b], clusters, level=LEVEL, bounds=(-1, 1))
        for a, b in (pairs[i : i + step].T for i in range(0, len(pairs), step))
    ]

    def column(name: str) -> list[Any]:
        return [one for part in parts for one in getattr(part, name).tolist()]

    return PairColumns(
        difference=_rounded(column("difference")),
        low=_rounded(column("low")),
        high=_rounded(column("high")),
        p=_rounded(column("p")),
        wins=column("wins"),
        losses=column("losses"),
        ties=column("ties"),
        ordered=_ordered(values, clusters, pairs, known),
    )


def _ordered(
    values: Values, clusters: Names | None, pairs: npt.NDArray[np.int64], known: KnownRanges
) -> list[bool | None]:
    """Whether an order of each pair is shown; None if one lacks queries of others."""
    measured = ~np.isnan(values)
    some = measured.any(axis=1)
    complete = np.flatnonzero(measured.sum(axis=0) == some.sum())
    systems = values.shape[1]
    shown = np.full((systems, systems), None)
    if len(complete) > 1 and some.any():
        mine = None if clusters is None else clusters[some]
        (ranges,) = _ranges(values[some][:, complete, None], mine, known)
        shown[np.ix_(complete, complete)] = ranges.better | ranges.better.T
    found: list[bool | None] = shown[pairs[:, 0], pairs[:, 1]].tolist()
    return found


def _rounded(values: Iterable[float]) -> list[float | None]:
    """Rounds numbers; None for NaN, which JSON lacks."""
    return [None if value != value else round(value, _DIGITS) for value in values]
