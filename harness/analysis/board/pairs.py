"""Compares every two systems of a board, query by query, for a page that shows two of them.

The later run less the earlier one, as in `harness compare`, by the headline protocol and metrics of
the board. Interval and p are of the pair alone. Whether an order is shown is tested for all pairs
of a column at once, by the test that the ranks come from, so that a search for two that differ
finds no order by chance.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from harness.analysis.board.headline import board_headline
from harness.analysis.board.ranks import haystacks_of, rows_of, values_of
from harness.analysis.board.records import (
    BOARD_VERSION,
    Board,
    BoardProtocol,
    Entry,
    PairColumns,
    PairedTests,
    ProtocolKey,
)
from harness.analysis.compare.scored import Names, Values
from harness.analysis.compare.table import slice_masks
from harness.stats.joint import rank_ranges
from harness.stats.paired import PairedComparison, compare_paired

_LEVEL = 0.95
_DIGITS = 6  # of a difference and its interval: more would only make the file larger
_MAX_VALUES = 1 << 21
"""Values of pairs by query that are compared at once: 16 MB."""

Flags = npt.NDArray[np.bool_]


def compare_pairs(results: Path, board: Board, only: Collection[str] = ()) -> PairedTests | None:
    """Compares the systems of a board; None where fewer than two compare.

    `only` are two runs or more to compare, where not all are wanted; the others still count for
    what is shown. Entries that saw the gold labels, or have no score under the headline protocol,
    are not compared.
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
    """Returns `all`, and the abilities where there are several."""
    known = list(dict.fromkeys(name for one in protocols for name in one.slices))
    abilities = [name for name in known if name not in ("all", "answerable")]
    return ["all", *(abilities if len(abilities) > 1 else [])]


def _cluster_by(protocols: Sequence[BoardProtocol]) -> Literal["queries", "haystacks"]:
    """Returns what the intervals of the board took for independent."""
    intervals = (result.interval for one in protocols for result in one.overall.values())
    first = next((one.cluster_by for one in intervals if one is not None), "queries")
    return "haystacks" if first == "haystacks" else "queries"


def _columns(
    values: Values, clusters: Names | None, pairs: Sequence[tuple[int, int]]
) -> PairColumns:
    """Compares pairs by one metric over one slice; `values` has the shape (queries, systems)."""
    better = _better(values, clusters)
    step = max(1, _MAX_VALUES // max(1, len(values)))
    compared: list[PairedComparison] = []
    for start in range(0, len(pairs), step):
        first, second = zip(*pairs[start : start + step], strict=True)
        compared += compare_paired(
            values[:, first], values[:, second], clusters, level=_LEVEL, bounds=(-1, 1)
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
    """Tests whether the first of two systems is better, of those that lack no query."""
    measured = ~np.isnan(values)
    some = measured.any(axis=1)
    complete = np.flatnonzero(measured.sum(axis=0) == some.sum())
    if len(complete) < 2 or not some.any():
        return {}
    mine = None if clusters is None else clusters[some]
    (ranges,) = rank_ranges(values[some][:, complete], mine, level=_LEVEL)
    return {
        (int(j), int(k)): bool(ranges.better[a, b])
        for a, j in enumerate(complete)
        for b, k in enumerate(complete)
        if j != k
    }


def _ordered(better: Mapping[tuple[int, int], bool], a: int, b: int) -> bool | None:
    """Tests whether any order of two is shown; None where one lacks queries that others have."""
    if (a, b) not in better:
        return None
    return better[a, b] or better[b, a]


def _rounded(value: float) -> float | None:
    """Rounds a number; None for NaN, which JSON has not."""
    return None if np.isnan(value) else round(float(value), _DIGITS)
