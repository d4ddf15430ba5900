"""Scores of the pooled systems on what is judged so far, and the sample size a precision needs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from harness.errors import UsageError
from harness.labelling.consensus import Consensus
from harness.labelling.project import Project
from harness.labelling.reports import (
    DetectableDifference,
    RequiredSample,
    ScoreStatus,
    SystemStatus,
)
from harness.labelling.session import query_order
from harness.scoring.evaluate import evaluate
from harness.scoring.metrics import Metric
from harness.statistics.clusters import Clusters, to_clusters
from harness.statistics.intervals import cluster_intervals
from harness.statistics.power import clusters_for_half_width, power_of

POWER = 0.8


@dataclass(frozen=True)
class JudgingProgress:
    """Queries by their state, in the order of the project.

    `scorable`: every document that a system returned is judged and one is relevant;
    `without_relevant`: the same and none is relevant; `unanswerable`; `unfinished`: something is
    not judged, or in conflict. A candidate that was only proposed is not relevant until judged.
    """

    scorable: list[str]
    without_relevant: list[str]
    unanswerable: list[str]
    unfinished: list[str]


def judging_progress(project: Project, agreed: Consensus) -> JudgingProgress:
    """Sorts the queries by how far they are judged."""
    groups = JudgingProgress([], [], [], [])
    undecided = {conflict.query for conflict in agreed.open if conflict.kind == "unanswerable"}
    contested = {(one.query, one.document) for one in agreed.open if one.kind == "grade"}
    for query in project.query:
        candidates = project.candidates[query]
        grades = [agreed.grades.get((query, one.document)) for one in candidates]
        left = any(
            grade is None and (one.ranks or (query, one.document) in contested)
            for grade, one in zip(grades, candidates, strict=True)
        )
        if query in undecided:
            groups.unfinished.append(query)
        elif agreed.unanswerable.get(query):
            groups.unanswerable.append(query)
        elif left or all(grade is None for grade in grades):
            groups.unfinished.append(query)
        elif any(grade is not None and grade >= project.relevance_level for grade in grades):
            groups.scorable.append(query)
        else:
            groups.without_relevant.append(query)
    return groups


def scores(project: Project, agreed: Consensus, metric: Metric, half_width: float) -> ScoreStatus:
    """Scores the systems on the scorable queries, with 95% intervals, clustered by haystack where
    queries share one.

    Raises UsageError for a metric that looks deeper than the pool, and for a half-width that is not
    between 0 and 1.
    """
    if not 0 < half_width < 1:
        raise UsageError(f"--half-width must be between 0 and 1, not {half_width}")
    if metric.k is None or metric.k > project.depth:
        raise UsageError(
            f"--metric {metric}: looks deeper than the pool, which has the top {project.depth} of "
            f"each system; choose one with a cutoff of {project.depth} or less"
        )
    progress = judging_progress(project, agreed)
    n = len(progress.scorable)
    judged = n + len(progress.without_relevant) + len(progress.unanswerable)
    qrels = {query: _qrels(project, agreed, query) for query in progress.scorable}
    systems, values, clusters = [], [], _clusters(project, progress.scorable)
    for name in project.systems:
        run = _ranking(project, name)
        found = np.zeros(0)
        if qrels:
            found = evaluate(qrels, run, str(metric)).per_query[str(metric)]
        judged_share = _judged_share(run, agreed, metric.k)
        systems.append(_system(name, to_clusters(found, clusters), judged_share, half_width))
        values.append(found)
    differences = []
    for (i, a), (j, b) in combinations(enumerate(project.systems), 2):
        (power,) = power_of(values[i] - values[j], clusters, power=POWER)
        least = _number(power.detectable)
        differences.append(
            DetectableDifference(a=a, b=b, n=power.n, minimum_detectable=least, power=POWER)
        )
    return ScoreStatus(
        metric=str(metric),
        target_half_width=half_width,
        n=n,
        scorable_share=n / judged if judged else None,
        systems=systems,
        differences=differences,
    )


def _system(name: str, units: Clusters, judged: float | None, half_width: float) -> SystemStatus:
    # A single query shows no spread, whatever its value is.
    method = "auto" if units.present.sum() >= 2 else "t"
    (interval,) = cluster_intervals(units, bounds=(0, 1), method=method)
    known = not math.isnan(interval.low)
    return SystemStatus(
        system=name,
        value=_number(interval.value),
        low=_number(interval.low),
        high=_number(interval.high),
        half_width=(interval.high - interval.low) / 2 if known else None,
        n=interval.n,
        method=interval.method,
        description=interval.how,
        note=interval.note,
        judged=judged,
        required=_required_clusters(units, half_width),
        clusters=interval.clusters,
        clustered=interval.clustered,
    )


def _required_clusters(units: Clusters, half_width: float) -> int | None:
    g = int(units.present[:, 0].sum())
    try:
        return (
            clusters_for_half_width(float(units.standard_errors[0]), g, half_width) if g else None
        )
    except ValueError as error:
        raise UsageError(f"--half-width {half_width:g}: {error}; choose a larger one") from None


def required_sample(
    project: Project, agreed: Consensus, found: ScoreStatus
) -> RequiredSample | None:
    """Estimates the sample for the wanted half-width; None where it cannot be estimated yet."""
    wanted = [one.required for one in found.systems if one.required is not None]
    if len(wanted) < len(found.systems) or not found.scorable_share:
        return None
    first = found.systems[0]
    queries = math.ceil(max(wanted) * first.n / first.clusters)
    more = max(queries - found.n, 0)
    to_judge = math.ceil(more / found.scorable_share)
    unfinished = set(judging_progress(project, agreed).unfinished)
    left = [
        sum((query, one.document) not in agreed.grades for one in project.candidates[query])
        for query in query_order(project)
        if query in unfinished
    ]
    beyond = max(to_judge - len(left), 0)
    mean = len(project.pool) / max(len(project.queries), 1)
    return RequiredSample(
        clusters=max(wanted),
        queries=queries,
        additional_scored=more,
        additional_judged=to_judge,
        new_queries=beyond,
        judgements=sum(left[:to_judge]) + math.ceil(beyond * mean),
        candidates_per_query=mean,
    )


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def _qrels(project: Project, agreed: Consensus, query: str) -> dict[str, int]:
    """The grades as they are exported: 0 below the relevance level."""
    documents = [candidate.document for candidate in project.candidates[query]]
    known = {d: agreed.grades[query, d] for d in documents if (query, d) in agreed.grades}
    return {d: grade if grade >= project.relevance_level else 0 for d, grade in known.items()}


def _ranking(project: Project, system: str) -> dict[str, dict[str, float]]:
    """A system's top documents with scores that fall from rank to rank."""
    run: dict[str, dict[str, float]] = {query: {} for query in project.query}
    for one in project.pool:
        if system in one.ranks:
            run[one.query][one.document] = -float(one.ranks[system])
    return run


def _judged_share(
    run: Mapping[str, Mapping[str, float]], agreed: Consensus, k: int
) -> float | None:
    """Mean share of the top k that is judged, over queries with an answer (Judged@k)."""
    shares = []
    for query, documents in run.items():
        top = [document for document, score in documents.items() if -score <= k]
        if top and not agreed.unanswerable.get(query):
            shares.append(sum((query, d) in agreed.grades for d in top) / len(top))
    return float(np.mean(shares)) if shares else None


def _clusters(project: Project, queries: list[str]) -> list[str] | None:
    """The haystack of each query, where there are several and queries share them."""
    every = {query.haystack for query in project.queries}
    if not 1 < len(every) < len(project.queries):
        return None
    return [project.query[query].haystack or "" for query in queries]
