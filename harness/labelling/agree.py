"""How far the annotators of a project agree, on what two of them or more judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.labelling.folder import CONSTRUCTION, Project
from harness.labelling.records import RELEVANT, Judgements
from harness.schema import Ability
from harness.statistics.agreement import (
    Agreement,
    cohens_kappa,
    krippendorff_alpha,
    percent_agreement,
)

_ABILITIES = {str(ability): number for number, ability in enumerate(Ability)}


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
    relevant = np.where(np.isnan(grades), np.nan, grades >= RELEVANT)
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
    finished = {query: False for query, n in asked.items() if graded[query] >= n}
    return {**finished, **held.unanswerable}


def _numbered(abilities: Mapping[str, str]) -> dict[str, int]:
    return {query: _ABILITIES[name] for query, name in abilities.items()}
