"""Merges the annotations of all annotators, with their conflicts and how those were resolved.

For each thing (a grade, an ability, whether a query is unanswerable) the resolution counts; else
what the annotators agree on; else what construction says, where no annotator does. Conflicts:

* `grade`: annotators gave a document different grades.
* `unanswerable`: somebody marked a query as unanswerable, and somebody (maybe the same one) marked
  it as answerable, or graded one of its documents as relevant.
* `ability`: annotators chose different abilities.

A query that was resolved as unanswerable has no open grade conflicts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from harness.labelling.annotations import Annotations, Kind, Pair, Value
from harness.labelling.project import CONSTRUCTION, Project
from harness.labelling.records import RELEVANCE_LEVEL
from harness.schema import Ability

CONFLICT_KINDS: tuple[Kind, ...] = ("grade", "unanswerable", "ability")

Policy = Literal["refuse", "lower", "higher"]
"""What the export does with open conflicts."""

QUERY_FILE = "the query itself"
"""Whose vote it is that a query of the ability abstention is unanswerable."""


@dataclass(frozen=True)
class Conflict:
    """Annotations that contradict each other; `votes` has each annotator's, by name.

    In a conflict of kind `unanswerable` a vote is a text. `crosses_relevance`: grades on both sides
    of relevant. `resolution`: the adjudicator's value; None while it is open.
    """

    kind: Kind
    query: str
    document: str | None
    votes: Mapping[str, Value]
    resolution: Value = None
    crosses_relevance: bool = False

    @property
    def open(self) -> bool:
        """Whether nobody resolved it yet."""
        return self.resolution is None


@dataclass
class Consensus:
    """The annotations that count, without those in open conflict.

    `grades` by query and document, `unanswerable` and `abilities` by query. `conflicts` are all,
    resolved ones too, by query in the order of the project.
    """

    grades: dict[Pair, int] = field(default_factory=dict)
    unanswerable: dict[str, bool] = field(default_factory=dict)
    abilities: dict[str, Ability] = field(default_factory=dict)
    conflicts: list[Conflict] = field(default_factory=list)
    relevance_level: int = RELEVANCE_LEVEL

    @property
    def open(self) -> list[Conflict]:
        """Conflicts that nobody resolved."""
        return [conflict for conflict in self.conflicts if conflict.open]


def annotations_by_name(project: Project) -> dict[str, Annotations]:
    """Reads the current annotations of each annotator."""
    return {name: project.annotation_log(name).current for name in project.annotators()}


def read_consensus(project: Project) -> Consensus:
    """Merges the annotations on the disk."""
    return consensus(
        project,
        annotations_by_name(project),
        project.annotation_log(CONSTRUCTION).current,
        project.adjudication_log().current,
    )


def consensus(
    project: Project,
    annotators: Mapping[str, Annotations],
    construction: Annotations,
    adjudicated: Annotations,
) -> Consensus:
    """Merges the annotations of a project."""
    grades = _by_query(annotators)
    merged = Consensus(relevance_level=project.relevance_level)
    for query in project.query:
        documents = [candidate.document for candidate in project.candidates[query]]
        votes = grades.get(query, {})
        votes = {
            document: votes[document] for document in (*documents, *votes) if document in votes
        }
        _merge_answerability(project, query, votes, annotators, construction, adjudicated, merged)
        _merge_grades(query, documents, votes, construction, adjudicated, merged)
        _merge_ability(project, query, annotators, construction, adjudicated, merged)
    return merged


def _by_query(annotators: Mapping[str, Annotations]) -> dict[str, dict[str, dict[str, int]]]:
    """Grades by query, document and annotator."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for name, own in annotators.items():
        for (query, document), grade in own.grades.items():
            found.setdefault(query, {}).setdefault(document, {})[name] = grade
    return found


