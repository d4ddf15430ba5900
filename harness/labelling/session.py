"""One annotator's session: which items are judged in which order, and what a judgement does.

Everything that counts is on the disk: a new session continues where the last one ended.

Queries have one random order for everybody, so that those judged when somebody stops are a random
sample of all. Everybody judges the first ones, a share of all (`overlap`); each other query belongs
to the annotator who judges it first. The candidates of a query have a random order for each
annotator, independent of systems and ranks. All orders follow from the project's seed and the ids:
they stay the same from day to day, and what is added later is placed in between.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

from harness.errors import UsageError
from harness.labelling.annotations import Annotation, AnnotationLog, Annotations, Kind, Scale
from harness.labelling.project import CONSTRUCTION, Project, annotator_name
from harness.labelling.views import (
    CandidateGrade,
    Item,
    ItemView,
    Mode,
    context,
    document_view,
    format_time,
    reference,
)
from harness.schema import Ability


def query_order(project: Project) -> list[str]:
    """Returns all queries in the project's random order."""
    return sorted(project.query, key=lambda query: _sort_key(project.seed, "queries", query))


def shared_queries(project: Project) -> list[str]:
    """Returns the queries that every annotator judges."""
    ordered = query_order(project)
    return ordered[: math.ceil(len(ordered) * project.settings.overlap)]


def worklist(
    project: Project, annotator: str, own: Annotations, others: Iterable[Annotations]
) -> list[Item]:
    """Returns all items of `annotator` in order, given their `own` annotations and the `others`'.

    It excludes candidates graded by construction, queries outside the shared ones that another
    annotator has begun and this one has not, and questions to which every answer failed.
    """
    shared = shared_queries(project)
    rest = [query for query in query_order(project) if query not in set(shared)]
    if rest:
        taken = {query for one in others for query in annotated_queries(one)}
        taken -= annotated_queries(own)
        rest = [query for query in rest if query not in taken]
        rest.sort(key=lambda query: _sort_key(project.seed, annotator, query))
    built = project.annotation_log(CONSTRUCTION).current.grades
    items: list[Item] = []
    for query in (*shared, *rest):
        candidates = project.candidates[query]
        documents = [c.document for c in candidates if (query, c.document) not in built]
        documents.sort(key=lambda document: _sort_key(project.seed, annotator, query, document))
        items += [Item(query=query, document=document) for document in documents]
        if not candidates and not project.settings.answers:
            items.append(Item(query=query))
    return items


def annotated_queries(annotations: Annotations) -> set[str]:
    """Returns the queries that have a grade, an ability or a mark as unanswerable."""
    graded = {query for query, _ in annotations.grades}
    return graded | set(annotations.unanswerable) | set(annotations.abilities)


def is_done(item: Item, annotations: Annotations) -> bool:
    """Tests whether an item is graded, or its query is marked as unanswerable."""
    if annotations.unanswerable.get(item.query):
        return True
    if item.document is None:
        return item.query in annotations.unanswerable
    return (item.query, item.document) in annotations.grades


def _sort_key(seed: int, *names: str) -> bytes:
    """Returns a pseudo-random sort key."""
    return hashlib.blake2b("\0".join((str(seed), *names)).encode(), digest_size=8).digest()


