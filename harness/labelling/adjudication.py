"""Adjudication: resolves conflicts, with the annotators' votes side by side.

The page shows it as it shows an annotator's session; resolutions go to adjudications.jsonl.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec

from harness.errors import UsageError
from harness.labelling.annotations import Annotation, AnnotationLog, Annotations, Scale
from harness.labelling.consensus import Conflict, consensus
from harness.labelling.project import CONSTRUCTION, Project, annotator_name
from harness.labelling.views import (
    AnnotatorNote,
    Evidence,
    Item,
    ItemView,
    Mode,
    Vote,
    context,
    document_view,
    format_time,
    reference,
)
from harness.schema import Ability


class Adjudication:
    """The conflicts of a project, resolved by one person. Not thread-safe: hold a lock."""

    mode: Mode = "adjudicate"

    def __init__(self, folder: Path, adjudicator: str) -> None:
        """Raises UsageError for a folder that is not a project, or has no conflict."""
        self.folder, self.annotator = folder, annotator_name(adjudicator)
        self._project = Project.read(folder)
        self._log = self._project.adjudication_log()
        self._construction = self._project.annotation_log(CONSTRUCTION)
        self._logs: dict[str, AnnotationLog] = {}
        self._conflicts: dict[Item, Conflict] = {}
        self.refresh()
        if not self._conflicts:
            n = len(self._project.annotators())
            raise UsageError(
                f"{folder}: no conflict to resolve; "
                + ("only one annotator has judged" if n == 1 else f"{n} annotators have judged")
            )

    def refresh(self) -> None:
        """Reads what was annotated and resolved since."""
        for name in self._project.annotators():
            if name not in self._logs:
                self._logs[name] = self._project.annotation_log(name)
        for log in (self._log, self._construction, *self._logs.values()):
            log.refresh()
        self._annotations = {name: log.current for name, log in self._logs.items()}
        found = consensus(
            self._project, self._annotations, self._construction.current, self._log.current
        )
        self._conflicts = {
            Item(query=one.query, document=one.document, kind=one.kind): one
            for one in found.conflicts
        }

    @property
    def relevance_level(self) -> int:
        """The lowest grade that counts as relevant."""
        return self._project.relevance_level

    @property
    def scale(self) -> Scale:
        """What was judged, and the grades it can have."""
        return self._project.scale

    @property
    def items(self) -> Sequence[Item]:
        """All conflicts, resolved ones too."""
        return list(self._conflicts)

    def has(self, item: Item) -> bool:
        """Tests whether there is such a conflict."""
        return item in self._conflicts

    def current_item(self) -> Item | None:
        """Returns the first open conflict; None where there is no conflict any more."""
        return self.next_open(None)

    def next_open(self, item: Item | None) -> Item | None:
        """Returns the first open conflict after `item`, else before it; `item` if all are
        resolved."""
        items = self.items
        at = items.index(item) if item is not None else -1
        left = (one for one in (*items[at + 1 :], *items[: at + 1]) if self._conflicts[one].open)
        return next(left, item or (items[-1] if items else None))

    def annotate(self, line: Annotation) -> None:
        """Resolves a conflict. Raises UsageError where there is no such conflict."""
        if not self.has(Item(query=line.query, document=line.document, kind=line.kind)):
            raise UsageError(f"no such conflict: {line.kind} of {line.query!r}")
        self._log.refresh()
        if not self._log.current.contains(line):
            self._log.append(msgspec.structs.replace(line, adjudicator=self.annotator))

    def undo(self, item: Item | None = None) -> Item | None:
        """Reverts the newest resolution; returns its item, None where there is nothing to
        revert."""
        self._log.refresh()
        if not self._log.current.undo_stack:
            return None
        line = self._log.current.undo_stack[-1]
        self._log.append(msgspec.structs.replace(line, adjudicator=self.annotator, undo=True))
        self.refresh()
        undone = Item(query=line.query, document=line.document, kind=line.kind)
        return undone if self.has(undone) else None

    def view(self, item: Item) -> ItemView:
        """Returns everything that is shown of a conflict."""
        project, conflict, query = self._project, self._conflicts[item], item.query
        items, record, resolved = self.items, self._project.query[item.query], self._log.current
        at, left = items.index(item), sum(one.open for one in self._conflicts.values())
        pair = (query, item.document)
        return ItemView(
            item=item,
            text=record.text,
            asked_at=format_time(record.timestamp),
            reference=reference(project, query),
            document=(
                document_view(project.document(query, item.document))
                if item.document is not None
                else None
            ),
            context=context(project, item),
            given_ability=None if record.ability == Ability.ABSTENTION else record.ability,
            votes=[Vote(annotator=name, value=value) for name, value in conflict.votes.items()],
            evidence=self._evidence(query) if item.kind == "unanswerable" else [],
            notes=[
                AnnotatorNote(annotator=name, note=own.notes[pair])
                for name, own in self._annotations.items()
                if pair in own.notes
            ],
            grade=(
                resolved.grades.get((query, item.document))
                if item.kind == "grade" and item.document is not None
                else None
            ),
            ability=resolved.abilities.get(query) if item.kind == "ability" else None,
            unanswerable=resolved.unanswerable.get(query) if item.kind == "unanswerable" else None,
            number=at + 1,
            done=len(items) - left,
            total=len(items),
            previous=items[max(at - 1, 0)],
            next=items[min(at + 1, len(items) - 1)],
            next_open=self.next_open(item) or item,
            can_undo=bool(resolved.undo_stack),
            choices=[conflict.kind],
        )

    def _evidence(self, query: str) -> list[Evidence]:
        """The documents that somebody graded as relevant, with everybody's grades."""
        found = []
        for candidate in self._project.candidates[query]:
            votes = _grades(self._annotations, query, candidate.document)
            if any(grade >= self.relevance_level for grade in votes.values()):
                document = document_view(self._project.document(query, candidate.document))
                cast = [Vote(annotator=name, value=grade) for name, grade in votes.items()]
                found.append(Evidence(document=document, votes=cast))
        return found


def _grades(annotators: dict[str, Annotations], query: str, document: str) -> dict[str, int]:
    pair = (query, document)
    return {name: own.grades[pair] for name, own in annotators.items() if pair in own.grades}
