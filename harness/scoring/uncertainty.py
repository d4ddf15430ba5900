"""The 95% interval of every mean: over queries, or over haystacks where queries share them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.dataset.reader import Dataset
from harness.scoring.arrays import Flags
from harness.scoring.cells import Column
from harness.statistics.intervals import mean_intervals

LEVEL = 0.95
RESAMPLES = 10_000
SEED = 0

Cells = dict[str, dict[str, Any]]


def independent(dataset: Dataset) -> npt.NDArray[np.int32] | None:
    """The haystack of each query where several queries share one of several; None: each query is
    independent of the others."""
    haystacks = np.unique(dataset.query_haystack)
    return dataset.query_haystack if 1 < len(haystacks) < dataset.n_queries else None


def add_intervals(
    dataset: Dataset,
    columns: Sequence[Column],
    masks: Mapping[str, Flags],
    slices: Mapping[str, Cells],
) -> None:
    """Give every cell its `interval`: low, high, method, and how many independent units it had.

    `rough` tells why the true coverage may be off by more than a point or two, where it may. Cells
    without a value get none. `slices` are cells by slice and metric.
    """
    add_intervals_over(independent(dataset), dataset.n_queries, columns, masks, slices)


def add_intervals_over(
    clusters: npt.NDArray[np.int32] | None,
    n: int,
    columns: Sequence[Column],
    masks: Mapping[str, Flags],
    slices: Mapping[str, Cells],
    bounds: tuple[float, float] = (0, 1),
) -> None:
    """The same for n queries of any origin; `clusters` as `independent` gives them, `bounds` the
    least and greatest value that a query can have."""
    by_name = {str(column.metric): column for column in columns}
    wanted = [
        (name, metric)
        for name, cells in slices.items()
        for metric, cell in cells.items()
        if cell["value"] is not None
    ]
    if not wanted:
        return
    matrix = np.full((n, len(wanted)), np.nan)
    for at, (name, metric) in enumerate(wanted):
        mask = masks[name]
        matrix[mask, at] = by_name[metric].values[mask]
    used = ~np.isnan(matrix).all(axis=1)
    found = mean_intervals(
        matrix[used],
        None if clusters is None else clusters[used],
        level=LEVEL,
        resamples=RESAMPLES,
        seed=SEED,
        bounds=bounds,
    )
    for (name, metric), interval in zip(wanted, found, strict=True):
        if interval.method == "none":
            continue
        cell: dict[str, Any] = {
            "low": interval.low,
            "high": interval.high,
            "method": interval.method,
            "units": interval.units,
            "over": "haystacks" if interval.clustered else "queries",
        }
        if interval.rough:
            cell["rough"] = interval.note
        slices[name][metric]["interval"] = cell
