"""Records of what the page shows of a session, and of what it sends back."""

from __future__ import annotations

from typing import Literal

import msgspec

from harness.extensions.labelling.annotations import Annotation, Kind, Value
from harness.extensions.labelling.project import Project
from harness.extensions.labelling.records import LabelDocument
from harness.io.records import Record
from harness.schema import Ability, as_datetime

Mode = Literal["annotate", "adjudicate"]

CONTEXT_TURNS = 2
"""How many turns are shown before and after the one that is judged."""


class Item(Record):
    """What is judged at once: a document for a query, or a query that has no candidate.

    In adjudication `kind` says which of its annotations are in conflict.
    """

    query: str
    document: str | None = None
    kind: Kind | None = None


class DocumentView(Record):
    """What is shown of a document."""

    text: str
    title: str | None = None
    timestamp: str | None = None
    speaker: str | None = None
    session: str | None = None


class TurnContext(Record):
    """The turns before and after a document in its session."""

    before: list[DocumentView]
    after: list[DocumentView]


class CandidateGrade(Record):
    """A candidate of the query, and the annotator's grade."""

    item: Item
    grade: int | None


class Vote(Record):
    """One annotator's side of a conflict."""

    annotator: str
    value: Value


class ConflictEvidence(Record):
    """A document that an annotator graded as relevant, with all grades of it."""

    document: DocumentView
    votes: list[Vote]


class AnnotatorNote(Record):
    """An annotator's note on the item of a conflict."""

    annotator: str
    note: str


class ItemView(Record):
    """Everything that is shown of an item; nothing of systems and ranks.

    `number` is that of the query, or of the conflict. `grade`, `ability` and `unanswerable` are the
    annotator's, or the resolution. `given_ability` is the query's own.
    """

    item: Item
    text: str
    asked_at: str | None
    reference: str | None
    document: DocumentView | None
    context: TurnContext
    grade: int | None
    ability: Ability | None
    given_ability: Ability | None
    unanswerable: bool | None
    number: int
    done: int
    total: int
    previous: Item
    next: Item
    next_open: Item
    can_undo: bool
    choices: list[Kind]
    # Annotation alone:
    queries: int = 0
    candidates: list[CandidateGrade] = msgspec.field(default_factory=list)
    position: int = 0
    note: str = ""
    warning: str = ""
    # Adjudication alone:
    votes: list[Vote] = msgspec.field(default_factory=list)
    evidence: list[ConflictEvidence] = msgspec.field(default_factory=list)
    notes: list[AnnotatorNote] = msgspec.field(default_factory=list)


class NothingLeft(Record):
    """Replaces a view where no item is left."""

    done: int
    total: int


# -- Messages of the page --------------------------------------------------------------------------


class SessionId(Record):
    """Identifies a session, so that an old tab cannot write to another one on the same port."""

    project: str
    annotator: str
    mode: Mode


class GradeChoice(Record):
    """A grade to choose; `effect`: whether it makes a document evidence."""

    grade: int
    name: str
    meaning: str
    effect: str


class AbilityChoice(Record):
    """An ability to choose, with the key that chooses it."""

    key: str
    name: Ability
    meaning: str


class SessionInfo(Record):
    """What does not change while the page is open."""

    session: SessionId
    name: str
    folder: str
    target: str
    relevance_level: int
    next_command: str
    grades: list[GradeChoice]
    abilities: list[AbilityChoice]


class JudgeRequest(Record):
    """An annotation, or `undo`; `advance` asks for the next open item in reply."""

    session: SessionId
    item: Item | None = None
    annotation: Annotation | None = None
    undo: bool = False
    advance: bool = False


# -- Views of documents and queries ----------------------------------------------------------------


def document_view(document: LabelDocument) -> DocumentView:
    """Returns what is shown of a document."""
    return DocumentView(
        text=document.text,
        title=document.title or None,
        timestamp=format_time(document.timestamp),
        speaker=document.speaker or None,
        session=document.session or None,
    )


def context(project: Project, item: Item) -> TurnContext:
    """Returns the turns around a document in its session; empty where it names no session.

    It does not mark which of them are candidates or were judged.
    """
    if item.document is None:
        return TurnContext(before=[], after=[])
    turns = project.session(project.document(item.query, item.document))
    at = next((i for i, one in enumerate(turns) if one.id == item.document), 0)
    before, after = turns[max(at - CONTEXT_TURNS, 0) : at], turns[at + 1 : at + 1 + CONTEXT_TURNS]
    return TurnContext(before=[*map(document_view, before)], after=[*map(document_view, after)])


def reference(project: Project, query: str) -> str | None:
    """Returns the reference that answers are compared with; None where documents are judged."""
    if project.scale.target != "answer":
        return None
    answers = project.query[query].answers
    return " / ".join(answers) if answers else "nothing that was said answers this: to decline"


def format_time(value: int | str | None) -> str | None:
    """Formats seconds since 1970 as date and time; a text stays as it is."""
    if value is None or value == "":
        return None
    if isinstance(value, int):
        try:
            return as_datetime(value).isoformat(" ", "minutes")
        except (ValueError, OverflowError, OSError):
            return str(value)
    return value.replace("T", " ")
