"""The `semantic` section of scores: cells by slice, numbers by ids, and how far the two agree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.scoring.arrays import Flags, Values
from harness.scoring.cells import Column
from harness.scoring.semantic.accuracy import SemanticAccuracy
from harness.scoring.semantic.similarity import METRICS
from harness.scoring.uncertainty import LEVEL, add_intervals_over
from harness.statistics.correlation import Correlation, correlations
from harness.statistics.intervals import Interval, mean_intervals

PROTOCOL = "semantic/1"
BY_ID = {
    "semantic_recall": "recall",
    "semantic_precision": "precision",
    "semantic_precision_returned": "precision_returned",
}
"""The metric by ids that each one stands beside; the soft ones have none."""

NO_SUBSTITUTE = (
    "this counts similar texts, not the evidence itself: it is no substitute for recall by ids"
)
UNCHECKED = "not checked against ids, as there are none: it counts similar texts, not evidence"

Clusters = npt.NDArray[np.int32] | None


def section(
    found: SemanticAccuracy,
    masks: Mapping[str, Flags],
    clusters: Clusters,
    sign: Callable[[str, str, int], str],
    left_out: Mapping[str, int],
    failed: Flags,
    by_id: Mapping[str, Values] | None = None,
) -> dict[str, Any]:
    """Plain values for scores.json.

    `masks` are slices of the queries, `clusters` what is independent (see uncertainty.independent);
    `sign` gives the signature of a metric, slice and n; `failed` queries count 0; `by_id` has
    `recall@10` and the like for the same queries, NaN where they have none.
    """
    n = len(next(iter(masks.values())))
    known = np.ones(n, bool)
    columns = [
        Column(name, values, known, found.chance[name], None)
        for name, values in found.per_query.items()
    ]
    slices: dict[str, Any] = {}
    for name, mask in masks.items():
        cells = {str(c.metric): cell for c in columns if (cell := c.cell(mask, failed)) is not None}
        for metric, cell in cells.items():
            if cell["chance"] is not None and np.isnan(cell["chance"]):
                cell["chance"] = None  # nothing to draw from
            cell["signature"] = sign(metric, name, cell["n"])
        if cells:
            slices[name] = {"n": max(cell["n"] for cell in cells.values()), "metrics": cells}
    # Shares are from 0 to 1, mean cosines from -1 to 1.
    for soft, bounds in ((False, (0.0, 1.0)), (True, (-1.0, 1.0))):
        cells_of = {
            name: {m: cell for m, cell in part["metrics"].items() if m.startswith("soft_") is soft}
            for name, part in slices.items()
        }
        add_intervals_over(clusters, n, columns, masks, cells_of, bounds)
    return {
        "about": UNCHECKED if by_id is None else NO_SUBSTITUTE,
        "checked_against_ids": by_id is not None,
        "threshold": found.threshold,
        "model": found.model,
        "ks": list(found.ks),
        "chance_from": {"texts": found.texts, "sampled": found.sampled},
        "left_out": dict(left_out),
        "slices": slices,
        "beside_ids": None if by_id is None else _beside(found, by_id, clusters),
    }


def _beside(
    found: SemanticAccuracy, by_id: Mapping[str, Values], clusters: Clusters
) -> dict[str, Any]:
    """By metric: both means over the queries that have both, their difference and correlation."""
    beside: dict[str, Any] = {}
    for k in found.ks:
        for metric in METRICS:
            if metric not in BY_ID:
                continue
            name = f"{metric}@{k}"
            ids, semantic = by_id[f"{BY_ID[metric]}@{k}"], found.per_query[name]
            both = ~(np.isnan(ids) | np.isnan(semantic))
            if not both.any():
                continue
            mine = None if clusters is None else clusters[both]
            (difference,) = mean_intervals(
                (semantic - ids)[both],
                mine,
                level=LEVEL,
                bounds=(-1, 1),
            )
            together = correlations(semantic[both], ids[both], mine, level=LEVEL)
            beside[name] = {
                "by_ids": f"{BY_ID[metric]}@{k}",
                "n": int(both.sum()),
                "mean_by_ids": float(ids[both].mean()),
                "mean_semantic": float(semantic[both].mean()),
                "difference": _interval(difference),
                **{kind: _correlation(one) for kind, one in together.items()},
            }
    return beside


def _interval(interval: Interval) -> dict[str, Any]:
    known = interval.method != "none"
    return {
        "value": interval.value,
        "low": interval.low if known else None,
        "high": interval.high if known else None,
        "method": interval.method,
        "note": interval.note,
    }


def _correlation(found: Correlation) -> dict[str, Any]:
    return {
        "value": found.value,
        "low": found.low,
        "high": found.high,
        "units": found.units,
        "over": "haystacks" if found.clustered else "queries",
        "note": found.note,
    }
