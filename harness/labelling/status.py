"""Status of a project: who judged what, agreement, conflicts, and what its numbers can show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from harness.labelling.annotations import Annotations, Pair
from harness.labelling.consensus import (
    Conflict,
    annotations_by_name,
    apply_policy,
    consensus,
)
from harness.labelling.project import CONSTRUCTION, Project
from harness.labelling.reports import (
    AgreementMeasure,
    AnnotatorStatus,
    ConflictStatus,
    ProgressCounts,
    StatusReport,
)
from harness.labelling.scores import judging_progress, required_sample, scores
from harness.labelling.session import is_done, shared_queries, worklist
from harness.schema import Ability
from harness.scoring.metrics import Metric
from harness.statistics.agreement import (
    Agreement,
    cohens_kappa,
    krippendorff_alpha,
    percent_agreement,
)

HALF_WIDTH = 0.05
"""The wanted half-width of intervals, where none is given."""

_ABILITIES = {ability: number for number, ability in enumerate(Ability)}


def status(
    folder: Path, *, half_width: float = HALF_WIDTH, metric: str | None = None
) -> StatusReport:
    """Reports what `harness label status` prints; what is not known is None.

    `metric` is ndcg@10, or at the depth of the pool where that is less. Raises UsageError for a
    folder that is not a project, an unknown metric, and one that looks deeper than the pool.
    """
    project = Project.read(folder)
    annotators = annotations_by_name(project)
    built = project.annotation_log(CONSTRUCTION).current
    adjudicated = project.adjudication_log().current
    merged = consensus(project, annotators, built, adjudicated)
    decided = apply_policy(project, merged, "lower", ("grade",))
    progress = judging_progress(project, decided)
    score_status = None
    if project.systems:
        wanted = Metric.parse(metric or f"ndcg@{min(10, project.depth)}")
        score_status = scores(project, decided, wanted, half_width)
    return StatusReport(
        folder=str(folder),
        target=project.scale.target,
        next_command=project.scale.next_command(folder),
        documents=len(project.documents),
        queries=len(project.queries),
        candidates=len(project.pool),
        without_candidates=sum(not c for c in project.candidates.values()),
        depth=project.depth,
        seed=project.seed,
        systems=project.systems or project.answer_folders,
        overlap=project.settings.overlap,
        shared_queries=len(shared_queries(project)),
        annotators=[_annotator(project, name, annotators) for name in annotators],
        by_construction=len(built.grades),
        agreement=measures(project, annotators),
        conflicts=ConflictStatus(
            open=Counter(_conflict_kind(one) for one in merged.open),
            resolved=sum(not one.open for one in merged.conflicts),
        ),
        progress=ProgressCounts(
            scorable=len(progress.scorable),
            without_relevant=len(progress.without_relevant),
            unanswerable=len(progress.unanswerable),
            unanswerable_unconfirmed=count_unconfirmed(
                progress.unanswerable, (*annotators.values(), adjudicated)
            ),
            unfinished=len(progress.unfinished),
        ),
        open_grade_conflicts=sum(one.kind == "grade" for one in merged.open),
        scores=score_status,
        required=required_sample(project, decided, score_status) if score_status else None,
    )


def count_unconfirmed(queries: Iterable[str], annotations: Sequence[Annotations]) -> int:
    """Counts the unanswerable queries that nobody marked as such."""
    return sum(not any(one.unanswerable.get(query) for one in annotations) for query in queries)


def _annotator(
    project: Project, name: str, annotators: Mapping[str, Annotations]
) -> AnnotatorStatus:
    own = annotators[name]
    others = [annotators[other] for other in annotators if other != name]
    items = worklist(project, name, own, others)
    left = [item for item in items if not is_done(item, own)]
    return AnnotatorStatus(
        name=name,
        grades=len(own.grades),
        remaining=len(left),
        queries=len({item.query for item in items}),
        queries_remaining=len({item.query for item in left}),
        unanswerable=sum(own.unanswerable.values()),
        abilities=len(own.abilities),
        notes=len(own.notes),
    )


def _conflict_kind(conflict: Conflict) -> str:
    """Returns the kind of a conflict in words."""
    if conflict.kind == "grade":
        return "relevant or not" if conflict.crosses_relevance else "how relevant"
    return "cannot be answered" if conflict.kind == "unanswerable" else conflict.kind


# -- Agreement on what two or more annotators judged -----------------------------------------------


def _measure(
    variable: str, name: str, annotators: Sequence[str], found: Agreement
) -> AgreementMeasure:
    value, low, high = (
        None if np.isnan(number) else round(float(number), 4)
        for number in (found.value, found.low, found.high)
    )
    return AgreementMeasure(
        variable=variable,
        measure=name,
        annotators=list(annotators),
        value=value,
        low=low,
        high=high,
        level=found.level,
        n=found.units,
        ratings=found.ratings,
        queries=found.clusters,
        method=found.method,
        note=found.note,
    )


def measures(project: Project, annotators: Mapping[str, Annotations]) -> list[AgreementMeasure]:
    """Measures agreement on grades, on relevance, on unanswerable queries, and on abilities.

    Alpha of all annotators; of each two quadratic-weighted kappa on grades, and plain kappa on
    relevance. Intervals resample whole queries. Who graded all documents of a query without
    marking it counts as saying that it is answerable. Empty where fewer than two have judged.
    """
    names = sorted(annotators)
    if len(names) < 2:
        return []
    own = [annotators[name] for name in names]
    pairs = _keys([one.grades for one in own])
    grades = _matrix([one.grades for one in own], pairs)
    relevant = np.where(np.isnan(grades), np.nan, grades >= project.relevance_level)
    queries = [query for query, _ in pairs]
    found = [_measure("grades", "alpha, ordinal", names, krippendorff_alpha(grades, queries))]
    for (i, a), (j, b) in combinations(enumerate(names), 2):
        kappa = cohens_kappa(grades[i], grades[j], queries, weights="quadratic")
        found.append(_measure("grades", "kappa, quadratic", (a, b), kappa))
    found.append(_measure("grades", "per cent", names, percent_agreement(grades, queries)))
    for (i, a), (j, b) in combinations(enumerate(names), 2):
        kappa = cohens_kappa(relevant[i], relevant[j], queries)
        found.append(_measure("relevant or not", "kappa", (a, b), kappa))
    per_cent = percent_agreement(relevant, queries)
    found.append(_measure("relevant or not", "per cent", names, per_cent))
    for variable, values in (
        ("cannot be answered", [_marks(project, one) for one in own]),
        ("ability", [_numbered(one.abilities) for one in own]),
    ):
        matrix = _matrix(values, _keys(values))
        if (np.isfinite(matrix).sum(axis=0) >= 2).any():
            alpha = krippendorff_alpha(matrix, distance="nominal")
            found.append(_measure(variable, "alpha, nominal", names, alpha))
            found.append(_measure(variable, "per cent", names, percent_agreement(matrix)))
    return found


K = TypeVar("K", str, Pair)


def _keys(values: Iterable[Mapping[K, int]]) -> list[K]:
    return sorted({key for one in values for key in one})


def _matrix(values: Sequence[Mapping[K, int]], keys: list[K]) -> npt.NDArray[np.float64]:
    """(annotators, keys), NaN where an annotator has no value."""
    rows = [[float(one.get(key, np.nan)) for key in keys] for one in values]
    return np.array(rows, np.float64).reshape(len(values), len(keys))


def _marks(project: Project, own: Annotations) -> dict[str, int]:
    """Whether each query is unanswerable (1), of those that an annotator has finished."""
    graded = Counter(query for query, _ in own.grades)
    built = project.annotation_log(CONSTRUCTION).current.grades
    asked = Counter(one.query for one in project.pool if (one.query, one.document) not in built)
    done = {query: 0 for query, n in asked.items() if graded[query] >= n}
    return {**done, **own.unanswerable}


def _numbered(abilities: Mapping[str, Ability]) -> dict[str, int]:
    return {query: _ABILITIES[name] for query, name in abilities.items()}
