"""What the pooled systems score on what is judged so far, and how much more a precision needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from harness.errors import UsageError
from harness.labelling.consensus import Consensus
from harness.labelling.folder import Project
from harness.scoring.evaluate import evaluate
from harness.scoring.metrics import Metric
from harness.statistics.intervals import Interval, unit_intervals
from harness.statistics.power import PairedPower, power_of, units_for_half_width
from harness.statistics.units import Units, units_of

POWER = 0.8


@dataclass(frozen=True)
class SystemScore:
    """One pooled system over the queries that can be scored.

    `judged` is the mean share of its top documents that somebody judged, over all queries that it
    answered; `needed` how many independent units (queries, or haystacks where queries share them)
    the wanted half-width takes, None where the spread is unknown.
    """

    system: str
    interval: Interval
    judged: float | None
    needed: int | None


@dataclass(frozen=True)
class Scores:
    """What the systems of a pool score in one metric.

    `scored` queries are judged to the end and have something relevant; `without_relevant`,
    `unanswerable` and `unfinished` count the others, by why they are not scored. `pairs` says, for
    each two systems, what difference these queries can show.
    """

    metric: Metric
    precision: float
    scored: int
    without_relevant: int
    unanswerable: int
    unfinished: int
    systems: list[SystemScore]
    pairs: list[tuple[str, str, PairedPower]]


@dataclass(frozen=True)
class Finished:
    """Queries by what they are good for, in the order of the project.

    `scorable`: every document that a system found is judged and one is relevant; `bare`: the same
    and none is relevant; `unanswerable`: they cannot be answered; `open`: something is left, or in
    conflict. What was proposed alone, and nobody judged, is not relevant until somebody says so.
    """

    scorable: list[str]
    bare: list[str]
    unanswerable: list[str]
    open: list[str]


def finished(project: Project, agreed: Consensus) -> Finished:
    """Sort the queries by how far they are judged."""
    groups = Finished([], [], [], [])
    undecided = {conflict.query for conflict in agreed.open if conflict.kind == "unanswerable"}
    contested: dict[str, set[str | None]] = {query: set() for query in project.query}
    for conflict in agreed.open:
        if conflict.kind == "grade":
            contested[conflict.query].add(conflict.document)
    for query in project.query:
        candidates = project.candidates[query]
        grades = [agreed.grades.get((query, one.document)) for one in candidates]
        pairs = zip(grades, candidates, strict=True)
        left = any(
            grade is None and (one.ranks or one.document in contested[query])
            for grade, one in pairs
        )
        if query in undecided:
            groups.open.append(query)
        elif agreed.unanswerable.get(query):
            groups.unanswerable.append(query)
        elif left or all(grade is None for grade in grades):
            groups.open.append(query)
        elif any(grade is not None and grade >= project.relevant_from for grade in grades):
            groups.scorable.append(query)
        else:
            groups.bare.append(query)
    return groups


def scores(project: Project, agreed: Consensus, metric: Metric, precision: float) -> Scores:
    """The systems on the scorable queries, with 95% intervals, over haystacks where they share one.

    Raises UsageError for a metric that looks deeper than the pool, and for a precision that is not
    between 0 and 1.
    """
    if not 0 < precision < 1:
        raise UsageError(f"--precision is a half-width between 0 and 1, not {precision}")
    if metric.k is None or metric.k > project.k:
        raise UsageError(
            f"--metric {metric}: looks deeper than the pool, of which {project.k} a system are "
            f"known; choose one with a cut-off of {project.k} or less"
        )
    done = finished(project, agreed)
    qrels = {query: _judged(project, agreed, query) for query in done.scorable}
    systems, values, clusters = [], [], _clusters(project, done.scorable)
    for name in project.systems:
        run = _ranking(project, name)
        found = np.zeros(0)
        if qrels:
            found = evaluate(qrels, run, str(metric)).per_query[str(metric)]
        units = units_of(found, clusters)
        # A single query shows no spread, whatever its value is.
        method = "auto" if units.present.sum() >= 2 else "t"
        (interval,) = unit_intervals(units, bounds=(0, 1), method=method)
        needed = _needed(units, precision)
        systems.append(SystemScore(name, interval, _judged_share(run, agreed, metric.k), needed))
        values.append(found)
    pairs = []
    for (i, a), (j, b) in combinations(enumerate(project.systems), 2):
        (power,) = power_of(values[i] - values[j], clusters, power=POWER)
        pairs.append((a, b, power))
    return Scores(
        metric,
        precision,
        len(done.scorable),
        len(done.bare),
        len(done.unanswerable),
        len(done.open),
        systems,
        pairs,
    )


def _needed(units: Units, precision: float) -> int | None:
    g = int(units.present[:, 0].sum())
    try:
        return units_for_half_width(float(units.standard_errors[0]), g, precision) if g else None
    except ValueError as error:
        raise UsageError(f"--precision {precision:g}: {error}; name a larger one") from None


def _judged(project: Project, agreed: Consensus, query: str) -> dict[str, int]:
    """The grades as they are exported: 0 below the one from which on they count."""
    documents = [candidate.document for candidate in project.candidates[query]]
    known = {d: agreed.grades[query, d] for d in documents if (query, d) in agreed.grades}
    return {d: grade if grade >= project.relevant_from else 0 for d, grade in known.items()}


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
    """Mean share of the top k that has a judgement, over queries with an answer (Judged@k)."""
    shares = []
    for query, documents in run.items():
        top = [document for document, score in documents.items() if -score <= k]
        if top and not agreed.unanswerable.get(query):
            shares.append(sum((query, d) in agreed.grades for d in top) / len(top))
    return float(np.mean(shares)) if shares else None


def _clusters(project: Project, queries: list[str]) -> list[Any] | None:
    """Haystack of each query, where several share one of several."""
    names = [project.query[query].get("haystack") for query in queries]
    of_all = {query.get("haystack") for query in project.queries}
    return names if len(of_all) > 1 and len(of_all) < len(project.queries) else None
