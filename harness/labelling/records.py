"""What a labelling project holds: candidates of its pool, and judgements as lines of a journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.schema import Ability

GRADES = (0, 1, 2, 3)
RELEVANT = 1
"""The grade from which on a document is relevant, where a project does not say another."""

MEANINGS = {
    0: ("not relevant", "has nothing to do with the question"),
    1: ("related", "is on the subject, but does not answer"),
    2: ("answers in part", "has some of the answer, or has it unclear or hidden"),
    3: ("answers", "is about the question and holds the answer"),
}
"""Name and meaning of each grade: the four levels of TREC's Deep Learning track."""


@dataclass(frozen=True)
class Scale:
    """What a project judges (a `document` or an `answer`), and the grades that it can have."""

    thing: str
    meanings: Mapping[int, tuple[str, str]]

    def counts(self, grade: int, relevant_from: int) -> str:
        """Whether a grade makes a document evidence, said where it is chosen; nothing of answers,
        where the name of the grade says it."""
        if self.thing != "document":
            return ""
        return "counts as evidence" if grade >= relevant_from else "does not count"

    def then(self, folder: object) -> str:
        """The command that takes up what was judged."""
        what = "label export" if self.thing == "document" else "judge ANSWERS --human-labels"
        return f"harness {what} {folder}"


DOCUMENTS = Scale("document", MEANINGS)
ANSWERS = Scale(
    "answer",
    {
        0: ("wrong", "says something else, lacks what was asked, or declines though there is one"),
        1: ("right", "says what the reference says, in any words; or declines where there is none"),
    },
)


ABILITIES = tuple(ability for ability in Ability if ability is not Ability.ABSTENTION)
"""What an annotator chooses from. A query of ability abstention is one that cannot be answered."""

ABILITY_KEYS = {"l": "lookup", "m": "multi-hop", "t": "temporal", "k": "knowledge-update"}
"""The letter of each ability, on the page and in the terminal."""

ABILITY_MEANINGS = {
    "lookup": "one document answers",
    "multi-hop": "several documents are needed together",
    "temporal": "it asks when, how long, in which order",
    "knowledge-update": "the newest of several statements counts",
}

Pair = tuple[str, str]
"""Ids of a query and a document."""

Line = dict[str, Any]


@dataclass(frozen=True)
class Candidate:
    """A document to be judged for a query.

    `ranks`: the place, from 1, that each pooled system gave it; empty where none did. `proposed`:
    why it stands in the pool for another reason ({"by": "similarity", "similarity": 0.83}).
    """

    query: str
    document: str
    ranks: Mapping[str, int] = field(default_factory=dict)
    proposed: Mapping[str, Any] | None = None

    def line(self) -> Line:
        """As it stands in pool.jsonl."""
        line: Line = {"query": self.query, "document": self.document, "ranks": dict(self.ranks)}
        return line if self.proposed is None else {**line, "proposed": dict(self.proposed)}


@dataclass
class Judgements:
    """What one annotator holds now: the last line about each thing.

    `undoable`: what each line changed, oldest first, as the line that puts it back.
    """

    grades: dict[Pair, int] = field(default_factory=dict)
    abilities: dict[str, str] = field(default_factory=dict)
    unanswerable: dict[str, bool] = field(default_factory=dict)
    notes: dict[tuple[str, str | None], str] = field(default_factory=dict)
    undoable: list[Line] = field(default_factory=list)
    last: tuple[str, str | None] | None = None
    """Query, and document if any, of the newest line."""

    @classmethod
    def of(cls, lines: Iterable[Line]) -> Judgements:
        """From the lines of a journal, in order."""
        held = cls()
        for line in lines:
            held.add(line)
        return held

    def add(self, line: Line) -> None:
        """Take one line in. Raises ValueError for one that is none, and says what is wrong."""
        check(line)
        kind, values, about = self._thing(line)
        before: Line = {key: line[key] for key in line if key in ("query", "document")}
        before[kind] = values.get(about, _NOTHING.get(kind))
        if line[kind] == _NOTHING.get(kind):
            values.pop(about, None)
        else:
            values[about] = line[kind]
        self.last = (line["query"], line.get("document"))
        if line.get("undo") is True:
            if self.undoable:
                self.undoable.pop()
        else:
            self.undoable.append(before)

    def says(self, line: Line) -> bool:
        """Whether the line would change nothing."""
        kind, values, about = self._thing(line)
        return bool(values.get(about, _NOTHING.get(kind)) == line[kind])

    def _thing(self, line: Line) -> tuple[str, dict[Any, Any], Any]:
        """What kind of line it is, where its value is held, and under which key."""
        kind = next(name for name in _KINDS if name in line)
        by_query = kind in ("ability", "unanswerable")
        about = line["query"] if by_query else (line["query"], line.get("document"))
        return kind, getattr(self, _KINDS[kind]), about

    def of_query(self, query: str, documents: Iterable[str]) -> dict[str, int]:
        """Grades of these documents, without those that have none."""
        found = ((document, self.grades.get((query, document))) for document in documents)
        return {document: grade for document, grade in found if grade is not None}


_KINDS = {
    "grade": "grades",
    "ability": "abilities",
    "unanswerable": "unanswerable",
    "note": "notes",
}
_NOTHING: dict[str, Any] = {"note": ""}  # what takes a line back; else null


def check(line: Any) -> None:
    """Raises ValueError, saying what is wrong, for what is no line of a journal."""
    if not isinstance(line, dict):
        raise ValueError("not an object")
    if not isinstance(line.get("query"), str):
        raise ValueError("no query")
    kinds = [name for name in _KINDS if name in line]
    if len(kinds) != 1:
        raise ValueError(f"one of {', '.join(_KINDS)} is needed, and it has {len(kinds)}")
    kind, value, document = kinds[0], line[kinds[0]], line.get("document")
    if (kind == "grade" or document is not None) and not isinstance(document, str):
        raise ValueError("no document")
    if kind == "grade" and value is not None and (type(value) is not int or value not in GRADES):
        raise ValueError(f"the grade must be 0, 1, 2, 3 or null, not {value!r}")
    if kind == "ability" and value is not None and value not in ABILITIES:
        raise ValueError(f"the ability must be one of {', '.join(ABILITIES)}, not {value!r}")
    if kind == "unanswerable" and not isinstance(value, bool | None):
        raise ValueError(f"unanswerable must be true, false or null, not {value!r}")
    if kind == "note" and not isinstance(value, str):
        raise ValueError("the note must be a text")
