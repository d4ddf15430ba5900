"""Merges the annotations of all annotators, with their conflicts and the resolutions.

For each key (a grade, an ability, whether a query is unanswerable) the resolution counts; else
the value on which the annotators agree; else the grade by construction, if no annotator gave one.
Conflicts:

* `grade`: annotators gave a document different grades.
* `unanswerable`: an annotator marked a query as unanswerable, and another (or the same one) marked
  it as answerable, or graded one of its documents as relevant.
* `ability`: annotators chose different abilities.

* `rejected`: an annotator rejected a query, and another judged it.

A query that was resolved as unanswerable has no open grade conflicts. A query that one annotator
rejected is rejected unless the resolution differs; it has no grades and no other conflicts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from harness.extensions.labelling.annotations import Annotations, Kind, Pair, Value
from harness.extensions.labelling.project import CONSTRUCTION, Project
from harness.schema import Ability

CONFLICT_KINDS: tuple[Kind, ...] = ("grade", "unanswerable", "ability", "rejected")

Policy = Literal["refuse", "lower", "higher"]
"""How the export treats open conflicts."""

_QUERY_FILE = "the query itself"  # the voter if the query's ability is abstention

Votes = Mapping[str, Mapping[str, int]]
"""The grades of a query, by document and annotator."""


@dataclass(frozen=True)
class Conflict:
    """Contradictory annotations; `votes` maps each annotator's name to a vote.

    In a conflict of kind `unanswerable` or `rejected` a vote is a text. `crosses_relevance`: grades
    on both sides of the relevance level. `resolution`: the adjudicator's value; None while open.
    """

    kind: Kind
    query: str
    document: str | None
    votes: Mapping[str, Value]
    resolution: Value = None
    crosses_relevance: bool = False

    @property
    def open(self) -> bool:
        """True until the conflict is resolved."""
        return self.resolution is None


@dataclass
class Consensus:
    """The annotations that count, without those in open conflict.

    `grades` by query and document, `unanswerable` and `abilities` by query. `unreviewed` are grades
    by construction that no person gave. `conflicts` include resolved ones, and are ordered like the
    project's queries.
    """

    grades: dict[Pair, int] = field(default_factory=dict)
    unreviewed: set[Pair] = field(default_factory=set)
    rejected: set[str] = field(default_factory=set)
    unanswerable: dict[str, bool] = field(default_factory=dict)
    abilities: dict[str, Ability] = field(default_factory=dict)
    conflicts: list[Conflict] = field(default_factory=list)

    @property
    def unreviewed_queries(self) -> set[str]:
        """Queries with an unreviewed grade, except unanswerable ones."""
        return {query for query, _ in self.unreviewed if not self.unanswerable.get(query)}

    @property
    def open(self) -> list[Conflict]:
        """Unresolved conflicts."""
        return [conflict for conflict in self.conflicts if conflict.open]


def read_consensus(
    project: Project, annotators: Mapping[str, Annotations] | None = None
) -> Consensus:
    """Merges the annotations on disk, or those of `annotators`."""
    if annotators is None:
        annotators = project.annotations()
    adjudicated = project.adjudication_log().current
    built = project.annotation_log(CONSTRUCTION).current
    merger = _Merger(
        project,
        annotators,
        _once_a_text(project, built.grades),
        adjudicated,
        _once_a_text(project, adjudicated.grades),
    )
    votes: dict[str, dict[str, dict[str, int]]] = {}
    for name, own in annotators.items():
        for (query, document), grade in _once_a_text(project, own.grades).items():
            votes.setdefault(query, {}).setdefault(document, {})[name] = grade
    begun = {name: own.queries for name, own in annotators.items()}
    for query in project.query:
        merger.merge_rejections(query, [name for name, of in begun.items() if query in of])
        if query in merger.merged.rejected:
            continue
        of_query = votes.get(query, {})
        merger.merge_answerability(query, of_query)
        merger.merge_grades(query, of_query)
        merger.merge_ability(query)
    _grade_copies(project, merger.merged.grades)
    return merger.merged


def _once_a_text(project: Project, grades: Mapping[Pair, int]) -> dict[Pair, int]:
    """Returns grades of the candidates that are judged; a copy's grade is used if that has none."""
    found: dict[Pair, int] = {}
    for (query, document), grade in grades.items():
        judged = project.judged_as.get((query, document), document)
        if judged == document or (query, judged) not in grades:
            found[query, judged] = grade
    return found


def _grade_copies(project: Project, grades: dict[Pair, int]) -> None:
    """Gives candidates with the same text the same grade."""
    for (query, document), judged in project.judged_as.items():
        if (query, judged) in grades:
            grades[query, document] = grades[query, judged]


