"""The 95% interval of every mean: over queries, or over haystacks where queries share them.

A value is the mean over queries. Where haystacks are the clusters it stands beside the mean over
haystacks, in which each counts once: another question, with another answer where haystacks differ
in size.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from harness.datasets.reader import Dataset
from harness.records.scores import Interval, MacroMean
from harness.scoring.arrays import Flags
from harness.scoring.cells import Column, Results
from harness.stats.clusters import to_clusters
from harness.stats.intervals import MeanInterval, cluster_intervals

LEVEL = 0.95

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


def with_intervals(
    dataset: Dataset,
    columns: Sequence[Column],
    masks: Mapping[str, Flags],
    slices: Mapping[str, Results],
) -> dict[str, Results]:
    """Returns the results, by slice and metric, with their 95% intervals.

    Where queries share haystacks, results have `macro_haystack` too: the mean in which each
    haystack counts once, with its own interval. Results without a value get none.
    """
    return with_intervals_over(independent(dataset), dataset.n_queries, columns, masks, slices)


def with_macro_category(slices: Mapping[str, Results]) -> dict[str, Results]:
    """Returns the results with, in those of `all`, the mean in which each category counts once.

    It is left out where the value of a category is not known, and for fewer than two categories.
    """
    categories = [results for name, results in slices.items() if name.startswith("category:")]
    if len(categories) < 2:
        return dict(slices)
    overall = {}
    for metric, result in slices.get("all", {}).items():
        values = [results[metric].value for results in categories if metric in results]
        known = [value for value in values if value is not None]
        if values and len(known) == len(values):
            macro = MacroMean(value=sum(known) / len(known), groups=len(known))
            result = replace(result, macro_category=macro)
        overall[metric] = result
    return {**slices, "all": overall}


def with_intervals_over(
    clusters: npt.NDArray[np.int32] | None,
    n: int,
    columns: Sequence[Column],
    masks: Mapping[str, Flags],
    slices: Mapping[str, Results],
    bounds: tuple[float, float] = (0, 1),
) -> dict[str, Results]:
    """Does the same for n queries of any origin; `clusters` as `independent` gives them, `bounds`
    the least and greatest value that a query can have."""
    by_name = {str(column.metric): column for column in columns}
    found = {name: dict(results) for name, results in slices.items()}
    wanted = [
        (name, metric)
        for name, results in found.items()
        for metric, result in results.items()
        if result.value is not None
    ]
    if not wanted:
        return found
    matrix = np.full((n, len(wanted)), np.nan)
    for at, (name, metric) in enumerate(wanted):
        mask = masks[name]
        matrix[mask, at] = by_name[metric].values[mask]
    used = ~np.isnan(matrix).all(axis=1)
    grouped = to_clusters(matrix[used], None if clusters is None else clusters[used])
    for (name, metric), made in zip(
        wanted, cluster_intervals(grouped, level=LEVEL, bounds=bounds), strict=True
    ):
        cluster_by = "haystacks" if made.clustered else "queries"
        interval = interval_record(made, cluster_by)
        if interval is not None:
            found[name][metric] = replace(found[name][metric], interval=interval)
    if not grouped.clustered:
        return found
    for (name, metric), made in zip(
        wanted, cluster_intervals(grouped.by_cluster(), level=LEVEL, bounds=bounds), strict=True
    ):
        interval = interval_record(made, "haystacks")
        if interval is not None:
            macro = MacroMean(value=made.value, groups=made.clusters, interval=interval)
            found[name][metric] = replace(found[name][metric], macro_haystack=macro)
    return found


def interval_record(interval: MeanInterval, cluster_by: str) -> Interval | None:
    """Returns an interval as records hold it, over `cluster_by`; None where there is none."""
    if interval.method == "none":
        return None
    return Interval(
        low=interval.low,
        high=interval.high,
        method=interval.method,
        cluster_by=cluster_by,
        clusters=interval.clusters,
        effective_clusters=round(interval.effective, 2) if interval.clustered else None,
        approximate=named(interval.note, cluster_by) if interval.approximate else "",
    )
