"""Data model of the harness: document, query, qrel, haystack, change, ability. No I/O here.

Units used throughout the project:

* A *timestamp* is whole seconds since 1970-01-01 00:00 of the dataset's own wall clock. Datasets
  give no time zone, so none is applied: differences are correct, absolute instants may not be.
* A *grade* is an integer: 1 or more is relevant, 0 is judged and not relevant, and below 0 is
  unjudged, as in trec_eval.
* A *row* is a document's position in the dataset's document table, from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

SCHEMA_VERSION = 1


class Ability(StrEnum):
    """Memory ability that a query tests; the dataset's own category is stored separately."""

    LOOKUP = "lookup"
    MULTI_HOP = "multi-hop"
    TEMPORAL = "temporal"
    KNOWLEDGE_UPDATE = "knowledge-update"
    ABSTENTION = "abstention"


@dataclass(frozen=True, slots=True)
class Document:
    """A retrievable text: a passage, a turn, a session or an observation.

    `id` is the dataset's own id, unique within every haystack. `timestamp` is the time of the
    utterance, `speaker` its person or role, `session` the id of its session, and `position` its
    position in the session, counted from 0. `user_id` names the principal (user, team, session)
    that may read it; None: everyone.
    """

    id: str
    text: str
    title: str = ""
    timestamp: int | None = None
    session: str | None = None
    speaker: str | None = None
    position: int | None = None
    user_id: str | None = None

    @property
    def content(self) -> str:
        """Title and text joined by a space, as BEIR indexes them."""
        return f"{self.title} {self.text}".strip() if self.title else self.text


@dataclass(frozen=True, slots=True)
class Query:
    """A question. `haystack` is the id of the haystack that is searched for it.

    `category` is the dataset's own category; `answers` are the reference answers, if any. The
    principal `user_id` may read documents of its own, of its `groups`, and of no principal; None:
    all documents.
    """

    id: str
    text: str
    haystack: str
    ability: Ability = Ability.LOOKUP
    category: str = ""
    timestamp: int | None = None
    answers: tuple[str, ...] = ()
    user_id: str | None = None
    groups: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Qrel:
    """The relevance grade of a document for a query.

    A `document` that is not in the corpus counts as relevant and cannot be found, as in trec_eval.
    `evidence_id` names the document's evidence item (TREC: nugget) in datasets where documents
    share items (LoCoMo's observations) or contain several (its session summaries). If it is None,
    the document is its own item.
    """

    query: str
    document: str
    grade: int = 1
    evidence_id: str | None = None


@dataclass(frozen=True, slots=True)
class Haystack:
    """The documents that are searched for a query: rows of the document table.

    `rows` None means every document. `timestamps`, aligned with `rows`, are given if a document's
    time differs between haystacks (LongMemEval dates its filler sessions per question).
    """

    id: str
    rows: Sequence[int] | None = None
    timestamps: Sequence[int] | None = None


CHANGE_KINDS = ("update", "forget", "key-update")


@dataclass(frozen=True, slots=True)
class Change:
    """A change after which a document is no longer valid, from `timestamp` on.

    `kind`: for an `update`, the document `by` replaces `document`. For a `forget`, `document` must
    be forgotten; `by`, if any, is the document with that request. A `key-update` is an update known
    only from the qrels: it is scored, but not sent to systems. Documents are named by their ids in
    `haystack`.
    """

    haystack: str
    kind: str
    document: str
    timestamp: int
    by: str | None = None


def timestamp(moment: datetime) -> int:
    """Returns seconds since 1970-01-01 of `moment`'s own wall clock, dropping its time zone."""
    return int(moment.replace(tzinfo=UTC).timestamp())


def as_datetime(seconds: int) -> datetime:
    """Returns the naive datetime of a schema timestamp."""
    return datetime.fromtimestamp(seconds, tz=UTC).replace(tzinfo=None)
