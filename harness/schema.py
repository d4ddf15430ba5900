"""The nouns of the harness: document, query, judgement, haystack, change, ability. No I/O here.

Units and shapes, everywhere in the project:

* A *timestamp* is whole seconds since 1970-01-01 00:00 of the dataset's own wall clock. Datasets
  give no time zone, so none is applied; differences are right, absolute instants are not claimed.
* A *grade* is an integer; 1 or more is relevant, 0 is judged and not relevant, below 0 unjudged
  (trec_eval's reading).
* A *row* is a document's position in the dataset's document table, from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

SCHEMA_VERSION = 1


class Ability(StrEnum):
    """What a query asks of a memory. The dataset's own category is kept beside it."""

    LOOKUP = "lookup"
    MULTI_HOP = "multi-hop"
    TEMPORAL = "temporal"
    KNOWLEDGE_UPDATE = "knowledge-update"
    ABSTENTION = "abstention"


@dataclass(frozen=True, slots=True)
class Document:
    """What can be retrieved: a passage, a turn, a session, an observation.

    `id` is the dataset's own id, unique within every haystack. `timestamp` is when it was said.
    `session` names the session it stands in, `speaker` the person or role that said it, `position`
    its place in the session, counted from 0.
    """

    id: str
    text: str
    title: str = ""
    timestamp: int | None = None
    session: str | None = None
    speaker: str | None = None
    position: int | None = None

    @property
    def content(self) -> str:
        """Title and text as one string, joined by a space: what BEIR indexes."""
        return f"{self.title} {self.text}".strip() if self.title else self.text


@dataclass(frozen=True, slots=True)
class Query:
    """A question. `haystack` names the documents it may be answered from.

    `category` is the dataset's own name for its kind; `answers` are reference answers, if any.
    """

    id: str
    text: str
    haystack: str
    ability: Ability = Ability.LOOKUP
    category: str = ""
    timestamp: int | None = None
    answers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Qrel:
    """How relevant a document is to a query.

    `document` may name a document that the corpus does not hold; it then counts as relevant and
    cannot be found, as in trec_eval. `evidence_id` names the evidence item (TREC: nugget) that the
    document holds, where several documents may hold the same item (LoCoMo's observations) or one
    document several (its session summaries); None: the document is its own item.
    """

    query: str
    document: str
    grade: int = 1
    evidence_id: str | None = None


@dataclass(frozen=True, slots=True)
class Haystack:
    """The documents that a query may be answered from: rows of the document table.

    `rows` None means every document. `timestamps`, aligned with `rows`, says when each was said in
    this haystack, where that differs between haystacks (LongMemEval dates its fillers a question).
    """

    id: str
    rows: Sequence[int] | None = None
    timestamps: Sequence[int] | None = None


CHANGE_KINDS = ("update", "forget", "key-update")


@dataclass(frozen=True, slots=True)
class Change:
    """What became of something that was said: from `timestamp` on, `document` no longer holds.

    `kind`: an `update` was replaced by the document `by`; a `forget` was to be forgotten, and `by`,
    if any, is the document in which that wish was uttered. A `key-update` is an update that the
    answer key alone tells: it is scored, and no system is told of it. Documents are named by their
    ids in `haystack`.
    """

    haystack: str
    kind: str
    document: str
    timestamp: int
    by: str | None = None


def timestamp(moment: datetime) -> int:
    """Seconds since 1970-01-01 of `moment`'s own wall clock; its time zone, if any, is dropped."""
    return int(moment.replace(tzinfo=UTC).timestamp())


def as_datetime(seconds: int) -> datetime:
    """The naive datetime of a schema timestamp."""
    return datetime.fromtimestamp(seconds, tz=UTC).replace(tzinfo=None)
