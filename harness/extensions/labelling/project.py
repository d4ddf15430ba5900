"""A labelling project on disk: one folder of readable files.

| file | what |
|---|---|
| label.json | settings (`LabelSettings`) |
| documents.jsonl, queries.jsonl | own copies, with the fields that the dataset `labelled` reads |
| pool.jsonl | the candidates (`Candidate`) |
| guidelines.md | the rules for annotators, if there are any; shown on the page and exported |
| annotations/NAME.jsonl | the annotations of the annotator NAME |
| annotations/construction.jsonl | grades that follow from how a query was generated |
| adjudications.jsonl | resolutions of conflicts, each line with its `adjudicator` |

An annotation log is append-only, with one line per annotation, in one of five forms, each with
"time"; the last line for a key counts, null withdraws it:

    {"query": id, "document": id, "grade": 0 to 3 or null}
    {"query": id, "ability": "lookup", "multi-hop", "temporal", "knowledge-update" or null}
    {"query": id, "unanswerable": true, false or null}
    {"query": id, "rejected": true or null}
    {"query": id, "document": id (optional), "note": text}

A grade by construction counts until a person judges the document too; until then the query is
unfinished. Candidates of a query with the same text are judged once, and get the same grade.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import blake2b
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from harness.errors import UsageError
from harness.extensions.labelling.annotations import (
    ANSWERS,
    DOCUMENTS,
    AnnotationLog,
    Annotations,
    Pair,
    Scale,
)
from harness.io.files import write_bytes
from harness.io.records import (
    Record,
    convert,
    decode,
    encode,
    read_json_record,
    to_plain,
    write_json_record,
)
from harness.schema import Ability

VERSION: Literal[1] = 1

RELEVANCE_LEVEL = 2
"""The lowest grade that counts as relevant in a new project of documents, as in TREC's Deep
Learning track: grade 1 is on the subject, but does not answer."""

Split = Literal["test", "dev", "train"]


class OpenRecord(Record):
    """A record that keeps additional user fields in `extra`; files have them at the top level."""

    extra: dict[str, object] = msgspec.field(default_factory=dict)


def encode_lines(records: Iterable[Record]) -> bytes:
    """Encodes records as JSON Lines, with the `extra` fields of open records at the top level."""
    lines = []
    for record in records:
        values = to_plain(record)
        extra = values.pop("extra", {}) if isinstance(record, OpenRecord) else {}
        lines.append(encode({**values, **extra}) + b"\n")
    return b"".join(lines)


# -- label.json ------------------------------------------------------------------------------------


class PooledSystem(Record):
    """A system of the pool: `name` is its key in `ranks`, the other fields rebuild it."""

    name: str
    retriever: str
    params: dict[str, Any]
    plugins: list[str]
    version: str | None = None


class JudgedAnswers(Record):
    """A folder of answers to judge, with the sha256 of its answers.parquet."""

    folder: str
    system: str
    sha256: str


class SourceFile(Record):
    """A source file or folder of documents or queries; `added` counts the new ones."""

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
    `seed` is that of every random order. `answers` is set in a project of answers, which are its
    documents. `relevance_level` is the lowest grade that counts as evidence, 1 in a file without
    it: answers, and projects created when that was the default.
    """

    version: Literal[1]
    depth: int
    seed: int
    overlap: float
    relevance_level: int = 1
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
        """Names of the haystacks that contain the document; empty if it names none."""
        if not self.haystack:
            return []
        return [self.haystack] if isinstance(self.haystack, str) else list(self.haystack)

    @property
    def content(self) -> str:
        """Title and text as retrievers index them."""
        return f"{self.title} {self.text}".strip() if self.title else self.text

    @property
    def key(self) -> str:
        """Identifies the document among all documents; ids are unique only in a haystack."""
        return f"{self.haystacks[0]}/{self.id}" if self.haystack else self.id

    def text_key(self, haystack: str | None) -> tuple[object, ...]:
        """Returns a key that copies of a document in a haystack have in common.

        A turn of a session has no copies, since its meaning depends on the turns around it.
        """
        if self.session:
            return (self.id,)
        of_haystack = self.haystack if isinstance(self.haystack, dict) else {}
        time = of_haystack.get(haystack or "", self.timestamp)
        return (self.title or "", _digest(self.text), time, self.speaker or "")


