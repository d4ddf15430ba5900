"""How far a project is: who judged what, agreement, conflicts, what its numbers can show yet."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.labelling.annotating import is_done, query_order, shared_queries, worklist
from harness.labelling.consensus import Consensus, consensus, decided, held_by_all
from harness.labelling.folder import CONSTRUCTION, Project
from harness.labelling.records import Judgements
from harness.labelling.scores import POWER, Scores, SystemScore, finished, scores
from harness.schema import Ability
from harness.scoring.metrics import Metric
from harness.statistics.agreement import (
    Agreement,
    cohens_kappa,
    krippendorff_alpha,
    percent_agreement,
)

PRECISION = 0.05
"""The half-width that is wanted, where nobody says otherwise."""

_ABILITIES = {str(ability): number for number, ability in enumerate(Ability)}


def status(
    folder: Path, *, precision: float = PRECISION, metric: str | None = None
) -> dict[str, Any]:
    """Everything that `harness label status` says, as one object; what is not known is None.

    `metric` is ndcg@10, or at the depth of the pool where that is less. Raises UsageError for a
    folder that is no project, an unknown metric, and one that looks deeper than the pool.
    """
    project = Project.read(folder)
    held = held_by_all(project)
    built = project.journal(CONSTRUCTION).held
    settled = project.resolved().held
    agreed = consensus(project, held, built, settled)
    open_grades = sum(one.kind == "grade" for one in agreed.open)
    now = decided(project, agreed, "lower", ("grade",))
    done = finished(project, now)
    found: dict[str, Any] = {
        "folder": str(folder),
        "of": project.scale.thing,
        "then": project.scale.then(folder),
        "documents": len(project.documents),
        "queries": len(project.queries),
        "candidates": len(project.pool),
        "without_candidates": sum(not c for c in project.candidates.values()),
        "k": project.k,
        "seed": project.seed,
        "systems": project.systems or project.answered_by,
        "overlap": project.settings.get("overlap", 1.0),
        "shared_queries": len(shared_queries(project)),
        "annotators": [_annotator(project, name, held) for name in held],
        "constructed": len(built.grades),
        "agreement": [measure.record() for measure in measures(project, held)],
        "conflicts": {
            "open": Counter(_kind(one) for one in agreed.conflicts if one.open),
            "settled": sum(not one.open for one in agreed.conflicts),
        },
        "finished": {
            "scorable": len(done.scorable),
            "without_relevant": len(done.bare),
            "unanswerable": len(done.unanswerable),
            "unanswerable_unconfirmed": sum(
                not any(one.unanswerable.get(query) for one in (*held.values(), settled))
                for query in done.unanswerable
            ),
            "left": len(done.open),
        },
        "scores": None,
    }
    if project.systems:
        wanted = Metric.parse(metric or f"ndcg@{min(10, project.k)}")
        found["scores"] = _scores(project, now, scores(project, now, wanted, precision))
        found["scores"]["open_grades_taken_lower"] = open_grades
    return found


def _annotator(project: Project, name: str, held: dict[str, Judgements]) -> dict[str, Any]:
    own = held[name]
    places = worklist(project, name, own, [held[other] for other in held if other != name])
    left = [place for place in places if not is_done(place, own)]
    return {
        "name": name,
        "grades": len(own.grades),
        "left": len(left),
        "queries": len({query for query, _ in places}),
        "queries_left": len({query for query, _ in left}),
        "unanswerable": sum(own.unanswerable.values()),
        "abilities": len(own.abilities),
        "notes": len(own.notes),
    }


def _kind(conflict: Any) -> str:
    """A kind of conflict as people call it."""
    if conflict.kind == "grade":
        return "relevant or not" if conflict.crossing else "how relevant"
    return "cannot be answered" if conflict.kind == "unanswerable" else str(conflict.kind)


def _scores(project: Project, agreed: Consensus, found: Scores) -> dict[str, Any]:
    judged = found.scored + found.without_relevant + found.unanswerable
    share = found.scored / judged if judged else None
    return {
        "metric": str(found.metric),
        "precision": found.precision,
        "n": found.scored,
        "scorable_share": share,
        "systems": [_system(one) for one in found.systems],
        "needed": _needed(project, agreed, found, share),
        "differences": [
            {
                "a": a,
                "b": b,
                "n": power.n,
                "detectable": _number(power.detectable),
                "power": POWER,
            }
            for a, b, power in found.pairs
        ],
    }


def _system(one: SystemScore) -> dict[str, Any]:
    interval = one.interval
    told = not math.isnan(interval.low)
    return {
        "system": one.system,
        "value": _number(interval.value),
        "low": _number(interval.low),
        "high": _number(interval.high),
        "half_width": (interval.high - interval.low) / 2 if told else None,
        "n": interval.n,
        "method": interval.method,
        "how": interval.how,
        "note": interval.note,
        "judged": one.judged,
        "needed": one.needed,
        "needed_of": "haystacks" if interval.clustered else "queries",
    }


def _needed(
    project: Project, agreed: Consensus, found: Scores, share: float | None
) -> dict[str, Any] | None:
    """What the wanted half-width takes for the system that needs most; None: cannot be told yet.

    Of the queries that are judged only a share has something relevant, so more are judged than are
    scored. Judgements are counted once each, for one annotator.
    """
    wanted = [one.needed for one in found.systems if one.needed is not None]
    if len(wanted) < len(found.systems) or not share:
        return None
    interval = found.systems[0].interval
    each = interval.n / interval.units  # queries of a haystack, or 1
    queries = math.ceil(max(wanted) * each)
    more = max(queries - found.scored, 0)
    to_judge = math.ceil(more / share)
    not_done = set(finished(project, agreed).open)
    left = [
        sum((query, one.document) not in agreed.grades for one in project.candidates[query])
        for query in query_order(project)
        if query in not_done
    ]
    beyond = max(to_judge - len(left), 0)
    mean = len(project.pool) / max(len(project.queries), 1)
    return {
        "units": max(wanted),
        "units_now": interval.units,
        "queries": queries,
        "more_scored": more,
        "more_judged": to_judge,
        "new_queries": beyond,
        "judgements": sum(left[:to_judge]) + math.ceil(beyond * mean),
        "candidates_a_query": mean,
        "clustered": interval.clustered,
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


# -- How far annotators agree on what two of them or more judged -----------------------------------


@dataclass(frozen=True)
class Measure:
    """One measure: what of (`grades`, `relevant or not`, ...), its name, between whom."""

    of: str
    name: str
    between: tuple[str, ...]
    agreement: Agreement

    def record(self) -> dict[str, Any]:
        """As JSON; what is not measurable is null."""
        found = self.agreement
        number = {
            name: None if np.isnan(value) else round(float(value), 4)
            for name, value in (("value", found.value), ("low", found.low), ("high", found.high))
        }
        return {
            "of": self.of,
            "measure": self.name,
            "between": list(self.between),
            **number,
            "level": found.level,
            "n": found.units,
            "ratings": found.ratings,
            "queries": found.clusters,
            "method": found.method,
            "note": found.note,
        }


def measures(project: Project, held: Mapping[str, Judgements]) -> list[Measure]:
    """Agreement on grades, on relevance, on what cannot be answered, and on abilities.

    Alpha of everybody; of each two annotators quadratic-weighted kappa on grades, and plain kappa
    on relevance. Intervals resample whole queries. Who graded all documents of a query without
    marking it says that it can be answered. Empty where fewer than two have judged.
    """
    names = sorted(held)
    if len(names) < 2:
        return []
    pairs = _keys(held[name].grades for name in names)
    grades = _matrix([held[name].grades for name in names], pairs)
    relevant = np.where(np.isnan(grades), np.nan, grades >= project.relevant_from)
    queries = [query for query, _ in pairs]
    found = [
        Measure("grades", "alpha, ordinal", tuple(names), krippendorff_alpha(grades, queries)),
    ]
    for (i, a), (j, b) in combinations(enumerate(names), 2):
        kappa = cohens_kappa(grades[i], grades[j], queries, weights="quadratic")
        found.append(Measure("grades", "kappa, quadratic", (a, b), kappa))
    found.append(Measure("grades", "per cent", tuple(names), percent_agreement(grades, queries)))
    for (i, a), (j, b) in combinations(enumerate(names), 2):
        kappa = cohens_kappa(relevant[i], relevant[j], queries)
        found.append(Measure("relevant or not", "kappa", (a, b), kappa))
    found.append(
        Measure("relevant or not", "per cent", tuple(names), percent_agreement(relevant, queries))
    )
    for what, of_each in (
        ("cannot be answered", [_marks(project, held[name]) for name in names]),
        ("ability", [_numbered(held[name].abilities) for name in names]),
    ):
        keys = _keys(of_each)
        matrix = _matrix(of_each, keys)
        if (np.isfinite(matrix).sum(axis=0) >= 2).any():
            alpha = krippendorff_alpha(matrix, distance="nominal")
            found.append(Measure(what, "alpha, nominal", tuple(names), alpha))
            found.append(Measure(what, "per cent", tuple(names), percent_agreement(matrix)))
    return found


def _keys(values: Iterable[Mapping[Any, Any]]) -> list[Any]:
    return sorted({key for one in values for key in one})


def _matrix(values: list[Any], keys: list[Any]) -> npt.NDArray[np.float64]:
    """(annotators, keys), NaN where one said nothing."""
    rows = [[float(one.get(key, np.nan)) for key in keys] for one in values]
    return np.array(rows, np.float64).reshape(len(values), len(keys))


def _marks(project: Project, held: Judgements) -> dict[str, bool]:
    """Whether each query cannot be answered, of those that an annotator has finished."""
    graded = Counter(query for query, _ in held.grades)
    built = project.journal(CONSTRUCTION).held.grades
    asked = Counter(one.query for one in project.pool if (one.query, one.document) not in built)
    done = {query: False for query, n in asked.items() if graded[query] >= n}
    return {**done, **held.unanswerable}


def _numbered(abilities: Mapping[str, str]) -> dict[str, int]:
    return {query: _ABILITIES[name] for query, name in abilities.items()}