class AnnotationSession:
    """The work of one annotator on one project. Not thread-safe: hold a lock."""

    mode: Mode = "annotate"

    def __init__(self, folder: Path, annotator: str) -> None:
        """Raises UsageError for a folder that is not a project, an invalid name, and where there is
        nothing to judge."""
        self.folder, self.annotator = folder, annotator_name(annotator)
        self._project = Project.read(folder)
        self._stamp = self._pool_stamp()
        self._log = self._project.annotation_log(annotator)
        self._others: dict[str, AnnotationLog] = {}
        self._known: tuple[object, ...] = ()
        self._items: list[Item] = []
        self._index: dict[Item, int] = {}
        self.refresh()
        if not self._items:
            raise UsageError(
                f"{folder}: there is nothing to judge for {annotator}: every candidate was judged "
                "by construction or by another annotator; see `harness label status`"
            )

    def refresh(self) -> None:
        """Reads what others wrote: another tab, another annotator, `label start`."""
        stamp = self._pool_stamp()
        if stamp != self._stamp:
            self._project, self._stamp = Project.read(self.folder), stamp
        self._log.refresh()
        if len(shared_queries(self._project)) < len(self._project.query):
            for name in self._project.annotators():
                if name != self.annotator:
                    if name not in self._others:
                        self._others[name] = self._project.annotation_log(name)
                    self._others[name].refresh()
        others = [log.current for log in self._others.values()]
        own = len(annotated_queries(self.annotations)) if others else 0
        known = (stamp, own, *(len(log.lines) for log in self._others.values()))
        if known != self._known:
            self._items = worklist(self._project, self.annotator, self.annotations, others)
            self._index = {item: at for at, item in enumerate(self._items)}
            self._known = known

    @property
    def relevance_level(self) -> int:
        """The lowest grade that counts as relevant."""
        return self._project.relevance_level

    @property
    def scale(self) -> Scale:
        """What is judged, and the grades it can have."""
        return self._project.scale

    @property
    def annotations(self) -> Annotations:
        """The annotator's current annotations."""
        return self._log.current

    @property
    def items(self) -> Sequence[Item]:
        """All items, in order."""
        return self._items

    def has(self, item: Item) -> bool:
        """Tests whether the session has this item."""
        return item in self._index

    def current_item(self) -> Item | None:
        """Returns the first open item after the newest annotation."""
        if self.annotations.last is None:
            return self.next_open(None)
        query, document = self.annotations.last
        last: Item | None = Item(query=query, document=document)
        if document is None and last not in self._index:
            last = next((item for item in self._items if item.query == query), None)
        return self.next_open(last if last in self._index else None)

    def next_open(self, item: Item | None) -> Item:
        """Returns the first open item after `item`, else before it; `item` where all are done."""
        at = -1 if item is None else self._index[item]
        others = (*self._items[at + 1 :], *self._items[: at + 1])
        left = (one for one in others if not is_done(one, self.annotations))
        return next(left, item or self._items[-1])

    def neighbour(self, item: Item, offset: int) -> Item:
        """Returns the item `offset` positions away, at most the first or the last."""
        at = min(max(self._index[item] + offset, 0), len(self._items) - 1)
        return self._items[at]

    def annotate(self, line: Annotation) -> None:
        """Writes an annotation to the disk. Raises UsageError for an item outside the pool and an
        invalid grade, and OSError where the disk refuses it; then it does not count."""
        candidates = self._project.candidates.get(line.query)
        if candidates is None or (
            line.document is not None and line.document not in {one.document for one in candidates}
        ):
            raise UsageError(f"not in the pool: query {line.query!r}, document {line.document!r}")
        if line.kind == "grade" and line.grade not in (None, *self.scale.meanings):
            raise UsageError(f"{self.scale.target}: {line.grade} is not one of its grades")
        self._log.refresh()
        if not self.annotations.contains(line):  # a page without an answer sends its line again
            self._log.append(line)

    def undo(self, item: Item | None = None) -> Item | None:
        """Reverts the newest annotation; returns its item, None where there is nothing to revert.

        An annotation of a whole query is reverted at `item`, if that belongs to the query.
        """
        self._log.refresh()
        if not self.annotations.undo_stack:
            return None
        line = self.annotations.undo_stack[-1]
        self._log.append(msgspec.structs.replace(line, undo=True))
        undone = Item(query=line.query, document=line.document)
        if undone in self._index:
            return undone
        if item is not None and item.query == undone.query:
            return item
        return next((one for one in self._items if one.query == undone.query), None)

    def view(self, item: Item) -> ItemView:
        """Returns everything that is shown of an item; nothing of systems, ranks and others."""
        project, own, query = self._project, self.annotations, self._project.query[item.query]
        of_query = [one for one in self._items if one.query == item.query]
        left = sum(not is_done(one, own) for one in self._items)
        queries = list(dict.fromkeys(one.query for one in self._items))
        return ItemView(
            item=item,
            text=query.text,
            asked_at=format_time(query.timestamp),
            reference=reference(project, item.query),
            document=(
                document_view(project.document(item.query, item.document))
                if item.document is not None
                else None
            ),
            context=context(project, item),
            grade=_grade(own, item),
            ability=own.abilities.get(item.query),
            given_ability=None if query.ability == Ability.ABSTENTION else query.ability,
            unanswerable=own.unanswerable.get(item.query),
            note=own.notes.get((item.query, item.document), ""),
            candidates=[CandidateGrade(item=one, grade=_grade(own, one)) for one in of_query],
            position=of_query.index(item),
            number=queries.index(item.query) + 1,
            queries=len(queries),
            done=len(self._items) - left,
            total=len(self._items),
            warning=self._warning(item.query),
            previous=self.neighbour(item, -1),
            next=self.neighbour(item, 1),
            next_open=self.next_open(item),
            can_undo=bool(own.undo_stack),
            choices=self._choices(item),
        )

    def _choices(self, item: Item) -> list[Kind]:
        if self.scale.target == "answer":
            return ["grade", "note"]
        rest: list[Kind] = ["unanswerable", "ability", "note"]
        return rest if item.document is None else ["grade", *rest]

    def _warning(self, query: str) -> str:
        """Returns a warning where a query is marked as unanswerable but has evidence."""
        if not self.annotations.unanswerable.get(query):
            return ""
        documents = [candidate.document for candidate in self._project.candidates[query]]
        grades = self.annotations.query_grades(query, documents).values()
        least = self._project.relevance_level
        n = sum(grade >= least for grade in grades)
        if not n:
            return ""
        return (
            f"You marked this query as not to be answered, but gave {n} of its documents a grade "
            f"of {least} or more, which counts as evidence. Take the mark back, or grade them 0."
        )

    def _pool_stamp(self) -> tuple[int, ...]:
        names = ("label.json", "pool.jsonl", "annotations/construction.jsonl")
        paths = [self.folder / name for name in names]
        return tuple(path.stat().st_mtime_ns if path.exists() else 0 for path in paths)


def _grade(annotations: Annotations, item: Item) -> int | None:
    document = item.document
    return None if document is None else annotations.grades.get((item.query, document))
