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
from collections.abc import Iterable, Sequence
from pathlib import Path
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
from harness.extensions.labelling.project import Project, annotator_name, encode_lines
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
    # Only in annotation:
    queries: int = 0
    candidates: list[dict[str, object]] = msgspec.field(default_factory=list)
    position: int = 0
    note: str = ""
    warning: str = ""
    can_reword: bool = False
    # Only in adjudication:
    votes: list[dict[str, object]] = msgspec.field(default_factory=list)
    evidence: list[dict[str, object]] = msgspec.field(default_factory=list)
    notes: list[dict[str, str]] = msgspec.field(default_factory=list)


# -- Messages of the page --------------------------------------------------------------------------


class SessionId(Record):
    """Identifies a session, so that an old tab cannot write to another one on the same port."""

    project: str
    annotator: str
    mode: Mode


class JudgeRequest(Record):
    """An annotation, `undo`, or a `reworded` text of the item's query; `text` is the one that was
    shown. `advance` requests the next open item in reply."""

    session: SessionId
    item: Item | None = None
    text: str | None = None
    reworded: str | None = None
    annotation: Annotation | None = None
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
        )


class AnnotationSession(JudgingSession):
    """The work of one annotator on one project, without systems, ranks and other annotators."""

    mode: Mode = "annotate"

    def __init__(self, folder: Path, annotator: str) -> None:
        """Raises UsageError for a folder that is not a project, an invalid name, and if there is
        nothing to judge."""
        super().__init__(folder, annotator)
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
        self._log.refresh()
        found = self.project.annotations()
        others = [own for name, own in found.items() if name != self.annotator]
        self._set_items(worklist(self.project, self.annotator, self.annotations, others))

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
            can_reword=not self._wording_is_fixed(item.query, [own]),
        )

    def reword(self, query: str, text: str) -> None:
        """Gives a generated query a new text, for all annotators.

        Raises UsageError if the old text has been used (a system was pooled with it, or an
        annotator judged it), for an empty text, a leak, the text of another query, or a query that
        was not generated. Removes leakage.json, which describes the old text.
        """
        from harness.extensions.labelling.generate import leakage
        from harness.extensions.labelling.start import exclusive

        with exclusive(self.folder):
            self.refresh()
            one = self.project.query[query]
            text = " ".join(text.split())
            why = (
                self._wording_is_fixed(query, self.project.annotations().values())
                or ("" if text else "the new one is empty")
                or leakage.fault_of_text(leakage.from_project(self.project), query, text)
            )
            if one.generated is None or why:
                raise UsageError(f"the text of {query!r} cannot be changed: {why}")
            first = one.generated.text or one.text
            origin = replace(one.generated, text=first, reworded_by=self.annotator)
            new = replace(one, text=text, generated=origin)
            queries = [new if each.id == query else each for each in self.project.queries]
            (self.folder / leakage.LEAKAGE).unlink(missing_ok=True)
            write_bytes(self.folder / "queries.jsonl", encode_lines(queries))
        self.refresh()

    def _wording_is_fixed(self, query: str, annotators: Iterable[Annotations]) -> str:
        """Returns the reason why a query cannot be reworded; empty if it can."""
        if self.project.query[query].generated is None:
            return "it was not generated"
        if any(one.ranks for one in self.project.candidates[query]):
            return "systems were pooled with it; reject the query"
        if any(query in one.queries for one in annotators):
            return "it has judgements; reject the query, or undo the judgements"
        return ""

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
