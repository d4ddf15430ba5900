"""Status of a project: progress, agreement, conflicts, and scores so far."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from harness.errors import UsageError
from harness.extensions.labelling.annotations import Annotations, Pair
from harness.extensions.labelling.consensus import Conflict, Consensus, apply_policy, read_consensus
from harness.extensions.labelling.project import Project
from harness.extensions.labelling.reports import (
    AgreementMeasure,
    AnnotatorStatus,
    ConflictStatus,
    ProgressCounts,
    ScoreStatus,
    StatusReport,
    SystemStatus,
)
from harness.extensions.labelling.session import is_done, shared_queries, worklist
from harness.schema import Ability
from harness.scoring.evaluate import evaluate
from harness.scoring.metrics import Metric
from harness.scoring.score_columns import name_clusters
from harness.stats.agreement import Agreement, cohens_kappa, krippendorff_alpha, percent_agreement
from harness.stats.clusters import Clusters, to_clusters
from harness.stats.intervals import cluster_intervals
from harness.stats.power import clusters_for_half_width

HALF_WIDTH = 0.05
"""Default target half-width of intervals."""

Matrix = npt.NDArray[np.float64]
K = TypeVar("K", str, Pair)


def status(
    folder: Path, *, half_width: float = HALF_WIDTH, metric: str | None = None
) -> StatusReport:
    """Reports the data of `harness label status`; unknown values are None.

    `metric` defaults to ndcg@10, or to the depth of the pool if that is less. Raises UsageError for
    a folder that is not a project, an unknown metric, and a metric deeper than the pool.
    """
    project = Project.read(folder)
    settings = project.settings
    annotators = project.annotations()
    people = [_annotator(project, name, annotators) for name in annotators]
    merged = read_consensus(project, annotators)
    decided = apply_policy(project, merged, "lower", ("grade",))
    progress = judging_progress(project, decided)
    score_status = None
    if project.systems:
        wanted = Metric.parse(metric or f"ndcg@{min(10, settings.depth)}")
        current = [one for one in progress.scorable if not project.query[one].pool_is_older]
        score_status = scores(project, decided, current, wanted, half_width)
    return StatusReport(
        folder=str(folder),
        target=project.scale.target,
        next_command=_next_command(project, people, merged),
        documents=len(project.documents),
        queries=len(project.queries),
        candidates=len(project.pool),
        without_candidates=sum(not c for c in project.candidates.values()),
        depth=settings.depth,
        systems=project.systems or [one.folder for one in settings.answers],
        overlap=settings.overlap,
        shared_queries=len(shared_queries(project)),
        annotators=people,
        unreviewed=len(merged.unreviewed_queries),
        agreement=measures(project, annotators),
        conflicts=ConflictStatus(
            open=Counter(map(_conflict_kind, merged.open)),
            resolved=sum(not one.open for one in merged.conflicts),
            grades=sum(one.kind == "grade" for one in merged.open),
        ),
        progress=ProgressCounts(
            scorable=len(progress.scorable),
            without_relevant=len(progress.without_relevant),
            unanswerable=len(progress.unanswerable),
            unanswerable_unconfirmed=count_unconfirmed(project, progress.unanswerable, annotators),
            rejected=len(progress.rejected),
            unfinished=len(progress.unfinished),
        ),
        scores=score_status,
    )


def _next_command(project: Project, people: Sequence[AnnotatorStatus], merged: Consensus) -> str:
    """Returns the next command: to judge, else to adjudicate, else to use the annotations."""
    working = next((one.name for one in people if one.remaining), None)
    if working or not people:
        return f"harness label open {project.folder} --annotator {working or 'NAME'}"
    if merged.open:
        return f"harness label adjudicate {project.folder}"
    return project.scale.final_command(project.folder)


def count_unconfirmed(
    project: Project, queries: Iterable[str], annotators: Mapping[str, Annotations]
) -> int:
    """Counts the unanswerable queries that no person marked as such."""
    people = [*annotators.values(), project.adjudication_log().current]
    return sum(not any(one.unanswerable.get(query) for one in people) for query in queries)


def _annotator(
    project: Project, name: str, annotators: Mapping[str, Annotations]
) -> AnnotatorStatus:
    own = annotators[name]
    others = [one for other, one in annotators.items() if other != name]
    items = worklist(project, name, own, others)
    left = [item for item in items if not is_done(item, own)]
    return AnnotatorStatus(
        name=name,
        grades=len(own.grades),
        remaining=len(left),
        queries=len({item.query for item in items}),
        queries_remaining=len({item.query for item in left}),
        unanswerable=sum(own.unanswerable.values()),
        rejected=sum(own.rejected.values()),
        abilities=len(own.abilities),
        notes=len(own.notes),
    )


def _conflict_kind(conflict: Conflict) -> str:
    """Returns the kind of a conflict in words."""
    if conflict.kind == "grade":
        return "relevant or not" if conflict.crosses_relevance else "how relevant"
    words = {"unanswerable": "cannot be answered", "rejected": "rejected, but judged by others"}
    return words.get(conflict.kind, conflict.kind)


# -- Agreement between annotators ------------------------------------------------------------------


def measures(project: Project, annotators: Mapping[str, Annotations]) -> list[AgreementMeasure]:
    """Measures agreement on grades, on relevance, on unanswerable queries, and on abilities.

    Alpha for all annotators; for each pair quadratic-weighted kappa on grades, and plain kappa on
    relevance. Intervals are over queries. An annotator who graded all documents of a query
    without marking it counts it as answerable. Empty for fewer than two annotators.
    """
    names = sorted(annotators)
    if len(names) < 2:
        return []
    own = [annotators[name] for name in names]
    grades, keys = _matrix([one.grades for one in own])
    queries = [query for query, _ in keys]
    least = project.settings.relevance_level
    relevant = np.where(np.isnan(grades), np.nan, grades >= least)
    alpha = krippendorff_alpha(grades, queries)
    found = [
        _measure("grades", "alpha, ordinal", names, alpha),
        *_kappas("grades", "quadratic", names, grades, queries),
        _measure("grades", "per cent", names, percent_agreement(grades, queries)),
        *_kappas("relevant or not", "none", names, relevant, queries),
        _measure("relevant or not", "per cent", names, percent_agreement(relevant, queries)),
    ]
    numbers = {ability: number for number, ability in enumerate(Ability)}
    abilities = [{query: numbers[a] for query, a in one.abilities.items()} for one in own]
    marks = [_marks(project, one) for one in own]
    for variable, values in (("cannot be answered", marks), ("ability", abilities)):
        matrix, _ = _matrix(values)
        if (np.isfinite(matrix).sum(axis=0) >= 2).any():
            alpha = krippendorff_alpha(matrix, distance="nominal")
            found.append(_measure(variable, "alpha, nominal", names, alpha))
            found.append(_measure(variable, "per cent", names, percent_agreement(matrix)))
    return found


def _kappas(
    variable: str, weights: str, names: Sequence[str], values: Matrix, queries: Sequence[str]
) -> list[AgreementMeasure]:
    """Returns kappa for each pair of annotators."""
    name = "kappa" if weights == "none" else f"kappa, {weights}"
    return [
        _measure(
            variable,
            name,
            (names[i], names[j]),
            cohens_kappa(values[i], values[j], queries, weights=weights),
        )
        for i, j in combinations(range(len(names)), 2)
    ]


def _measure(
    variable: str, measure: str, annotators: Sequence[str], found: Agreement
) -> AgreementMeasure:
    value, low, high = (
        None if math.isnan(number) else round(float(number), 4)
        for number in (found.value, found.low, found.high)
    )
    return AgreementMeasure(
        variable=variable,
        measure=measure,
        annotators=list(annotators),
        value=value,
        low=low,
        high=high,
        n=found.units,
        queries=found.clusters,
        note=name_clusters(found.note, "queries"),
    )


def _matrix(values: Sequence[Mapping[K, int]]) -> tuple[Matrix, list[K]]:
    """Returns values of shape (annotators, keys), NaN for a missing value, and the keys."""
    keys = sorted({key for one in values for key in one})
    rows = [[float(one.get(key, np.nan)) for key in keys] for one in values]
    return np.array(rows, np.float64).reshape(len(values), len(keys)), keys


def _marks(project: Project, own: Annotations) -> dict[str, int]:
    """Returns whether each query is unanswerable, for queries that an annotator has finished."""
    asked = project.to_judge.items()
    done = {q: 0 for q, ids in asked if ids and all((q, id_) in own.grades for id_ in ids)}
    return {**done, **own.unanswerable}


# -- Scores of the pooled systems so far -----------------------------------------------------------


@dataclass(frozen=True)
class JudgingProgress:
    """Queries by state, in the order of the project.

    `scorable`: a person judged every candidate and one is relevant; `without_relevant`: the same
    and none is relevant; `unanswerable`; `rejected`; `unfinished`: an annotation by a person is
    missing, or in conflict.
    """

    scorable: list[str] = field(default_factory=list)
    without_relevant: list[str] = field(default_factory=list)
    unanswerable: list[str] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)


def judging_progress(project: Project, agreed: Consensus) -> JudgingProgress:
    """Groups the queries by the state of their judging."""
    found = JudgingProgress()
    undecided = {conflict.query for conflict in agreed.open if conflict.kind == "unanswerable"}
    judged = agreed.grades.keys() - agreed.unreviewed
    for query in project.query:
        pairs = [(query, document) for document in project.to_judge[query]]
        grades = [agreed.grades[pair] for pair in pairs if pair in judged]
        if query in agreed.rejected:
            found.rejected.append(query)
        elif query in undecided:
            found.unfinished.append(query)
        elif agreed.unanswerable.get(query):
            found.unanswerable.append(query)
        elif len(grades) < len(pairs) or not grades:
            found.unfinished.append(query)
        elif max(grades) >= project.settings.relevance_level:
            found.scorable.append(query)
        else:
            found.without_relevant.append(query)
    return found


def scores(
    project: Project, agreed: Consensus, queries: Sequence[str], metric: Metric, half_width: float
) -> ScoreStatus:
    """Scores the systems on the scorable queries, with 95% intervals, clustered by haystack if
    queries share one.

    Raises UsageError for a metric that is deeper than the pool, and for a half-width that is not
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
    qrels = {query: exported_grades(project, agreed, query) for query in queries}
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
            and query not in agreed.rejected
        ]
        judged = float(np.mean(shares)) if shares else None
        systems.append(_system(name, to_clusters(values, clusters), judged, half_width))
    return ScoreStatus(
        metric=str(metric), target_half_width=half_width, n=len(queries), systems=systems
    )


def _system(name: str, units: Clusters, judged: float | None, half_width: float) -> SystemStatus:
    # A single query has no spread.
    n = int(units.present.sum())
    (interval,) = cluster_intervals(units, bounds=(0, 1) if n >= 2 else None)
    g = int(units.present[:, 0].sum())
    over = "haystacks" if units.clustered else "queries"
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
        method=name_clusters(interval.how, over) if interval.method != "none" else "",
        note=name_clusters(interval.note, over),
        judged=judged,
        required=required,
        clusters=interval.clusters,
        clustered=interval.clustered,
    )


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


def exported_grades(project: Project, agreed: Consensus, query: str) -> dict[str, int]:
    """Returns the grades for export: 0 below the relevance level."""
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
