"""Judging sessions: items, their order, and the effect of an annotation.

All state is on disk: a new session continues where the last one ended.

Queries have one random order for all annotators, so those judged when an annotator stops are a
random sample. All annotators judge the first ones, a share of all (`overlap`); each other query
belongs to the annotator who judges it first. The candidates of a query have a random order per
annotator, independent of systems and ranks. All orders follow from the project's seed and the ids:
they do not change from day to day, and later additions are inserted in between.
"""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Literal

import msgspec
from msgspec.structs import replace

from harness.errors import UsageError
from harness.extensions.labelling.annotations import (
    Annotation,
    AnnotationLog,
    Annotations,
    Kind,
)
from harness.extensions.labelling.project import (
    Candidate,
    Project,
    QueryEdit,
    annotator_name,
    encode_lines,
)
from harness.extensions.labelling.search import DocumentSearch
from harness.extensions.labelling.views import (
    DocumentView,
    TurnContext,
    context,
    document_view,
    format_time,
    reference,
)
from harness.io.files import write_bytes
from harness.io.records import Record
from harness.schema import Ability

Mode = Literal["annotate", "adjudicate"]


class Item(Record):
    """A unit of judging: a document for a query, or a query that has no candidate.

    In adjudication `kind` is the kind of annotation in conflict.
    """

    query: str
    document: str | None = None
    kind: Kind | None = None


class ItemView(Record):
    """Everything that is shown of an item; nothing of systems and ranks.

    `number` is that of the query, or of the conflict. `grade`, `ability`, `unanswerable` and
    `rejected` are the annotator's, or the resolution. `given_ability` is the query's own.
    `seconds` is the annotator's usual time for a judgement. `edits` are the changes of the text.
    `candidates` have `item` and `grade`, `votes` `annotator` and `value`, `notes` `annotator` and
    `note`; `evidence` are the relevant documents of a conflict, each with `document` and `votes`.
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
    rejected: bool | None
    number: int
    done: int
    total: int
    previous: Item
    next: Item
    next_open: Item
    can_undo: bool
    choices: list[Kind]
    seconds: float | None = None
    edits: list[QueryEdit] = msgspec.field(default_factory=list)
    # Only in annotation:
    queries: int = 0
    candidates: list[dict[str, object]] = msgspec.field(default_factory=list)
    position: int = 0
    note: str = ""
    warning: str = ""
    why_fixed: str = ""
    """Why the text of the query cannot be edited; empty if it can."""
    # Only in adjudication:
    votes: list[dict[str, object]] = msgspec.field(default_factory=list)
    evidence: list[dict[str, object]] = msgspec.field(default_factory=list)
    notes: list[dict[str, str]] = msgspec.field(default_factory=list)


class QueryOverview(Record):
    """A line in the list of queries; `item` is its first open item, else its first one.

    `notes` have `item`, `annotator` and `note`. `unanswerable` and `rejected` as in `ItemView`.
    """

    item: Item
    text: str
    done: int
    total: int
    unanswerable: bool | None
    rejected: bool | None
    edited: bool
    notes: list[dict[str, object]]


class FoundDocument(Record):
    """A result of a search; `item` judges it. `pooled`: it is a candidate of the query."""

    item: Item
    document: DocumentView
    pooled: bool
    grade: int | None


# -- Messages of the page --------------------------------------------------------------------------


class SessionId(Record):
    """Identifies a session, so that an old tab cannot write to another one on the same port."""

    project: str
    annotator: str
    mode: Mode


class JudgeRequest(Record):
    """An annotation, `undo`, a `reworded` text of the item's query, or an item to add to the pool
    (`add`); `text` is the one that was shown. `advance` requests the next open item in reply."""

    session: SessionId
    item: Item | None = None
    text: str | None = None
    reworded: str | None = None
    annotation: Annotation | None = None
    add: bool = False
    undo: bool = False
    advance: bool = False


# -- Order of work ---------------------------------------------------------------------------------


def query_order(project: Project) -> list[str]:
    """Returns all queries in the project's random order."""
    seed = project.settings.seed
    return sorted(project.query, key=lambda query: _sort_key(seed, "queries", query))


