"""The records of exported datasets: one a line of a JSON Lines file."""

from __future__ import annotations

import msgspec

from harness.io.records import Record


class ExportedDocument(Record):
    """A document; `haystack` is a name, several, or names with the document's time there."""

    id: str
    title: str = ""
    text: str
    timestamp: int | None = None
    session: str | None = None
    speaker: str | None = None
    position: int | None = None
    haystack: str | list[str] | dict[str, int | None] | None = None


class ExportedQuery(Record):
    """A query; without `haystack` it asks all documents."""

    id: str
    text: str
    ability: str
    category: str = ""
    timestamp: int | None = None
    answers: list[str] = msgspec.field(default_factory=list)
    haystack: str | None = None


class ExportedQrel(Record):
    """A judgement; without `qrels_set` of the default one."""

    query: str
    document: str
    grade: int
    evidence_id: str | None = None
    qrels_set: str = ""
    missing: bool = False


class ExportedChange(Record):
    """A change; without `haystack` in the one of all documents."""

    kind: str
    document: str
    timestamp: int
    by: str | None = None
    haystack: str | None = None


class ExportedHaystack(Record):
    """The queries and documents of a haystack."""

    haystack: str
    queries: list[str]
    documents: list[str]


class BeirDocumentMetadata(Record):
    """What BEIR's format has no field for, of a document."""

    timestamp: int | None = None
    session: str | None = None
    speaker: str | None = None
    position: int | None = None


class BeirDocument(Record):
    """A document in BEIR's corpus.jsonl."""

    id: str = msgspec.field(name="_id")
    title: str
    text: str
    metadata: BeirDocumentMetadata


class BeirQueryMetadata(Record):
    """What BEIR's format has no field for, of a query."""

    ability: str
    category: str = ""
    timestamp: int | None = None
    answers: list[str] = msgspec.field(default_factory=list)


class BeirQuery(Record):
    """A query in BEIR's queries.jsonl."""

    id: str = msgspec.field(name="_id")
    text: str
    metadata: BeirQueryMetadata
