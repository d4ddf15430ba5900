"""Status of a project: who judged what, agreement, conflicts, and scores so far."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from harness.extensions.labelling.annotations import Annotations, Pair
from harness.extensions.labelling.consensus import Conflict, apply_policy, read_consensus
from harness.extensions.labelling.project import CONSTRUCTION, Project
from harness.extensions.labelling.reports import (
    AgreementMeasure,
    AnnotatorStatus,
    ConflictStatus,
    ProgressCounts,
    StatusReport,
)
from harness.extensions.labelling.scores import judging_progress, scores
from harness.extensions.labelling.session import is_done, shared_queries, worklist
from harness.schema import Ability
from harness.scoring.metrics import Metric
from harness.stats.agreement import (
    Agreement,
    cohens_kappa,
    krippendorff_alpha,
    percent_agreement,
)

HALF_WIDTH = 0.05
"""The wanted half-width of intervals, where none is given."""

Matrix = npt.NDArray[np.float64]
K = TypeVar("K", str, Pair)


def status(
    folder: Path, *, half_width: float = HALF_WIDTH, metric: str | None = None
) -> StatusReport:
    """Reports what `harness label status` prints; what is not known is None.

    `metric` is ndcg@10, or at the depth of the pool where that is less. Raises UsageError for a
    folder that is not a project, an unknown metric, and one that looks deeper than the pool.
    """
    project = Project.read(folder)
    settings = project.settings
    annotators = project.annotations()
    merged = read_consensus(project, annotators)
    decided = apply_policy(project, merged, "lower", ("grade",))
    progress = judging_progress(project, decided)
    score_status = None
    if project.systems:
        wanted = Metric.parse(metric or f"ndcg@{min(10, settings.depth)}")
        score_status = scores(project, decided, progress.scorable, wanted, half_width)
    return StatusReport(
        folder=str(folder),
        target=project.scale.target,
        next_command=project.scale.next_command(folder),
        documents=len(project.documents),
        queries=len(project.queries),
        candidates=len(project.pool),
        without_candidates=sum(not c for c in project.candidates.values()),
        depth=settings.depth,
        systems=project.systems or [one.folder for one in settings.answers],
        overlap=settings.overlap,
        shared_queries=len(shared_queries(project)),
        annotators=[_annotator(project, name, annotators) for name in annotators],
        by_construction=len(project.annotation_log(CONSTRUCTION).current.grades),
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
            unfinished=len(progress.unfinished),
        ),
        scores=score_status,
    )


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
        abilities=len(own.abilities),
        notes=len(own.notes),
    )


def _conflict_kind(conflict: Conflict) -> str:
    """Returns the kind of a conflict in words."""
    if conflict.kind == "grade":
        return "relevant or not" if conflict.crosses_relevance else "how relevant"
    return "cannot be answered" if conflict.kind == "unanswerable" else conflict.kind


# -- Agreement on what two or more annotators judged -----------------------------------------------


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
    """Returns kappa of each two annotators."""
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
        note=found.note,
    )


def _matrix(values: Sequence[Mapping[K, int]]) -> tuple[Matrix, list[K]]:
    """Returns values of shape (annotators, keys), NaN where one has no value, and the keys."""
    keys = sorted({key for one in values for key in one})
    rows = [[float(one.get(key, np.nan)) for key in keys] for one in values]
    return np.array(rows, np.float64).reshape(len(values), len(keys)), keys


def _marks(project: Project, own: Annotations) -> dict[str, int]:
    """Returns whether each query is unanswerable, of those that an annotator has finished."""
    graded = Counter(query for query, _ in own.grades)
    built = project.annotation_log(CONSTRUCTION).current.grades
    asked = Counter(one.query for one in project.pool if (one.query, one.document) not in built)
    done = {query: 0 for query, n in asked.items() if graded[query] >= n}
    return {**done, **own.unanswerable}
