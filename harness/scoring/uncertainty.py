"""The 95% interval of every mean: over queries, or over haystacks where queries share them.

A value is the mean over queries. Where haystacks are the units it stands beside the mean over
haystacks, in which each counts once: another question, with another answer where haystacks differ
in size.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.dataset.reader import Dataset
from harness.scoring.arrays import Flags
from harness.scoring.cells import Column
from harness.statistics.intervals import Interval, unit_intervals
from harness.statistics.units import units_of

LEVEL = 0.95

Cells = dict[str, dict[str, Any]]

_NOUNS = re.compile(r"\b(?:cluster|observation)(s?)\b")


def named(text: str, over: str) -> str:
    """What `statistics` says of clusters and observations, said of `over`: haystacks or queries."""
    return _NOUNS.sub(lambda found: over if found[1] else _one(over), text)


def counted(n: int, many: str) -> str:
    """`12 haystacks`, `1 query`."""
    return f"{n} {_one(many) if n == 1 else many}"


def _one(many: str) -> str:
    return many.removesuffix("ies") + "y" if many.endswith("ies") else many.removesuffix("s")


def independent(dataset: Dataset) -> npt.NDArray[np.int32] | None:
    """The haystack of each query where several queries share one of several; None: each query is
    independent of the others. As of whatever time, it is the same haystack."""
    shares = dataset.query_shares
    return shares if 1 < len(np.unique(shares)) < dataset.n_queries else None


def add_intervals(
    dataset: Dataset,
    columns: Sequence[Column],
    masks: Mapping[str, Flags],
    slices: Mapping[str, Cells],
) -> None:
    """Give every cell its `interval`: low, high, method, and how many independent units it had.

    `rough` tells why the true coverage may be off by more than two points, where it may. Over
    haystacks, `effective` is how many of equal size would tell as much, and the cell has
    `over_haystacks` too: the mean in which each haystack counts once, with its interval, made as
    it says there. Cells without a value get none. `slices` are cells by slice and metric.
    """
    add_intervals_over(independent(dataset), dataset.n_queries, columns, masks, slices)


def add_means_over_categories(slices: Mapping[str, Cells]) -> None:
    """Give the cells of `all` the mean in which each of several categories counts once.

    None where the value of a category is not known.
    """
    of = [cells for name, cells in slices.items() if name.startswith("category:")]
    for metric, cell in slices.get("all", {}).items() if len(of) > 1 else ():
        values = [cells[metric]["value"] for cells in of if metric in cells]
        if None not in values:
            mean = sum(values) / len(values)
            cell["over_categories"] = {"value": mean, "categories": len(values)}


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
    units = units_of(matrix[used], None if clusters is None else clusters[used])
    found = unit_intervals(units, level=LEVEL, bounds=bounds)
    for (name, metric), interval in zip(wanted, found, strict=True):
        if interval.method != "none":
            over = "haystacks" if interval.clustered else "queries"
            slices[name][metric]["interval"] = _ends(interval) | _made(interval, over)
    if not units.clustered:
        return
    each = unit_intervals(units.by_unit(), level=LEVEL, bounds=bounds)
    for (name, metric), interval in zip(wanted, each, strict=True):
        if interval.method != "none":
            made = _ends(interval) | _made(interval, "haystacks")
            slices[name][metric]["over_haystacks"] = {"value": interval.value, **made}


def _ends(interval: Interval) -> dict[str, float]:
    return {"low": interval.low, "high": interval.high}


def _made(interval: Interval, over: str) -> dict[str, Any]:
    """How an interval was made, over `over`."""
    made: dict[str, Any] = {"method": interval.method, "units": interval.units, "over": over}
    if interval.clustered:
        made["effective"] = round(interval.effective, 2)
    if interval.rough:
        made["rough"] = named(interval.note, over)
    return made