@lru_cache(maxsize=50_000)
def _digest(text: str) -> bytes:
    """Returns a hash of a text with normalised white space."""
    return blake2b(" ".join(text.split()).encode("utf-8", "surrogatepass")).digest()


class QueryOrigin(Record):
    """How a query was generated, and from which documents."""

    method: Literal["template", "model"]
    documents: list[str] = msgspec.field(default_factory=list)
    template: str | None = None
    topic: str | None = None
    model: str | None = None


class QueryEdit(Record):
    """A change of a query's text: the `text` before it, who changed it, and when.

    `pooled`: the systems were pooled again with the text after it.
    """

    text: str
    annotator: str
    time: str
    pooled: bool = False


class LabelQuery(OpenRecord):
    """A query; without a haystack it is answered from all documents. `edits` are oldest first."""

    id: str
    text: str
    haystack: str | None = None
    ability: Ability | None = None
    timestamp: int | str | None = None
    answers: list[str] = msgspec.field(default_factory=list)
    split: Split | None = None
    generated: QueryOrigin | None = None
    edits: list[QueryEdit] = msgspec.field(default_factory=list)

    @property
    def pool_is_older(self) -> bool:
        """True if the systems were pooled with an earlier text only."""
        return any(not edit.pooled for edit in self.edits)


ProposalReason = Literal[
    "construction", "same text", "near-duplicate", "topic", "field", "words", "search"
]
"""Why a candidate that no system returned is in the pool, in order of precedence.

The query was generated from it; it has the text of another candidate; it has most of the text of
the query's document; it fits the query's template; it has as many of the query's words as its
document; an annotator found it by a search. Only older projects have a topic."""


class Candidate(Record):
    """A document to judge for a query; `ranks`: its rank, from 1, in each pooled system.

    `proposal`: why a candidate that no system returned is in the pool; `annotator` and `time`: who
    added it by a search, and when.
    """

    query: str
    document: str
    ranks: dict[str, int] = msgspec.field(default_factory=dict)
    proposal: ProposalReason | None = None
    annotator: str | None = None
    time: str | None = None


CONSTRUCTION: Literal["construction"] = "construction"
"""The name of the log of grades by construction; annotators cannot use it."""

REMEDY = "correct it, or restore the folder from a copy"

_NAME = re.compile(r"\w[\w.\-]{0,63}")
_SessionKey = tuple[tuple[str, ...], str]