@dataclass
class _Merger:
    """Merges query by query."""

    project: Project
    annotators: Mapping[str, Annotations]
    construction: Mapping[Pair, int]
    adjudicated: Annotations
    adjudicated_grades: Mapping[Pair, int]
    merged: Consensus = field(default_factory=Consensus)

    @property
    def _least(self) -> int:
        return self.project.settings.relevance_level

    def merge_rejections(self, query: str, names: Iterable[str]) -> None:
        """Merges the rejections of a query; `names` are those who judged or rejected it."""
        sides: dict[str, Value] = {
            name: "rejected" if self.annotators[name].rejected.get(query) else "judged"
            for name in names
        }
        resolution = self.adjudicated.rejected.get(query)
        if len(set(sides.values())) > 1:
            self.merged.conflicts.append(Conflict("rejected", query, None, sides, resolution))
        if "rejected" in sides.values() and resolution is not False:
            self.merged.rejected.add(query)

    def merge_answerability(self, query: str, votes: Votes) -> None:
        marks = {
            name: own.unanswerable[query]
            for name, own in self.annotators.items()
            if query in own.unanswerable
        }
        if not marks and self.project.query[query].ability == Ability.ABSTENTION:
            marks = {_QUERY_FILE: True}
        relevant = self._relevant_counts(query, votes)
        resolution = self.adjudicated.unanswerable.get(query)
        contradicted = any(marks.values()) and bool(relevant or not all(marks.values()))
        if contradicted:
            sides: dict[str, Value] = {
                name: self._side(marks.get(name), relevant[name]) for name in {**marks, **relevant}
            }
            self.merged.conflicts.append(Conflict("unanswerable", query, None, sides, resolution))
        if resolution is not None:
            self.merged.unanswerable[query] = resolution
        elif marks and not contradicted:
            self.merged.unanswerable[query] = any(marks.values())

    def _side(self, mark: bool | None, relevant: int) -> str:
        """Returns one annotator's vote on whether a query can be answered."""
        graded = f"{relevant} document{'s' if relevant > 1 else ''} graded {self._least} or more"
        if mark:
            return f"cannot be answered, yet {graded}" if relevant else "cannot be answered"
        return graded if relevant else "can be answered"

    def _relevant_counts(self, query: str, votes: Votes) -> Counter[str]:
        """Counts the documents that each annotator, or construction, graded as relevant."""
        counts: Counter[str] = Counter()
        for document, of_document in votes.items():
            final = self.adjudicated_grades.get((query, document))
            for name, grade in of_document.items():
                counts[name] += (grade if final is None else final) >= self._least
        for document in self.project.to_judge[query]:
            if document not in votes:
                grade = self.construction.get((query, document), 0)
                counts[CONSTRUCTION] += grade >= self._least
        return +counts

    def merge_grades(self, query: str, votes: Votes) -> None:
        closed = self.adjudicated.unanswerable.get(query) is True
        for document in dict.fromkeys((*self.project.to_judge[query], *votes)):
            pair = (query, document)
            of_document = votes.get(document, {})
            values, resolution = set(of_document.values()), self.adjudicated_grades.get(pair)
            if len(values) > 1 and not closed:
                crosses = min(values) < self._least <= max(values)
                conflict = Conflict("grade", query, document, of_document, resolution, crosses)
                self.merged.conflicts.append(conflict)
            if resolution is not None:
                self.merged.grades[pair] = resolution
            elif len(values) == 1 or (values and closed):
                self.merged.grades[pair] = min(values)
            elif not values and pair in self.construction:
                self.merged.grades[pair] = self.construction[pair]
                self.merged.unreviewed.add(pair)

    def merge_ability(self, query: str) -> None:
        votes = {
            name: own.abilities[query]
            for name, own in self.annotators.items()
            if query in own.abilities
        }
        values, ability = set(votes.values()), self.adjudicated.abilities.get(query)
        if len(values) > 1:
            self.merged.conflicts.append(Conflict("ability", query, None, votes, ability))
        elif ability is None:
            ability = values.pop() if values else self.project.given_ability(query)
        if ability is not None:
            self.merged.abilities[query] = ability


def apply_policy(
    project: Project,
    merged: Consensus,
    policy: Policy,
    kinds: Sequence[Kind] = CONFLICT_KINDS,
) -> Consensus:
    """Returns the consensus with every open conflict of these kinds resolved by a policy.

    `lower` takes the lower grade and accepts a mark as unanswerable, `higher` does neither. A
    rejection is always accepted. Abilities have no order: the one that most annotators chose
    counts, else that of the query file, else none.
    """
    decided = replace(
        merged,
        grades=dict(merged.grades),
        unanswerable=dict(merged.unanswerable),
        abilities=dict(merged.abilities),
        conflicts=[one for one in merged.conflicts if not one.open or one.kind not in kinds],
    )
    pick = min if policy == "lower" else max
    for one in merged.open:
        if one.kind not in kinds:
            continue
        if one.kind == "grade" and one.document is not None:
            grades = [grade for grade in one.votes.values() if isinstance(grade, int)]
            decided.grades[one.query, one.document] = pick(grades)
        elif one.kind == "unanswerable":
            decided.unanswerable[one.query] = policy == "lower"
        elif one.kind == "ability" and (ability := _majority(project, one)) is not None:
            decided.abilities[one.query] = ability
    _grade_copies(project, decided.grades)
    return decided


def _majority(project: Project, conflict: Conflict) -> Ability | None:
    (first, n), *rest = Counter(conflict.votes.values()).most_common(2)
    if not rest or rest[0][1] < n:
        return Ability(str(first))
    return project.given_ability(conflict.query)