def shared_queries(project: Project) -> list[str]:
    """Returns the queries that every annotator judges."""
    ordered = query_order(project)
    return ordered[: math.ceil(len(ordered) * project.settings.overlap)]


def worklist(
    project: Project, annotator: str, own: Annotations, others: Iterable[Annotations]
) -> list[Item]:
    """Returns all items of `annotator` in order, given their `own` annotations and the `others`'.

    Excluded are copies, which are judged as the candidate with the same text, queries outside the
    shared ones that another annotator has started and this one has not, queries that another
    annotator rejected, and questions with failed answers only. Items graded by construction are
    judged like any other.
    """
    seed = project.settings.seed
    shared, others = shared_queries(project), list(others)
    begun = {query for one in others for query in one.queries}
    rest = set(project.query) - set(shared) - (begun - own.queries)
    rejected = {query for one in others for query, yes in one.rejected.items() if yes}
    kept = project.adjudication_log().current.rejected if rejected else {}
    items: list[Item] = []
    for query in (*shared, *sorted(rest, key=lambda query: _sort_key(seed, annotator, query))):
        if query in rejected and kept.get(query) is not False:
            continue
        documents = project.to_judge[query]
        items += [
            Item(query=query, document=document)
            for document in sorted(
                documents, key=lambda one: _sort_key(seed, annotator, query, one)
            )
        ]
        if not documents and not project.settings.answers:
            items.append(Item(query=query))
    return items


def is_done(item: Item, annotations: Annotations) -> bool:
    """Tests whether an item is graded, or its query is marked as unanswerable or rejected."""
    if annotations.unanswerable.get(item.query) or annotations.rejected.get(item.query):
        return True
    if item.document is None:
        return item.query in annotations.unanswerable
    return (item.query, item.document) in annotations.grades


def _sort_key(seed: int, *names: str) -> bytes:
    """Returns a pseudo-random sort key."""
    return hashlib.blake2b("\0".join((str(seed), *names)).encode(), digest_size=8).digest()


# -- Sessions --------------------------------------------------------------------------------------