def _merge_answerability(
    project: Project,
    query: str,
    grades: Mapping[str, Mapping[str, int]],
    annotators: Mapping[str, Annotations],
    construction: Annotations,
    adjudicated: Annotations,
    merged: Consensus,
) -> None:
    marks = {
        name: own.unanswerable[query]
        for name, own in annotators.items()
        if query in own.unanswerable
    }
    if not marks and construction.unanswerable.get(query) is not None:
        marks = {CONSTRUCTION: construction.unanswerable[query]}
    elif not marks and project.query[query].ability == Ability.ABSTENTION:
        marks = {QUERY_FILE: True}
    relevant = _relevant_counts(project, query, grades, construction, adjudicated)
    resolution = adjudicated.unanswerable.get(query)
    if any(marks.values()) and (relevant or not all(marks.values())):
        votes: dict[str, Value] = {}
        for name in (*marks, *(other for other in relevant if other not in marks)):
            n = relevant.get(name, 0)
            graded = f"{n} document{'s' if n > 1 else ''} graded {project.relevance_level} or more"
            if marks.get(name):
                votes[name] = f"cannot be answered, yet {graded}" if n else "cannot be answered"
            else:
                votes[name] = graded if n else "can be answered"
        merged.conflicts.append(Conflict("unanswerable", query, None, votes, resolution))
        if resolution is not None:
            merged.unanswerable[query] = resolution
    elif resolution is not None:
        merged.unanswerable[query] = resolution
    elif marks:
        merged.unanswerable[query] = any(marks.values())


def _relevant_counts(
    project: Project,
    query: str,
    grades: Mapping[str, Mapping[str, int]],
    construction: Annotations,
    adjudicated: Annotations,
) -> Counter[str]:
    """How many documents each annotator, or construction, graded as relevant for a query."""
    least = project.relevance_level
    counts: Counter[str] = Counter()
    for document, votes in grades.items():
        final = adjudicated.grades.get((query, document))
        counts.update(
            name for name, grade in votes.items() if (grade if final is None else final) >= least
        )
    counts.update(
        CONSTRUCTION
        for one in project.candidates[query]
        if one.document not in grades and construction.grades.get((query, one.document), 0) >= least
    )
    return counts


def _merge_grades(
    query: str,
    documents: list[str],
    grades: Mapping[str, Mapping[str, int]],
    construction: Annotations,
    adjudicated: Annotations,
    merged: Consensus,
) -> None:
    closed = adjudicated.unanswerable.get(query) is True
    for document in dict.fromkeys((*documents, *grades)):
        pair = (query, document)
        votes, resolution = grades.get(document, {}), adjudicated.grades.get(pair)
        values = set(votes.values())
        if len(values) > 1 and not closed:
            crosses = min(values) < merged.relevance_level <= max(values)
            conflict = Conflict("grade", query, document, dict(votes), resolution, crosses)
            merged.conflicts.append(conflict)
        if resolution is not None:
            merged.grades[pair] = resolution
        elif len(values) == 1:
            merged.grades[pair] = values.pop()
        elif values and closed:
            merged.grades[pair] = min(values)
        elif not values and pair in construction.grades:
            merged.grades[pair] = construction.grades[pair]


def _merge_ability(
    project: Project,
    query: str,
    annotators: Mapping[str, Annotations],
    construction: Annotations,
    adjudicated: Annotations,
    merged: Consensus,
) -> None:
    votes = {
        name: own.abilities[query] for name, own in annotators.items() if query in own.abilities
    }
    resolution = adjudicated.abilities.get(query)
    if len(set(votes.values())) > 1:
        merged.conflicts.append(Conflict("ability", query, None, votes, resolution))
    given = project.query[query].ability
    if resolution is not None:
        merged.abilities[query] = resolution
    elif len(set(votes.values())) == 1:
        merged.abilities[query] = next(iter(votes.values()))
    elif not votes and query in construction.abilities:
        merged.abilities[query] = construction.abilities[query]
    elif not votes and given and given != Ability.ABSTENTION:
        merged.abilities[query] = given


def apply_policy(
    project: Project,
    merged: Consensus,
    policy: Policy,
    kinds: Sequence[Kind] = CONFLICT_KINDS,
) -> Consensus:
    """Returns the consensus with every open conflict of these kinds resolved by a policy.

    `lower` takes the lower grade and believes who says that a query is unanswerable, `higher` does
    neither. Abilities have no order: the one that most annotators chose counts, else that of the
    query file, else none.
    """
    decided = Consensus(
        dict(merged.grades),
        dict(merged.unanswerable),
        dict(merged.abilities),
        [one for one in merged.conflicts if not one.open or one.kind not in kinds],
        merged.relevance_level,
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
        elif (ability := _majority(project, one)) is not None:
            decided.abilities[one.query] = ability
    return decided


def _majority(project: Project, conflict: Conflict) -> Ability | None:
    (first, n), *rest = Counter(conflict.votes.values()).most_common(2)
    if not rest or rest[0][1] < n:
        return Ability(str(first))
    given = project.query[conflict.query].ability
    return None if given == Ability.ABSTENTION else given
