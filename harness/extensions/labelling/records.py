"""Records of the files of a labelling project; see `harness.extensions.labelling.project` for the
folder."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeVar

import msgspec

from harness.io.records import Record, convert, decode, encode, to_plain
from harness.schema import Ability

VERSION: Literal[1] = 1

RELEVANCE_LEVEL = 1
"""The lowest grade that counts as relevant, where a project does not set another."""

Split = Literal["test", "dev", "train"]


class OpenRecord(Record):
    """A record that keeps further fields of the user; a file has them among the known ones."""

    extra: dict[str, object] = msgspec.field(default_factory=dict)


R = TypeVar("R", bound=OpenRecord)


def decode_open(data: bytes, kind: type[R], where: str, remedy: str) -> R:
    """Decodes JSON whose unknown fields go to `extra`. Raises UsageError as `decode`."""
    values = decode(data, dict[str, object], where, remedy)
    names = set(kind.__struct_fields__) - {"extra"}
    known = {name: value for name, value in values.items() if name in names}
    extra = {name: value for name, value in values.items() if name not in names}
    return convert({**known, "extra": extra}, kind, where, remedy)


def encode_open(record: OpenRecord) -> bytes:
    """Encodes a record as JSON with its `extra` fields among the known ones."""
    values = to_plain(record)
    extra = values.pop("extra", {})
    return encode({**values, **extra})


def encode_lines(records: Iterable[Record]) -> bytes:
    """Encodes records as JSON Lines."""
    return b"".join(
        (encode_open(one) if isinstance(one, OpenRecord) else encode(one)) + b"\n"
        for one in records
    )


# -- label.json ------------------------------------------------------------------------------------


class PooledSystem(Record):
    """A system of the pool: `name` is its key in `ranks`, the rest is what builds it again."""

    name: str
    retriever: str
    params: dict[str, object]
    plugins: list[str]
    version: str | None = None


class JudgedAnswers(Record):
    """A folder of answers that are judged, with the sha256 of its answers.parquet."""

    folder: str
    system: str
    sha256: str


class SourceFile(Record):
    """A file or folder that documents or queries were read from; `added` counts the new ones."""

    role: Literal["documents", "queries"]
    file: str
    sha256: str
    added: int


class GenerationBatch(Record):
    """One call of `harness label generate`: templates, or a model and its endpoint."""

    queries: int
    templates: list[str] | None = None
    endpoint: str | None = None
    model: str | None = None


class GenerationSettings(Record):
    """How the queries of a project were generated; `splits` are shares of the queries."""

    splits: dict[Split, float]
    seed: int
    batches: list[GenerationBatch] = msgspec.field(default_factory=list)


class LabelSettings(Record):
    """label.json.

    `depth` is that of the pool, `overlap` the share of the queries that every annotator judges.
    `answers` are set where answers are judged, which are then the documents.
    """

    version: Literal[1]
    depth: int
    seed: int
    overlap: float
    relevance_level: int = RELEVANCE_LEVEL
    systems: list[PooledSystem] = msgspec.field(default_factory=list)
    answers: list[JudgedAnswers] = msgspec.field(default_factory=list)
    sources: list[SourceFile] = msgspec.field(default_factory=list)
    generated: GenerationSettings | None = None


# -- documents.jsonl, queries.jsonl, pool.jsonl ----------------------------------------------------


class LabelDocument(OpenRecord):
    """A document; `haystack` is a name, several, or names with times. Its id is unique in each."""

    id: str
    text: str
    title: str | None = None
    timestamp: int | str | None = None
    session: str | None = None
    speaker: str | None = None
    haystack: str | list[str] | dict[str, int | str | None] | None = None

    @property
    def haystacks(self) -> list[str]:
        """Names of the haystacks that contain the document; none where it names none."""
        if not self.haystack:
            return []
        return [self.haystack] if isinstance(self.haystack, str) else list(self.haystack)

    @property
    def content(self) -> str:
        """Title and text as retrievers index them."""
        return f"{self.title} {self.text}".strip() if self.title else self.text

    @property
    def key(self) -> str:
        """What identifies the document among all: ids are unique in a haystack alone."""
        return f"{self.haystacks[0]}/{self.id}" if self.haystack else self.id


class QueryOrigin(Record):
    """How a query was generated, and from which documents."""

    method: Literal["template", "model"]
    documents: list[str] = msgspec.field(default_factory=list)
    template: str | None = None
    topic: str | None = None
    model: str | None = None


class LabelQuery(OpenRecord):
    """A query; without a haystack it is answered from all documents."""

    id: str
    text: str
    haystack: str | None = None
    ability: Ability | None = None
    timestamp: int | str | None = None
    answers: list[str] = msgspec.field(default_factory=list)
    split: Split | None = None
    generated: QueryOrigin | None = None


ProposalReason = Literal["construction", "same text", "topic", "field"]
"""Why a candidate that no system returned is in the pool, in order of precedence.

The query was made from it; it has the words of the query's document; it contains the query's topic;
it has the same value in the template's field.
"""


class Candidate(Record):
    """A document to be judged for a query; `ranks`: its rank, from 1, in each pooled system.

    `proposal`: why a candidate of a generated query is there.
    """

    query: str
    document: str
    ranks: dict[str, int] = msgspec.field(default_factory=dict)
    proposal: ProposalReason | None = None