class JudgingSession(ABC):
    """The work of one person on one project, for the page. Not thread-safe: hold a lock."""

    mode: Mode
    items: Sequence[Item]
    """All items, in order."""

    def __init__(self, folder: Path, annotator: str) -> None:
        """Raises UsageError for a folder that is not a project, and an invalid name."""
        self.folder, self.annotator = folder, annotator_name(annotator)
        self.project = Project.read(folder)
        self._log = self._open_log()
        self._index: dict[Item, int] = {}

    @abstractmethod
    def _open_log(self) -> AnnotationLog:
        """Opens the log that annotations are written to."""

    @abstractmethod
    def refresh(self) -> None:
        """Reads changes by other processes."""

    @abstractmethod
    def is_done(self, item: Item) -> bool:
        """Tests whether an item is judged."""

    @abstractmethod
    def check(self, line: Annotation) -> None:
        """Raises UsageError for an annotation of an item that is not judged here."""

    def item_of(self, line: Annotation) -> Item:
        """Returns the item that an annotation is about."""
        return Item(query=line.query, document=line.document)

    def write(self, line: Annotation) -> None:
        """Adds a line to the log."""
        self._log.append(line)

    @property
    def annotations(self) -> Annotations:
        """The current annotations, or resolutions."""
        return self._log.current

    def _set_items(self, items: Sequence[Item]) -> None:
        self.items = items
        self._index = {item: at for at, item in enumerate(items)}

    @property
    def note_logs(self) -> Mapping[str, Annotations]:
        """The annotations, by annotator, whose notes this person may read."""
        return {self.annotator: self.annotations}

    def overview(self) -> list[QueryOverview]:
        """Returns all queries, in order, with progress, marks and notes."""
        own, by_query = self.annotations, dict[str, list[Item]]()
        for item in self.items:
            by_query.setdefault(item.query, []).append(item)
        notes: dict[str, list[dict[str, object]]] = {}
        for name, log in self.note_logs.items():
            for (query, document), note in log.notes.items():
                of_query = by_query.get(query, [])
                place = next((one for one in of_query if one.document == document), None)
                found: dict[str, object] = {"item": place, "annotator": name, "note": note}
                notes.setdefault(query, []).append(found)
        return [
            QueryOverview(
                item=next((one for one in items if not self.is_done(one)), items[0]),
                text=self.project.query[query].text,
                done=sum(map(self.is_done, items)),
                total=len(items),
                unanswerable=own.unanswerable.get(query),
                rejected=own.rejected.get(query),
                edited=bool(self.project.query[query].edits),
                notes=notes.get(query, []),
            )
            for query, items in by_query.items()
        ]

    def has(self, item: Item) -> bool:
        """Tests whether the session has this item."""
        return item in self._index

    def current_item(self) -> Item | None:
        """Returns the item to continue at; None if there are no items."""
        return self.next_open(None)

    def next_open(self, item: Item | None) -> Item | None:
        """Returns the first open item after `item`, else before it; `item` if all are done."""
        at = -1 if item is None else self._index[item]
        others = (*self.items[at + 1 :], *self.items[: at + 1])
        left = (one for one in others if not self.is_done(one))
        return next(left, item or (self.items[-1] if self.items else None))

    def annotate(self, line: Annotation) -> None:
        """Writes an annotation to disk. Raises UsageError for an invalid annotation, and OSError
        if it cannot be written; then it does not count."""
        self.check(line)
        self._log.refresh()
        if not self.annotations.contains(line):  # a page without a reply sends its line again
            self.write(line)

    def undo(self, item: Item | None = None) -> Item | None:
        """Reverts the newest annotation; returns its item, None if there is nothing to revert.

        An annotation of a whole query is reverted at `item`, if that belongs to the query.
        """
        self._log.refresh()
        if not self.annotations.undo_stack:
            return None
        line = self.annotations.undo_stack[-1]
        self.write(replace(line, undo=True))
        self.refresh()
        undone = self.item_of(line)
        if self.has(undone):
            return undone
        if item is not None and self.has(item) and item.query == line.query:
            return item
        return next((one for one in self.items if one.query == line.query), None)

    def view(self, item: Item) -> ItemView:
        """Returns the part of an item's view that all sessions share."""
        project, own, query = self.project, self.annotations, self.project.query[item.query]
        at, document = self._index[item], item.document
        of_document = None if document is None else project.document(item.query, document)
        return ItemView(
            item=item,
            text=query.text,
            asked_at=format_time(query.timestamp),
            reference=reference(project, item.query),
            document=None if of_document is None else document_view(of_document),
            context=context(project, item.query, document),
            grade=None if document is None else own.grades.get((item.query, document)),
            ability=own.abilities.get(item.query),
            given_ability=project.given_ability(item.query),
            unanswerable=own.unanswerable.get(item.query),
            rejected=own.rejected.get(item.query),
            number=at + 1,
            done=sum(map(self.is_done, self.items)),
            total=len(self.items),
            previous=self.items[max(at - 1, 0)],
            next=self.items[min(at + 1, len(self.items) - 1)],
            next_open=self.next_open(item) or item,
            can_undo=bool(own.undo_stack),
            choices=[],
            seconds=_usual_seconds(self._log.lines),
            edits=query.edits,
        )


_RECENT = 50  # judgements from which the pace follows
_FEWEST = 5  # judgements before a pace is stated
_PAUSE = 300.0  # seconds; a longer gap is a pause


def _usual_seconds(lines: Sequence[Annotation]) -> float | None:
    """Returns the median seconds between the latest judgements; None if there are too few."""
    times = [
        datetime.fromisoformat(line.time).timestamp()
        for line in lines[-_RECENT:]
        if line.time and line.kind != "note" and not line.undo
    ]
    gaps = [gap for before, after in pairwise(times) if 0 < (gap := after - before) < _PAUSE]
    return median(gaps) if len(gaps) >= _FEWEST - 1 else None


