"""What all annotators together say, where they contradict each other, and how that was settled.

Of each thing (a grade, an ability, whether a query cannot be answered) the settled line counts;
else what the annotators agree on; else what construction says, where no annotator does. Conflicts:

* `grade`: annotators gave a document other grades.
* `unanswerable`: somebody says that a query cannot be answered, and somebody (maybe the same one)
  says that it can, or gave one of its documents a grade of 1 or more.
* `ability`: annotators chose other abilities.

A query that was settled as not to be answered has no open grades.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.labelling.folder import CONSTRUCTION, Project
from harness.labelling.records import RELEVANT, Judgements, Pair
from harness.schema import Ability

KINDS = ("grade", "unanswerable", "ability")

QUERY_FILE = "the query itself"
"""Who says that a query of the ability abstention cannot be answered."""


@dataclass(frozen=True)
class Conflict:
    """Judgements that contradict each other. `said`: what each annotator says, by name.

    In a conflict of kind `unanswerable` that is True, or a text that says what stands against it.
    `crossing`: grades on both sides of relevant. `settled`: what a resolver said; None: open.
    """

    kind: str
    query: str
    document: str | None
    said: Mapping[str, Any]
    settled: int | str | bool | None = None
    crossing: bool = False

    @property
    def open(self) -> bool:
        """Whether nobody settled it yet."""
        return self.settled is None


@dataclass
class Consensus:
    """The judgements that count, without those in open conflict.

    `grades` by query and document, `unanswerable` and `abilities` by query. `conflicts` are all,
    settled ones too, by query in the order of the project. Grades from `relevant_from` on are of
    relevant documents.
    """

    grades: dict[Pair, int] = field(default_factory=dict)
    unanswerable: dict[str, bool] = field(default_factory=dict)
    abilities: dict[str, str] = field(default_factory=dict)
    conflicts: list[Conflict] = field(default_factory=list)
    relevant_from: int = RELEVANT

    @property
    def open(self) -> list[Conflict]:
        """Conflicts that nobody settled."""
        return [conflict for conflict in self.conflicts if conflict.open]

    def relevant(self, query: str, documents: list[str]) -> list[str]:
        """Those of the documents that are relevant; none where the query cannot be answered."""
        if self.unanswerable.get(query):
            return []
        return [d for d in documents if self.grades.get((query, d), 0) >= self.relevant_from]


def held_by_all(project: Project) -> dict[str, Judgements]:
    """What each annotator holds, by name."""
    return {name: project.journal(name).held for name in project.annotators()}


def consensus(
    project: Project,
    annotators: Mapping[str, Judgements],
    construction: Judgements | None = None,
    resolved: Judgements | None = None,
) -> Consensus:
    """Put the judgements of a project together."""
    built = construction or Judgements()
    settled = resolved or Judgements()
    grades = _by_query(annotators)
    found = Consensus(relevant_from=project.relevant_from)
    for query in project.query:
        documents = [candidate.document for candidate in project.candidates[query]]
        said = {
            document: grades[query][document]
            for document in (*documents, *grades.get(query, {}))
            if document in grades.get(query, {})
        }
        _answerable(project, query, said, annotators, built, settled, found)
        _grades(query, documents, said, built, settled, found)
        _ability(project, query, annotators, built, settled, found)
    return found


def of_project(project: Project) -> Consensus:
    """The consensus of what stands on the disk."""
    return consensus(
        project,
        held_by_all(project),
        project.journal(CONSTRUCTION).held,
        project.resolved().held,
    )


def _by_query(annotators: Mapping[str, Judgements]) -> dict[str, dict[str, dict[str, int]]]:
    """Grades by query, document and annotator."""
    found: dict[str, dict[str, dict[str, int]]] = {}
    for name, held in annotators.items():
        for (query, document), grade in held.grades.items():
            found.setdefault(query, {}).setdefault(document, {})[name] = grade
    return found


def _answerable(
    project: Project,
    query: str,
    said: Mapping[str, Mapping[str, int]],
    annotators: Mapping[str, Judgements],
    built: Judgements,
    settled: Judgements,
    found: Consensus,
) -> None:
    votes = {
        name: held.unanswerable[query]
        for name, held in annotators.items()
        if query in held.unanswerable
    }
    if not votes and built.unanswerable.get(query) is not None:
        votes = {CONSTRUCTION: built.unanswerable[query]}
    elif not votes and project.query[query].get("ability") == Ability.ABSTENTION:
        votes = {QUERY_FILE: True}
    against: dict[str, int] = {}
    least = project.relevant_from
    for document, by in said.items():
        final = settled.grades.get((query, document))
        for name, grade in by.items():
            if (grade if final is None else final) >= least:
                against[name] = against.get(name, 0) + 1
    for candidate in project.candidates[query]:
        pair = (query, candidate.document)
        if candidate.document not in said and built.grades.get(pair, 0) >= least:
            against[CONSTRUCTION] = against.get(CONSTRUCTION, 0) + 1
    final = settled.unanswerable.get(query)
    if any(votes.values()) and (against or not all(votes.values())):
        words: dict[str, Any] = {}
        for name in (*votes, *(other for other in against if other not in votes)):
            n = against.get(name, 0)
            graded = f"{n} document{'s' if n > 1 else ''} graded {least} or more"
            if votes.get(name):
                words[name] = f"cannot be answered, yet {graded}" if n else "cannot be answered"
            else:
                words[name] = graded if n else "can be answered"
        found.conflicts.append(Conflict("unanswerable", query, None, words, final))
        if final is not None:
            found.unanswerable[query] = final
    elif final is not None:
        found.unanswerable[query] = final
    elif votes:
        found.unanswerable[query] = any(votes.values())


def _grades(
    query: str,
    documents: list[str],
    said: Mapping[str, Mapping[str, int]],
    built: Judgements,
    settled: Judgements,
    found: Consensus,
) -> None:
    closed = settled.unanswerable.get(query) is True
    for document in dict.fromkeys((*documents, *said)):
        pair = (query, document)
        by, final = said.get(document, {}), settled.grades.get(pair)
        values = set(by.values())
        if len(values) > 1 and not closed:
            crossing = min(values) < found.relevant_from <= max(values)
            found.conflicts.append(Conflict("grade", query, document, dict(by), final, crossing))
        if final is not None:
            found.grades[pair] = final
        elif len(values) == 1:
            found.grades[pair] = values.pop()
        elif values and closed:
            found.grades[pair] = min(values)
        elif not values and pair in built.grades:
            found.grades[pair] = built.grades[pair]


def _ability(
    project: Project,
    query: str,
    annotators: Mapping[str, Judgements],
    built: Judgements,
    settled: Judgements,
    found: Consensus,
) -> None:
    votes = {
        name: held.abilities[query] for name, held in annotators.items() if query in held.abilities
    }
    final = settled.abilities.get(query)
    if len(set(votes.values())) > 1:
        found.conflicts.append(Conflict("ability", query, None, votes, final))
    own = project.query[query].get("ability")
    if final is not None:
        found.abilities[query] = final
    elif len(set(votes.values())) == 1:
        found.abilities[query] = next(iter(votes.values()))
    elif not votes and query in built.abilities:
        found.abilities[query] = built.abilities[query]
    elif not votes and own and own != Ability.ABSTENTION:
        found.abilities[query] = own


def decided(
    project: Project, found: Consensus, rule: str, kinds: Collection[str] = KINDS
) -> Consensus:
    """The consensus with every open conflict of these kinds decided by a rule.

    `lower` takes the lower grade and believes who says that a query cannot be answered, `higher`
    does neither. Abilities have no order: of those in conflict the one that most annotators chose
    counts, else that of the query file, else none.
    """
    agreed = Consensus(
        dict(found.grades),
        dict(found.unanswerable),
        dict(found.abilities),
        [one for one in found.conflicts if not one.open or one.kind not in kinds],
        found.relevant_from,
    )
    pick = min if rule == "lower" else max
    for one in found.open:
        if one.kind not in kinds:
            continue
        if one.kind == "grade" and one.document is not None:
            agreed.grades[one.query, one.document] = pick(one.said.values())
        elif one.kind == "unanswerable":
            agreed.unanswerable[one.query] = rule == "lower"
        elif (ability := _most_chosen(project, one)) is not None:
            agreed.abilities[one.query] = ability
    return agreed


def _most_chosen(project: Project, conflict: Conflict) -> str | None:
    (first, n), *rest = Counter(conflict.said.values()).most_common(2)
    if not rest or rest[0][1] < n:
        return str(first)
    own = project.query[conflict.query].get("ability")
    return None if own == Ability.ABSTENTION else own
