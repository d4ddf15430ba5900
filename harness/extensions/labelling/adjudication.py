"""Adjudication: resolves conflicts, with the annotators' votes side by side.

The page is that of an annotator's session; resolutions are written to adjudications.jsonl.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from harness.errors import UsageError
from harness.extensions.labelling.annotations import Annotation, AnnotationLog, Annotations
from harness.extensions.labelling.consensus import Conflict, read_consensus
from harness.extensions.labelling.session import (
    Item,
    ItemView,
    JudgingSession,
    Mode,
)
from harness.extensions.labelling.views import document_view


class Adjudication(JudgingSession):
    """The conflicts of a project, resolved by one person."""

    mode: Mode = "adjudicate"

    def __init__(self, folder: Path, adjudicator: str) -> None:
        """Raises UsageError for a folder that is not a project, or has no conflict."""
        super().__init__(folder, adjudicator)
        self._conflicts: dict[Item, Conflict] = {}
        self.refresh()
        if not self._conflicts:
            n = len(self.project.annotators())
            raise UsageError(
                f"{folder}: no conflicts; "
                + ("only one annotator has judged" if n == 1 else f"{n} annotators have judged")
            )

    def _open_log(self) -> AnnotationLog:
        return self.project.adjudication_log()

    def refresh(self) -> None:
        """Reads new annotations and resolutions."""
        self._log.refresh()
        self._annotators = self.project.annotations()
        found = read_consensus(self.project, self._annotators)
        self._conflicts = {
            Item(query=one.query, document=one.document, kind=one.kind): one
            for one in found.conflicts
        }
        self._set_items(list(self._conflicts))

    @property
    def note_logs(self) -> Mapping[str, Annotations]:
        """The annotations, by annotator, whose notes this person may read: all."""
        return self._annotators

    def is_done(self, item: Item) -> bool:
        """Tests whether a conflict is resolved."""
        return not self._conflicts[item].open

    def item_of(self, line: Annotation) -> Item:
        """Returns the conflict that a line resolves."""
        return Item(query=line.query, document=line.document, kind=line.kind)

    def check(self, line: Annotation) -> None:
        """Raises UsageError if there is no such conflict."""
        if not self.has(self.item_of(line)):
            raise UsageError(f"no such conflict: {line.kind} of {line.query!r}")

    def write(self, line: Annotation) -> None:
        """Adds a line to the log, with the adjudicator's name."""
        super().write(replace(line, adjudicator=self.annotator))

    def view(self, item: Item) -> ItemView:
        """Returns everything that is shown of a conflict."""
        conflict, pair = self._conflicts[item], (item.query, item.document)
        shared = super().view(item)
        return replace(
            shared,
            votes=[{"annotator": name, "value": value} for name, value in conflict.votes.items()],
            evidence=self._evidence(item.query) if item.kind == "unanswerable" else [],
            notes=[
                {"annotator": name, "note": own.notes[pair]}
                for name, own in self._annotators.items()
                if pair in own.notes
            ],
            grade=shared.grade if item.kind == "grade" else None,
            ability=shared.ability if item.kind == "ability" else None,
            unanswerable=shared.unanswerable if item.kind == "unanswerable" else None,
            rejected=shared.rejected if item.kind == "rejected" else None,
            choices=[conflict.kind],
        )

    def _evidence(self, query: str) -> list[dict[str, object]]:
        """Returns the documents that an annotator graded as relevant, with all grades."""
        found: list[dict[str, object]] = []
        for candidate in self.project.candidates[query]:
            pair = (query, candidate.document)
            judged = {name: own.grades.get(pair) for name, own in self._annotators.items()}
            grades = {name: grade for name, grade in judged.items() if grade is not None}
            if any(grade >= self.project.settings.relevance_level for grade in grades.values()):
                votes = [{"annotator": name, "value": grade} for name, grade in grades.items()]
                document = document_view(self.project.document(*pair))
                found.append({"document": document, "votes": votes})
        return found