_WAIT = 5.0  # seconds for the project's lock, which others hold for less than one
_FOUND = 20  # documents that a search returns


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class AnnotationSession(JudgingSession):
    """The work of one annotator on one project, without systems, ranks and other annotators."""

    mode: Mode = "annotate"

    def __init__(self, folder: Path, annotator: str) -> None:
        """Raises UsageError for a folder that is not a project, an invalid name, and if there is
        nothing to judge."""
        super().__init__(folder, annotator)
        self._searches: dict[str | None, DocumentSearch] = {}
        self._stamp = self._pool_stamp()
        self.refresh()
        if not self.items:
            raise UsageError(
                f"{folder}: nothing to judge for {annotator}: every query is judged or rejected by "
                "another annotator; see `harness label status`"
            )

    def _open_log(self) -> AnnotationLog:
        return self.project.annotation_log(self.annotator)

    def refresh(self) -> None:
        """Reads changes by another tab, another annotator, or `label start`."""
        stamp = self._pool_stamp()
        if stamp != self._stamp:
            self.project, self._stamp = Project.read(self.folder), stamp
            self._searches = {}
        self._log.refresh()
        found = self.project.annotations()
        self._others = [own for name, own in found.items() if name != self.annotator]
        self._set_items(worklist(self.project, self.annotator, self.annotations, self._others))

    def is_done(self, item: Item) -> bool:
        """Tests whether an item is graded, or its query is marked as unanswerable or rejected."""
        return is_done(item, self.annotations)

    def current_item(self) -> Item | None:
        """Returns the first open item after the newest annotation."""
        if self.annotations.last is None:
            return self.next_open(None)
        query, document = self.annotations.last
        last = Item(query=query, document=document)
        if document is None and not self.has(last):
            last = next((item for item in self.items if item.query == query), last)
        return self.next_open(last if self.has(last) else None)

    def check(self, line: Annotation) -> None:
        """Raises UsageError for an item outside the pool and an invalid grade."""
        candidates = self.project.candidates.get(line.query)
        if candidates is None or line.document not in (None, *(one.document for one in candidates)):
            raise UsageError(f"not in the pool: query {line.query!r}, document {line.document!r}")
        if line.kind == "grade" and line.grade not in (None, *self.project.scale.meanings):
            raise UsageError(f"{line.grade} is not a grade of this project")

    def view(self, item: Item) -> ItemView:
        """Returns everything that is shown of an item; nothing of systems, ranks and others."""
        own = self.annotations
        of_query = [one for one in self.items if one.query == item.query]
        queries = list(dict.fromkeys(one.query for one in self.items))
        return replace(
            super().view(item),
            note=own.notes.get((item.query, item.document), ""),
            candidates=[
                {"item": one, "grade": own.grades.get((one.query, one.document or ""))}
                for one in of_query
            ],
            position=of_query.index(item),
            number=queries.index(item.query) + 1,
            queries=len(queries),
            warning=self._warning(item.query),
            choices=self._choices(item),
            why_fixed=self._why_fixed(item.query),
        )

    def reword(self, query: str, text: str) -> None:
        """Gives a query a new text, for all annotators, and records the edit with the query.

        This annotator's judgements of the query stay. Raises UsageError if another annotator judged
        it, in a project of answers, for an empty text, the text of another query, and a leak in a
        generated query. Removes leakage.json, which describes the old text.
        """
        from harness.extensions.labelling.generate import leakage
        from harness.extensions.labelling.start import exclusive

        with exclusive(self.folder, _WAIT):
            self.refresh()
            one = self.project.query[query]
            text = " ".join(text.split())
            same = next((o.id for o in self.project.queries if o.text == text and o != one), None)
            why = (
                self._why_fixed(query)
                or ("" if text else "the new one is empty")
                or (f"{same!r} has the new one" if same else "")
            )
            if one.generated and not why:
                why = leakage.fault_of_text(leakage.from_project(self.project), query, text)
            if why:
                raise UsageError(f"the text of {query!r} cannot be changed: {why}")
            pooled = any(candidate.ranks for candidate in self.project.candidates[query])
            edit = QueryEdit(
                text=one.text, annotator=self.annotator, time=_now(), pooled=not pooled
            )
            new = replace(one, text=text, edits=[*one.edits, edit])
            queries = [new if each.id == query else each for each in self.project.queries]
            (self.folder / leakage.LEAKAGE).unlink(missing_ok=True)
            write_bytes(self.folder / "queries.jsonl", encode_lines(queries))
        self.refresh()

    def _why_fixed(self, query: str) -> str:
        """Returns the reason why the text of a query cannot be changed; empty if it can."""
        if self.project.scale.target == "answer":
            return "it is the dataset's"
        if any(query in one.queries for one in self._others):
            return "another annotator judged it; reject the query instead"
        return ""

    def search(self, query: str, words: str) -> list[FoundDocument]:
        """Returns the documents of a query's haystack that fit these words best."""
        haystack = self.project.query[query].haystack or None
        if haystack not in self._searches:
            documents = self.project.documents
            if haystack is not None:
                documents = [one for one in documents if haystack in one.haystacks]
            self._searches[haystack] = DocumentSearch(documents)
        pooled = {one.document for one in self.project.candidates[query]}
        found = []
        for one in self._searches[haystack].best(words, _FOUND):
            judged = self.project.judged_as.get((query, one.id), one.id)
            found.append(
                FoundDocument(
                    item=Item(query=query, document=judged),
                    document=document_view(one),
                    pooled=one.id in pooled,
                    grade=self.annotations.grades.get((query, judged)),
                )
            )
        return found

    def add_candidate(self, item: Item) -> Item:
        """Adds a document to the pool of a query, for all annotators; returns the item to judge.

        Raises UsageError in a project of answers, and for a document outside the query's haystack.
        """
        from harness.extensions.labelling.start import exclusive

        query, id_ = item.query, item.document
        with exclusive(self.folder, _WAIT):
            self.refresh()
            project = self.project
            haystack = project.query[query].haystack if query in project.query else None
            known = any(
                one.id == id_ and (not haystack or haystack in one.haystacks)
                for one in project.documents
            )
            if id_ is None or not known or project.scale.target == "answer":
                raise UsageError(f"{id_!r} cannot be added to the pool of {query!r}")
            if (query, id_) not in project.judged_as:
                more = Candidate(
                    query=query,
                    document=id_,
                    proposal="search",
                    annotator=self.annotator,
                    time=_now(),
                )
                pool = Project(
                    project.folder,
                    project.settings,
                    project.documents,
                    project.queries,
                    [*project.pool, more],
                ).with_copies()
                write_bytes(self.folder / "pool.jsonl", encode_lines(pool))
        self.refresh()
        return Item(query=query, document=self.project.judged_as[query, id_])

    def _choices(self, item: Item) -> list[Kind]:
        if self.project.scale.target == "answer":
            return ["grade", "note"]
        rest: list[Kind] = ["unanswerable", "rejected", "ability", "note"]
        return rest if item.document is None else ["grade", *rest]

    def _warning(self, query: str) -> str:
        """Returns a warning if a query is marked as unanswerable but has evidence."""
        least = self.project.settings.relevance_level
        grades = [
            self.annotations.grades.get((query, one.document), 0)
            for one in self.project.candidates[query]
        ]
        n = sum(grade >= least for grade in grades)
        if not n or not self.annotations.unanswerable.get(query):
            return ""
        return (
            f"You marked this query as unanswerable, but graded {n} of its documents {least} or "
            "more, which counts as evidence. Remove the mark (n), or grade them 0."
        )

    def _pool_stamp(self) -> tuple[int, ...]:
        names = ("label.json", "queries.jsonl", "pool.jsonl")
        paths = [self.folder / name for name in names]
        return tuple(path.stat().st_mtime_ns if path.exists() else 0 for path in paths)
