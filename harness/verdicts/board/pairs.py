"""Every two systems of a board, question by question: what a page shows of two that are chosen.

The later run less the earlier one, as in `harness compare`, by the protocol and the metrics that
the board is shown by. Interval and p are of the pair by itself; whether an order is shown is said
for all pairs of the column at once, by the test that the ranks come from, so that whoever looks for
two that differ does not find them by looking.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.statistics.joint import rank_ranges
from harness.statistics.paired import PairedComparison, compare_paired
from harness.verdicts.board.leading import Key, key_of, leading
from harness.verdicts.board.ranks import haystacks_of, rows_of, values_of
from harness.verdicts.compare.scored import Names, Values
from harness.verdicts.compare.table import slice_masks

_LEVEL = 0.95
_DIGITS = 6  # of a difference and its interval: more would only make the file larger
# Values of pairs by query that are compared at once: 16 MB.
_HELD = 1 << 21

Flags = npt.NDArray[np.bool_]


def pairs(
    results: Path, board: Mapping[str, Any], only: Collection[str] = ()
) -> dict[str, Any] | None:
    """The comparisons of a board as columns: one value a pair, in the order of `runs` taken by two.

    `only` are two runs or more to compare, where not all are wanted; the others still count for
    what is shown. None where fewer than two systems of the board compare: those that were shown the
    answer key, or have no score under its leading protocol, are not among them.
    """
    found = _systems(board)
    if found is None or len(found[2]) < 2:
        return None
    key, metrics, entries = found
    protocol, level = key[0].partition("/")[0], key[1]
    folders = [results / entry["run"] for entry in entries]
    over = _over(entries, key)
    labels = haystacks_of(folders[0], protocol, level) if over == "haystacks" else None
    about = rows_of(folders[0], protocol, level, ("ability", "category"))
    read = [values_of(folder, protocol, level, metrics, about.queries) for folder in folders]
    values = np.stack(read, axis=1)
    kept = [at for at, entry in enumerate(entries) if not only or entry["run"] in only]
    places = list(combinations(kept, 2))
    slices = _slices(entries, key)
    masks = slice_masks(about, by_category=False)
    cells = {
        name: {
            metric: _cell(values[masks[name], :, at], _of(labels, masks[name]), places)
            for at, metric in enumerate(metrics)
        }
        for name in slices
    }
    return {
        "schema": "harness.pairs/1",
        "protocol": key[0],
        "level": level,
        "cluster_by": over,
        "runs": [entries[at]["run"] for at in kept],
        "metrics": metrics,
        "slices": slices,
        "cells": cells,
    }


def _systems(
    board: Mapping[str, Any],
) -> tuple[Key, list[str], list[Mapping[str, Any]]] | None:
    """What the board is shown by, and the entries that have it, in order of time."""
    open_ = [entry for entry in board["entries"] if not entry["sees_gold_labels"]]
    for entry in open_:
        block, metrics = leading(entry)
        if block is not None:
            key = key_of(block)
            mine = [e for e in open_ if any(key_of(one) == key for one in e["protocols"])]
            mine.sort(key=lambda e: (e["provenance"]["finished"], e["run"]))
            return key, metrics, mine
    return None


def _blocks(entries: Sequence[Mapping[str, Any]], key: Key) -> list[Mapping[str, Any]]:
    return [next(b for b in entry["protocols"] if key_of(b) == key) for entry in entries]


def _slices(entries: Sequence[Mapping[str, Any]], key: Key) -> list[str]:
    """All questions, and the abilities where there are several."""
    known = list(dict.fromkeys(name for b in _blocks(entries, key) for name in b["slices"]))
    abilities = [name for name in known if name not in ("all", "answerable")]
    return ["all", *(abilities if len(abilities) > 1 else [])]


def _over(entries: Sequence[Mapping[str, Any]], key: Key) -> str:
    """What the intervals of the board took for independent."""
    cells = [c for b in _blocks(entries, key) for c in b["slices"].get("all", {}).values()]
    return next((str(c["interval"]["cluster_by"]) for c in cells if "interval" in c), "queries")


def _of(labels: Names | None, mask: Flags) -> Names | None:
    return None if labels is None else labels[mask]


def _cell(
    values: Values, clusters: Names | None, places: Sequence[tuple[int, int]]
) -> dict[str, list[Any]]:
    """One metric over one slice; `values` has the shape (queries, systems)."""
    better = _better(values, clusters)
    step = max(1, _HELD // max(1, len(values)))
    compared: list[PairedComparison] = []
    for start in range(0, len(places), step):
        first, second = zip(*places[start : start + step], strict=True)
        compared += compare_paired(
            values[:, first], values[:, second], clusters, level=_LEVEL, bounds=(-1, 1)
        )
    return {
        "difference": [_rounded(one.difference.value) for one in compared],
        "low": [_rounded(one.difference.low) for one in compared],
        "high": [_rounded(one.difference.high) for one in compared],
        "p": [_rounded(one.test.p) for one in compared],
        "won": [one.won for one in compared],
        "lost": [one.lost for one in compared],
        "tied": [one.tied for one in compared],
        "shown": [_shown(better, a, b) for a, b in places],
    }


def _better(values: Values, clusters: Names | None) -> dict[tuple[int, int], bool]:
    """Whether the first of two systems is shown to be better, of those that lack no query."""
    measured = ~np.isnan(values)
    any_ = measured.any(axis=1)
    whole = np.flatnonzero(measured.sum(axis=0) == any_.sum())
    if len(whole) < 2 or not any_.any():
        return {}
    mine = None if clusters is None else clusters[any_]
    (ranges,) = rank_ranges(values[any_][:, whole], mine, level=_LEVEL)
    return {
        (int(j), int(k)): bool(ranges.better[a, b])
        for a, j in enumerate(whole)
        for b, k in enumerate(whole)
        if j != k
    }


def _shown(better: Mapping[tuple[int, int], bool], a: int, b: int) -> bool | None:
    """Whether any order of two is shown; None where one lacks queries that others have."""
    if (a, b) not in better:
        return None
    return better[a, b] or better[b, a]


def _rounded(value: float) -> float | None:
    """None for NaN, which JSON has not."""
    return None if np.isnan(value) else round(float(value), _DIGITS)