@dataclass
class Project:
    """A project without its annotations."""

    folder: Path
    settings: LabelSettings
    documents: list[LabelDocument]
    queries: list[LabelQuery]
    pool: list[Candidate]

    @classmethod
    def new(cls, folder: Path) -> Project:
        """Returns an empty project, which is not written yet."""
        settings = LabelSettings(
            version=VERSION, depth=0, seed=0, overlap=1.0, relevance_level=RELEVANCE_LEVEL
        )
        return cls(folder, settings, [], [], [])

    @classmethod
    def read(cls, folder: Path) -> Project:
        """Reads a project. Raises UsageError for a folder without one, or with a damaged file."""
        if not (folder / "label.json").is_file():
            raise UsageError(
                f"{folder}: not a labelling project (it has no label.json); create one with "
                "`harness label start`"
            )
        settings = read_json_record(folder / "label.json", LabelSettings, REMEDY)
        documents = read_lines(folder / "documents.jsonl", LabelDocument)
        queries = read_lines(folder / "queries.jsonl", LabelQuery)
        pool = read_lines(folder / "pool.jsonl", Candidate)
        _check_ids(folder, queries, documents, pool)
        return cls(folder, settings, documents, queries, pool)

    def write(self) -> None:
        """Writes the four files, each atomically; annotations are not changed.

        The order keeps the project readable if a crash occurs between two files.
        """
        files: Sequence[tuple[str, Sequence[Record]]] = (
            ("documents", self.documents),
            ("queries", self.queries),
            ("pool", self.pool),
        )
        for name, records in files:
            write_bytes(self.folder / f"{name}.jsonl", encode_lines(records))
        write_json_record(self.folder / "label.json", self.settings)

    @property
    def guidelines(self) -> str:
        """The project's rules for annotators, from guidelines.md; empty without the file."""
        path = self.folder / "guidelines.md"
        return path.read_text("utf-8", "replace").strip() if path.is_file() else ""

    @property
    def scale(self) -> Scale:
        """The scale of grades: of documents or of answers."""
        return ANSWERS if self.settings.answers else DOCUMENTS

    @property
    def systems(self) -> list[str]:
        """Names of the pooled systems, as in `ranks`."""
        return [system.name for system in self.settings.systems]

    @cached_property
    def query(self) -> dict[str, LabelQuery]:
        """Queries by id."""
        return {query.id: query for query in self.queries}

    @cached_property
    def candidates(self) -> dict[str, list[Candidate]]:
        """The pool by query; every query has an entry."""
        found: dict[str, list[Candidate]] = {query: [] for query in self.query}
        for candidate in self.pool:
            found[candidate.query].append(candidate)
        return found

    @cached_property
    def judged_as(self) -> dict[Pair, str]:
        """The candidate judged in place of each one: the first in the pool with the same text."""
        first: dict[tuple[object, ...], str] = {}
        return {
            (one.query, one.document): first.setdefault(
                (one.query, *self._text_key(one.query, one.document)), one.document
            )
            for one in self.pool
        }

    @cached_property
    def to_judge(self) -> dict[str, list[str]]:
        """The documents to judge by query, each text once; every query has an entry."""
        return {
            query: [c.document for c in of_query if self.judged_as[query, c.document] == c.document]
            for query, of_query in self.candidates.items()
        }

    def with_copies(self) -> list[Candidate]:
        """Returns the pool with all other documents that have the text of a candidate."""
        found = {(one.query, one.document): one for one in self.pool}
        keys = [(self.query[q].haystack or None, *self._text_key(q, pooled)) for q, pooled in found]
        # Only keys of pooled texts, since a document has a key in each of its haystacks.
        copies: dict[tuple[object, ...], list[str]] = {key: [] for key in keys}
        for document in self.documents:
            for haystack in (None, *document.haystacks):
                if (key := (haystack, *document.text_key(haystack))) in copies:
                    copies[key].append(document.id)
        for (query, _), key in zip(list(found), keys, strict=True):
            for copy in copies[key]:
                more = Candidate(query=query, document=copy, proposal="same text")
                found.setdefault((query, copy), more)
        return list(found.values())

    def _text_key(self, query: str, document: str) -> tuple[object, ...]:
        return self.document(query, document).text_key(self.query[query].haystack or None)

    def document(self, query: str, document: str) -> LabelDocument:
        """Returns the document with this id in the query's haystack. Raises KeyError."""
        haystack = self.query[query].haystack
        same_id = self._by_id[document]
        if haystack is None or len(same_id) == 1:
            return same_id[0]
        return next(one for one in same_id if haystack in one.haystacks)

    def given_ability(self, query: str) -> Ability | None:
        """Returns the ability in the query file; None for abstention, which cannot be chosen."""
        ability = self.query[query].ability
        return None if ability == Ability.ABSTENTION else ability

    def session(self, document: LabelDocument) -> list[LabelDocument]:
        """Returns all documents of a document's session, by time if all have a numeric one, else in
        file order."""
        key = _session_key(document)
        return [document] if key is None else self._sessions[key]

    @cached_property
    def _sessions(self) -> dict[_SessionKey, list[LabelDocument]]:
        found: dict[_SessionKey, list[LabelDocument]] = {}
        for document in self.documents:
            if (key := _session_key(document)) is not None:
                found.setdefault(key, []).append(document)
        for key, turns in found.items():
            if all(isinstance(one.timestamp, int) for one in turns):
                found[key] = sorted(turns, key=attrgetter("timestamp"))
        return found

    @cached_property
    def _by_id(self) -> dict[str, list[LabelDocument]]:
        found: dict[str, list[LabelDocument]] = {}
        for document in self.documents:
            found.setdefault(document.id, []).append(document)
        return found

    def annotation_log(self, annotator: str) -> AnnotationLog:
        """Opens the annotations of an annotator, or of CONSTRUCTION."""
        return AnnotationLog(self.folder / "annotations" / f"{annotator}.jsonl")

    def adjudication_log(self) -> AnnotationLog:
        """Opens the log of resolved conflicts."""
        return AnnotationLog(self.folder / "adjudications.jsonl")

    def annotations(self) -> dict[str, Annotations]:
        """Reads the current annotations of each annotator."""
        return {name: self.annotation_log(name).current for name in self.annotators()}

    def annotators(self) -> list[str]:
        """Returns the sorted names of the annotators, without construction."""
        found = (path.stem for path in (self.folder / "annotations").glob("*.jsonl"))
        return sorted(name for name in found if name != CONSTRUCTION and _NAME.fullmatch(name))


