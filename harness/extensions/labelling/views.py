"""Views of documents and queries for annotators; nothing of systems and ranks."""

from __future__ import annotations

from harness.extensions.labelling.project import LabelDocument, Project
from harness.io.records import Record
from harness.schema import as_datetime

CONTEXT_TURNS = 2
"""Number of turns that are shown before and after the judged one."""


class DocumentView(Record):
    """The fields of a document that are shown."""

    text: str
    title: str | None = None
    timestamp: str | None = None
    speaker: str | None = None
    session: str | None = None


class TurnContext(Record):
    """The turns before and after a document in its session."""

    before: list[DocumentView]
    after: list[DocumentView]


def document_view(document: LabelDocument) -> DocumentView:
    """Returns the view of a document."""
    return DocumentView(
        text=document.text,
        title=document.title or None,
        timestamp=format_time(document.timestamp),
        speaker=document.speaker or None,
        session=document.session or None,
    )


def context(project: Project, query: str, document: str | None) -> TurnContext:
    """Returns the turns around a document in its session; empty for a document without a session.

    It does not show which of them are candidates or were judged.
    """
    if document is None:
        return TurnContext(before=[], after=[])
    turns = project.session(project.document(query, document))
    at = next((i for i, one in enumerate(turns) if one.id == document), 0)
    before, after = turns[max(at - CONTEXT_TURNS, 0) : at], turns[at + 1 : at + 1 + CONTEXT_TURNS]
    return TurnContext(before=[*map(document_view, before)], after=[*map(document_view, after)])


def reference(project: Project, query: str) -> str | None:
    """Returns the reference for judging answers; for documents, the generated answer."""
    one = project.query[query]
    if project.scale.target == "document":
        return " / ".join(one.answers) if one.generated and one.answers else None
    return " / ".join(one.answers) or "no answer: the system should decline"


def format_time(value: int | str | None) -> str | None:
    """Formats seconds since 1970 as date and time; returns a text almost unchanged."""
    if value is None or value == "":
        return None
    if isinstance(value, int):
        try:
            return as_datetime(value).isoformat(" ", "minutes")
        except (ValueError, OverflowError, OSError):
            return str(value)
    return value.replace("T", " ")
