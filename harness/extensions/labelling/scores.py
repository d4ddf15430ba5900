"""Scores of the pooled systems on what is judged so far, and how much of them is judged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from harness.errors import UsageError
from harness.extensions.labelling.consensus import Consensus
from harness.extensions.labelling.project import Project
from harness.extensions.labelling.reports import ScoreStatus, SystemStatus
from harness.scoring.evaluate import evaluate
from harness.scoring.metrics import Metric
from harness.stats.clusters import Clusters, to_clusters
from harness.stats.intervals import cluster_intervals
from harness.stats.power import clusters_for_half_width


@dataclass(frozen=True)
class JudgingProgress:
    """Queries by their state, in the order of the project.

    `scorable`: every document that a system returned is judged and one is relevant;
    `without_relevant`: the same and none is relevant; `unanswerable`; `unfinished`: something is
    not judged, or in conflict. A candidate that was only proposed is not relevant until judged.
    """

    scorable: list[str] = field(default_factory=list)
    without_relevant: list[str] = field(default_factory=list)
    unanswerable: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)


def judging_progress(project: Project, agreed: Consensus) -> JudgingProgress:
    """Sorts the queries by how far they are judged."""
    found = JudgingProgress()
    undecided = {conflict.query for conflict in agreed.open if conflict.kind == "unanswerable"}
    contested = {(one.query, one.document) for one in agreed.open if one.kind == "grade"}
    for query in project.query:
        candidates = project.candidates[query]
        pairs = [(query, one.document) for one in candidates]
        grades = [agreed.grades[pair] for pair in pairs if pair in agreed.grades]
        left = any(
            pair not in agreed.grades and (one.ranks or pair in contested)
            for pair, one in zip(pairs, candidates, strict=True)
        )
        if query in undecided:
            found.unfinished.append(query)
        elif agreed.unanswerable.get(query):
            found.unanswerable.append(query)
        elif left or not grades:
            found.unfinished.append(query)
        elif max(grades) >= project.settings.relevance_level:
            found.scorable.append(query)
        else:
            found.without_relevant.append(query)
    return found


def scores(
    project: Project, agreed: Consensus, queries: Sequence[str], metric: Metric, half_width: float
) -> ScoreStatus:
    """Scores the systems on the scorable queries, with 95% intervals, clustered by haystack where
    queries share one.

    Raises UsageError for a metric that looks deeper than the pool, and for a half-width that is not
    between 0 and 1.
    """
    if not 0 < half_width < 1:
        raise UsageError(f"--half-width must be between 0 and 1, not {half_width}")
    depth = project.settings.depth
    if metric.k is None or metric.k > depth:
        raise UsageError(
            f"--metric {metric}: looks deeper than the pool, which has the top {depth} of each "
            f"system; choose one with a cutoff of {depth} or less"
        )
    qrels = {query: _qrels(project, agreed, query) for query in queries}
    haystacks = {query.haystack for query in project.queries}
    shared = 1 < len(haystacks) < len(project.queries)
    clusters = [project.query[query].haystack or "" for query in queries] if shared else None
    systems = []
    for name in project.systems:
        ranks = _ranks(project, name)
        values = np.zeros(0)
        if qrels:
            run = {q: {d: -float(rank) for d, rank in of.items()} for q, of in ranks.items()}
            values = evaluate(qrels, run, str(metric)).per_query[str(metric)]
        shares = [
            sum((query, document) in agreed.grades for document in top) / len(top)
            for query, of in ranks.items()
            if (top := [document for document, rank in of.items() if rank <= metric.k])
            and not agreed.unanswerable.get(query)
        ]
        judged = float(np.mean(shares)) if shares else None
        systems.append(_system(name, to_clusters(values, clusters), judged, half_width))
    return ScoreStatus(
        metric=str(metric), target_half_width=half_width, n=len(queries), systems=systems
    )


def _system(name: str, units: Clusters, judged: float | None, half_width: float) -> SystemStatus:
    # A single query shows no spread.
    n = int(units.present.sum())
    (interval,) = cluster_intervals(units, bounds=(0, 1) if n >= 2 else None)
    g = int(units.present[:, 0].sum())
    try:
        error = float(units.standard_errors[0])
        required = clusters_for_half_width(error, g, half_width) if g else None
    except ValueError as wrong:
        raise UsageError(f"--half-width {half_width:g}: {wrong}; choose a larger one") from None
    return SystemStatus(
        system=name,
        value=_number(interval.value),
        low=_number(interval.low),
        high=_number(interval.high),
        n=interval.n,
        method=interval.how if interval.method != "none" else "",
        note=interval.note,
        judged=judged,
        required=required,
        clusters=interval.clusters,
        clustered=interval.clustered,
    )


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _qrels(project: Project, agreed: Consensus, query: str) -> dict[str, int]:
    """Returns the grades as they are exported: 0 below the relevance level."""
    least = project.settings.relevance_level
    documents = [candidate.document for candidate in project.candidates[query]]
    known = {d: agreed.grades[query, d] for d in documents if (query, d) in agreed.grades}
    return {document: grade if grade >= least else 0 for document, grade in known.items()}


def _ranks(project: Project, system: str) -> dict[str, dict[str, int]]:
    """Returns the ranks of a system's top documents by query."""
    found: dict[str, dict[str, int]] = {query: {} for query in project.query}
    for one in project.pool:
        if system in one.ranks:
            found[one.query][one.document] = one.ranks[system]
    return found