def _session_key(document: LabelDocument) -> _SessionKey | None:
    """Returns a key that the documents of a session share; None without a session."""
    return (tuple(document.haystacks), document.session) if document.session else None


def annotator_name(name: str) -> str:
    """Returns the name. Raises UsageError for an invalid one."""
    if not _NAME.fullmatch(name) or name == CONSTRUCTION:
        raise UsageError(
            f"--annotator {name!r}: use letters, digits, dots, hyphens and underscores, and not "
            f"{CONSTRUCTION!r}"
        )
    return name


R = TypeVar("R", bound=Record)


def read_lines(path: Path, kind: type[R]) -> list[R]:
    """Reads a JSON Lines file. Raises UsageError, with the line number, for a damaged line."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"{path}: this file of the project is missing") from None
    return [
        _decode_line(line, kind, f"{path}, line {number}")
        for number, line in enumerate(data.split(b"\n"), 1)
        if line.strip()
    ]


def _decode_line(line: bytes, kind: type[R], where: str) -> R:
    """Decodes a line; unknown fields of an open record are stored in its `extra`."""
    if not issubclass(kind, OpenRecord):
        return decode(line, kind, where, REMEDY)
    values = decode(line, dict[str, object], where, REMEDY)
    names = set(kind.__struct_fields__) - {"extra"}
    extra = {name: values.pop(name) for name in [*values] if name not in names}
    return convert({**values, "extra": extra}, kind, where, REMEDY)


def _check_ids(
    folder: Path,
    queries: Sequence[LabelQuery],
    documents: Iterable[LabelDocument],
    pool: Iterable[Candidate],
) -> None:
    """Raises UsageError for duplicate queries and candidates, and for unknown ids in the pool."""
    names, ids = {one.id for one in queries}, {one.id for one in documents}
    if len(names) < len(queries):
        raise UsageError(f"{folder / 'queries.jsonl'}: contains an id twice; {REMEDY}")
    seen: set[Pair] = set()
    for one in pool:
        pair = one.query, one.document
        if pair in seen or one.query not in names or one.document not in ids:
            wrong = "twice" if pair in seen else "but one of them does not exist"
            raise UsageError(
                f"{folder / 'pool.jsonl'}: contains query {one.query!r} with document "
                f"{one.document!r} {wrong}; {REMEDY}"
            )
        seen.add(pair)
