"""Settling conflicts: what each annotator said side by side, and one answer to each.

The same faces serve it as serve an annotator; what is settled goes into resolved.jsonl.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.labelling.annotating import NOBODY, around, reference, said_time, shown
from harness.labelling.consensus import Conflict, consensus
from harness.labelling.folder import CONSTRUCTION, Journal, Project, annotator_name
from harness.labelling.records import Line, Scale, check
from harness.schema import Ability

Place = tuple[str, str, str | None]
"""Kind of a conflict, query and document."""


class Resolving:
    """The conflicts of a project, and their settlement by one person. Not safe for threads."""

    mode = "resolve"

    def __init__(self, folder: Path, by: str) -> None:
        """Raises UsageError for a folder that is no project, or has no conflict."""
        self.folder, self.annotator = folder, annotator_name(by)
        self._project = Project.read(folder)
        self._journal = self._project.resolved()
        self._built = self._project.journal(CONSTRUCTION)
        self._journals: dict[str, Journal] = {}
        self._conflicts: dict[Place, Conflict] = {}
        self.refresh()
        if not self._conflicts:
            n = len(self._project.annotators())
            raise UsageError(
                f"{folder}: no conflict to resolve; "
                + ("only one annotator has judged" if n == 1 else f"{n} annotators have judged")
            )

    def refresh(self) -> None:
        """Take in what was judged and settled since."""
        for name in self._project.annotators():
            self._journals.setdefault(name, self._project.journal(name))
        for journal in (self._journal, self._built, *self._journals.values()):
            journal.refresh()
        self._held = {name: journal.held for name, journal in self._journals.items()}
        found = consensus(self._project, self._held, self._built.held, self._journal.held)
        self._conflicts = {(one.kind, one.query, one.document): one for one in found.conflicts}

    @property
    def relevant_from(self) -> int:
        """The grade from which on a document counts as evidence."""
        return self._project.relevant_from

    @property
    def scale(self) -> Scale:
        """What was judged, and the grades it can have."""
        return self._project.scale

    @property
    def places(self) -> list[Place]:
        """All conflicts, those that are settled too."""
        return list(self._conflicts)

    def here(self) -> Place | None:
        """The first open conflict; None where there is no conflict any more."""
        return self.next_left(None)

    def next_left(self, place: Place | None) -> Place | None:
        """The first open conflict behind `place`, or before it; `place` where all are settled."""
        places = self.places
        at = places.index(place) if place is not None else -1
        around = (*places[at + 1 :], *places[: at + 1])
        left = (one for one in around if self._conflicts[one].open)
        return next(left, place or (places[-1] if places else None))

    def known(self, ids: Mapping[str, Any]) -> Place | None:
        """The place with these ids, if there is such a conflict."""
        place = (ids.get("kind"), ids.get("query"), ids.get("document"))
        return place if place in self._conflicts else None

    def judge(self, line: Line) -> None:
        """Settle a conflict. Raises UsageError for a line that is none, or settles nothing here."""
        try:
            check(line)
        except ValueError as error:
            raise UsageError(f"not a judgement: {error}") from None
        kind = next(name for name in ("grade", "unanswerable", "ability", "note") if name in line)
        if (kind, line["query"], line.get("document")) not in self._conflicts:
            raise UsageError(f"no such conflict: {kind} of {line['query']!r}")
        self._journal.refresh()
        if not self._journal.held.says(line):
            self._journal.append({**line, "by": self.annotator})

    def undo(self, here: Place | None = None) -> Place | None:
        """Take the newest settlement back; its place, or None where there is nothing to take."""
        self._journal.refresh()
        undoable = self._journal.held.undoable
        if not undoable:
            return None
        line = undoable[-1]
        self._journal.append({**line, "by": self.annotator, "undo": True})
        self.refresh()
        kind = next(name for name in ("grade", "unanswerable", "ability") if name in line)
        return self.known({**line, "kind": kind})

    def view(self, place: Place) -> dict[str, Any]:
        """Everything that is shown of a conflict."""
        kind, query, document = place
        conflict, record = self._conflicts[place], self._project.query[query]
        places = self.places
        at = places.index(place)
        left = sum(one.open for one in self._conflicts.values())
        return {
            "kind": kind,
            "query": query,
            "document": document,
            "text": record["text"],
            "asked": said_time(record.get("timestamp")),
            "reference": reference(self._project, query),
            "shown": None if document is None else shown(self._project, query, document),
            "around": NOBODY if document is None else around(self._project, query, document),
            "own_ability": None if (own := record.get("ability")) == Ability.ABSTENTION else own,
            "said": [{"who": who, "value": value} for who, value in conflict.said.items()],
            "evidence": self._evidence(query) if kind == "unanswerable" else [],
            "notes": [
                {"who": who, "note": held.notes[query, document]}
                for who, held in self._held.items()
                if (query, document) in held.notes
            ],
            "grade": conflict.settled if kind == "grade" else None,
            "ability": conflict.settled if kind == "ability" else None,
            "unanswerable": conflict.settled if kind == "unanswerable" else None,
            "number": at + 1,
            "done": len(places) - left,
            "total": len(places),
            "previous": _ids(places[max(at - 1, 0)]),
            "next": _ids(places[min(at + 1, len(places) - 1)]),
            "then": _ids(self.next_left(place) or place),
            "undoable": bool(self._journal.held.undoable),
            "choices": [kind],
        }

    def _evidence(self, query: str) -> list[dict[str, Any]]:
        """The documents that somebody graded relevant, with who gave what."""
        found = []
        for candidate in self._project.candidates[query]:
            pair = (query, candidate.document)
            said = {
                who: held.grades[pair] for who, held in self._held.items() if pair in held.grades
            }
            if any(grade >= self.relevant_from for grade in said.values()):
                words = [{"who": who, "value": grade} for who, grade in said.items()]
                found.append(
                    {"shown": shown(self._project, query, candidate.document), "said": words}
                )
        return found


def _ids(place: Place) -> dict[str, str | None]:
    return {"kind": place[0], "query": place[1], "document": place[2]}
