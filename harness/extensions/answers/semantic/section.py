"""The `semantic` section of scores: results by slice, and their agreement with those by ids."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from harness.extensions.answers.semantic.accuracy import METRICS, SemanticAccuracy
from harness.records.scores import (
    Estimate,
    ProtocolResult,
    SemanticResult,
    SemanticSource,
    SemanticVersusIds,
    SliceResult,
)
from harness.scoring.arrays import Flags, Values
from harness.scoring.score_columns import (
    LEVEL,
    Column,
    name_clusters,
    slice_results,
    with_intervals_over,
)
from harness.stats.correlation import Correlation, correlations
from harness.stats.intervals import MeanInterval, mean_intervals

PROTOCOL = "semantic/1"
BY_ID = {
    "semantic_recall": "recall",
    "semantic_precision": "precision",
    "semantic_precision_returned": "precision_returned",
}
"""The metric by ids that corresponds to each semantic metric; soft metrics have none."""

NO_SUBSTITUTE = (
    "this counts similar texts, not the evidence itself: it is no substitute for recall by ids"
)
UNCHECKED = "not checked against ids, as there are none: it counts similar texts, not evidence"

Clusters = npt.NDArray[np.int32] | None


def section(
    found: SemanticAccuracy,
    masks: Mapping[str, Flags],
    clusters: Clusters,
    template: str,
    excluded: Mapping[str, int],
    failed: Flags,
    by_id: Mapping[str, Values] | None = None,
) -> SemanticResult:
    """Returns the `semantic` section for scores.json.

    `masks` are slices of the queries, `clusters` the independent groups (uncertainty.independent);
    `template` is the signature shared by all values; `failed` queries count 0; `by_id` has
    `recall@10` and the like for the same queries, NaN for queries without a value.
    """
    n = len(next(iter(masks.values())))
    known = np.ones(n, bool)
    columns = [
        Column(name, values, known, found.random_baseline[name], None)
        for name, values in found.per_query.items()
    ]
    slices = slice_results(columns, masks, failed)
    for results in slices.values():
        for metric, result in results.items():
            random = result.random_baseline
            if random is not None and np.isnan(random):  # empty haystack
                results[metric] = replace(result, random_baseline=None)
    # Shares are from 0 to 1, mean cosines from -1 to 1.
    for soft, bounds in ((False, (0.0, 1.0)), (True, (-1.0, 1.0))):
        mine = {
            name: {m: one for m, one in results.items() if m.startswith("soft_") is soft}
            for name, results in slices.items()
        }
        for name, results in with_intervals_over(clusters, n, columns, masks, mine, bounds).items():
            slices[name].update(results)
    protocol, _, version = PROTOCOL.partition("/")
    description = UNCHECKED if by_id is None else NO_SUBSTITUTE
    return SemanticResult(
        description=description,
        checked_against_ids=by_id is not None,
        threshold=found.threshold,
        model=found.model,
        ks=list(found.ks),
        random_source=SemanticSource(texts=found.texts, sampled=found.sampled),
        excluded=dict(excluded),
        results=ProtocolResult(
            protocol=protocol,
            version=int(version),
            description=description,
            level="text",
            ties="order",
            signature=template,
        ).with_slices({name: SliceResult.of(results) for name, results in slices.items()}),
        versus_ids=None if by_id is None else _versus_ids(found, by_id, clusters),
    )


def _versus_ids(
    found: SemanticAccuracy, by_id: Mapping[str, Values], clusters: Clusters
) -> dict[str, SemanticVersusIds]:
    """Compares by metric, over queries with both values: both means, difference, correlation."""
    versus = {}
    for cutoff in found.ks:
        for metric in METRICS:
            if metric not in BY_ID:
                continue
            name = f"{metric}@{cutoff}"
            ids, semantic = by_id[f"{BY_ID[metric]}@{cutoff}"], found.per_query[name]
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
            versus[name] = SemanticVersusIds(
                by_ids=f"{BY_ID[metric]}@{cutoff}",
                n=int(both.sum()),
                mean_by_ids=float(ids[both].mean()),
                mean_semantic=float(semantic[both].mean()),
                difference=_interval(difference),
                pearson=_correlation(together["pearson"]),
                spearman=_correlation(together["spearman"]),
            )
    return versus


def _interval(interval: MeanInterval) -> Estimate:
    known = interval.method != "none"
    return Estimate(
        value=interval.value,
        low=interval.low if known else None,
        high=interval.high if known else None,
        method=interval.method,
        note=name_clusters(interval.note, "haystacks" if interval.clustered else "queries"),
    )


def _correlation(found: Correlation) -> Estimate:
    over = "haystacks" if found.clustered else "queries"
    return Estimate(
        value=found.value,
        low=found.low,
        high=found.high,
        clusters=found.clusters,
        cluster_by=over,
        note=name_clusters(found.note, over),
    )
