"""One annotator at work: what is asked in which order, what is shown, and what a key press does.

The page and the terminal are two faces of this. Everything that counts is on the disk: a session
that begins again stands where the last one ended.

Queries come in one random order for everybody, so that those that were judged when somebody stops
are a random sample of all; a share of them, the first ones, is everybody's. A query of the rest
belongs to who judges it first. The documents of a query come in an order of each annotator's own,
which says nothing of systems and ranks. All orders come from the project's seed and the ids alone:
they hold from one day to the next, and what is added later falls in between.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.errors import UsageError
from harness.labelling.folder import CONSTRUCTION, Journal, Project, annotator_name
from harness.labelling.records import Judgements, Line, Scale, check
from harness.schema import Ability, as_datetime

Place = tuple[str, str | None]
"""A query, and the document to be judged for it; None for a query without any."""

AROUND = 2
"""How many turns are shown before and after the one that is judged."""

NOBODY: dict[str, list[dict[str, Any]]] = {"before": [], "after": []}

SHOWN = ("title", "timestamp", "speaker", "session")
"""What is shown of a document beside its text."""


def query_order(project: Project) -> list[str]:
    """All queries, in the project's random order."""
    return sorted(project.query, key=lambda query: _number(project.seed, "queries", query))


def shared_queries(project: Project) -> list[str]:
    """The queries that every annotator judges."""
    ordered = query_order(project)
    return ordered[: math.ceil(len(ordered) * float(project.settings.get("overlap", 1.0)))]


def worklist(
    project: Project, annotator: str, own: Judgements, others: Iterable[Judgements]
) -> list[Place]:
    """Everything that `annotator` is asked, in order; `own` is what was judged, `others` by others.

    What construction judged is left out, and so is a query outside the shared ones that another
    annotator has begun, and this one has not.
    """
    shared = shared_queries(project)
    rest = [query for query in query_order(project) if query not in set(shared)]
    if rest:
        taken = {query for held in others for query in touched(held)} - touched(own)
        rest = [query for query in rest if query not in taken]
        rest.sort(key=lambda query: _number(project.seed, annotator, query))
    built = project.journal(CONSTRUCTION).held.grades
    places: list[Place] = []
    for query in (*shared, *rest):
        candidates = project.candidates[query]
        asked = [c.document for c in candidates if (query, c.document) not in built]
        asked.sort(key=lambda document: _number(project.seed, annotator, query, document))
        places += [(query, document) for document in asked]
        if not candidates:
            places.append((query, None))
    return places


def touched(held: Judgements) -> set[str]:
    """Queries of which something was judged."""
    return {query for query, _ in held.grades} | set(held.unanswerable) | set(held.abilities)


def is_done(place: Place, held: Judgements) -> bool:
    """Whether nothing more is asked there: it was graded, or its query cannot be answered."""
    query, document = place
    if held.unanswerable.get(query):
        return True
    if document is None:
        return query in held.unanswerable
    return (query, document) in held.grades


def _number(seed: int, *names: str) -> bytes:
    """A number as good as random, for sorting by."""
    return hashlib.blake2b("\0".join((str(seed), *names)).encode(), digest_size=8).digest()


class Annotating:
    """The work of one annotator on one project. Not safe for threads: hold a lock."""

    mode = "label"

    def __init__(self, folder: Path, annotator: str) -> None:
        """Raises UsageError for a folder that is no project and a name that cannot be."""
        self.folder, self.annotator = folder, annotator_name(annotator)
        self._project = Project.read(folder)
        self._stamp = self._pool_stamp()
        self._journal = self._project.journal(annotator)
        self._others: dict[str, Journal] = {}
        self._known: tuple[Any, ...] = ()
        self._places: list[Place] = []
        self._index: dict[Place, int] = {}
        self.refresh()
        if not self._places:
            raise UsageError(
                f"{folder}: there is nothing to judge for {annotator}: every candidate was judged "
                "by construction, or by another annotator; `harness label status` tells"
            )

    def refresh(self) -> None:
        """Take in what others wrote: another tab, another annotator, `label start`."""
        stamp = self._pool_stamp()
        if stamp != self._stamp:
            self._project, self._stamp = Project.read(self.folder), stamp
        self._journal.refresh()
        if len(shared_queries(self._project)) < len(self._project.query):
            for name in self._project.annotators():
                if name != self.annotator:
                    self._others.setdefault(name, self._project.journal(name)).refresh()
        others = [journal.held for journal in self._others.values()]
        own = len(touched(self.held)) if others else 0
        known = (stamp, own, *(len(journal.lines) for journal in self._others.values()))
        if known != self._known:
            self._places = worklist(self._project, self.annotator, self.held, others)
            self._index = {place: at for at, place in enumerate(self._places)}
            self._known = known

    @property
    def relevant_from(self) -> int:
        """The grade from which on a document counts as evidence."""
        return self._project.relevant_from

    @property
    def scale(self) -> Scale:
        """What is judged, and the grades it can have."""
        return self._project.scale

    @property
    def held(self) -> Judgements:
        """What was judged so far."""
        return self._journal.held

    @property
    def places(self) -> list[Place]:
        """Everything that is asked, in order."""
        return self._places

    def here(self) -> Place | None:
        """Where the work goes on: at the first place that is left behind the newest judgement."""
        last = self.held.last
        if last is not None and last[1] is None and last not in self._index:
            last = next((place for place in self._places if place[0] == last[0]), None)
        return self.next_left(last if last in self._index else None)

    def next_left(self, place: Place | None) -> Place:
        """The first place that is left behind `place`, or before it; `place` where all is done."""
        at = -1 if place is None else self._index[place]
        around = (*self._places[at + 1 :], *self._places[: at + 1])
        left = (one for one in around if not is_done(one, self.held))
        return next(left, place or self._places[-1])

    def step(self, place: Place, by: int) -> Place:
        """The place `by` steps further on or back, at most the last or the first."""
        at = min(max(self._index[place] + by, 0), len(self._places) - 1)
        return self._places[at]

    def known(self, ids: Mapping[str, Any]) -> Place | None:
        """The place with these ids, if it is asked."""
        place = (ids.get("query"), ids.get("document"))
        return place if place in self._index else None

    def judge(self, line: Line) -> None:
        """Put a judgement on the disk. Raises UsageError for one that is none, or of nothing here.

        Raises OSError where the disk refuses it; then nothing is taken in.
        """
        try:
            check(line)
        except ValueError as error:
            raise UsageError(f"not a judgement: {error}") from None
        query, document = line["query"], line.get("document")
        candidates = self._project.candidates.get(query)
        if candidates is None or (
            document is not None and document not in {one.document for one in candidates}
        ):
            raise UsageError(f"not in the pool: query {query!r}, document {document!r}")
        if line.get("grade") not in (None, *self.scale.meanings):
            raise UsageError(f"an {self.scale.thing} cannot have the grade {line['grade']}")
        self._journal.refresh()
        if not self.held.says(line):  # a page that got no answer sends its line again
            self._journal.append(line)

    def undo(self, here: Place | None = None) -> Place | None:
        """Take the newest judgement back; its place, or None where there is nothing to take.

        What was said of a query as a whole is taken back at `here`, if that is of the query.
        """
        self._journal.refresh()
        if not self.held.undoable:
            return None
        line = self.held.undoable[-1]
        self._journal.append({**line, "undo": True})
        place = (line["query"], line.get("document"))
        if place in self._index:
            return place
        if here is not None and here[0] == place[0]:
            return here
        return next((one for one in self._places if one[0] == line["query"]), None)

    def view(self, place: Place) -> dict[str, Any]:
        """Everything that is shown at a place; nothing of systems, ranks and other annotators."""
        query, document = place
        project, held = self._project, self.held
        record = project.query[query]
        mates = [one for one in self._places if one[0] == query]
        left = [one for one in self._places if not is_done(one, held)]
        numbers = {
            query: at for at, query in enumerate(dict.fromkeys(q for q, _ in self._places), 1)
        }
        own = record.get("ability")
        return {
            "query": query,
            "document": document,
            "text": record["text"],
            "asked": said_time(record.get("timestamp")),
            "reference": reference(project, query),
            "shown": None if document is None else shown(project, query, document),
            "around": NOBODY if document is None else around(project, query, document),
            "grade": None if document is None else held.grades.get((query, document)),
            "ability": held.abilities.get(query),
            "own_ability": None if own == Ability.ABSTENTION else own,
            "unanswerable": held.unanswerable.get(query),
            "note": held.notes.get(place, ""),
            "mates": [
                {**_ids(one), "grade": held.grades.get((query, one[1])) if one[1] else None}
                for one in mates
            ],
            "at": mates.index(place),
            "number": numbers[query],
            "queries": len(numbers),
            "done": len(self._places) - len(left),
            "total": len(self._places),
            "warning": self._warning(query),
            "previous": _ids(self.step(place, -1)),
            "next": _ids(self.step(place, 1)),
            "then": _ids(self.next_left(place)),
            "undoable": bool(held.undoable),
            "choices": self.choices(place),
        }

    def choices(self, place: Place) -> list[str]:
        """What can be said there: grade, ability, unanswerable, note."""
        if self.scale.thing == "answer":
            return ["grade", "note"]
        return [*(["grade"] if place[1] is not None else []), "unanswerable", "ability", "note"]

    def _warning(self, query: str) -> str:
        """Says so where what was judged of a query contradicts itself."""
        if not self.held.unanswerable.get(query):
            return ""
        documents = [candidate.document for candidate in self._project.candidates[query]]
        grades = self.held.of_query(query, documents).values()
        least = self._project.relevant_from
        n = sum(grade >= least for grade in grades)
        if not n:
            return ""
        return (
            f"You marked this query as not to be answered, but gave {n} of its documents a grade "
            f"of {least} or more, which counts as evidence. Take the mark back, or grade them 0."
        )

    def _pool_stamp(self) -> tuple[int, ...]:
        names = ("label.json", "pool.jsonl", "judgements/construction.jsonl")
        paths = [self.folder / name for name in names]
        return tuple(path.stat().st_mtime_ns if path.exists() else 0 for path in paths)


def reference(project: Project, query: str) -> str | None:
    """What answers to a query are held against; None where documents are judged."""
    if project.scale.thing != "answer":
        return None
    answers = project.query[query].get("answers")
    return " / ".join(answers) if answers else "nothing that was said answers this: to decline"


def shown(project: Project, query: str, document: str) -> dict[str, Any]:
    """What is shown of a document: its text, and of SHOWN what it has."""
    return _shown(project.document(query, document))


def _shown(record: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: record[name] for name in SHOWN if record.get(name) not in (None, "")}
    if "timestamp" in found:
        found["timestamp"] = said_time(found["timestamp"])
    return {**found, "text": record["text"]}


def around(project: Project, query: str, document: str) -> dict[str, list[dict[str, Any]]]:
    """What was said right before and after a document in its session, as it is shown: by time where
    all have one that can be ordered, else as the documents came. None where it names no session.

    Nothing is told of which of them are in the pool, or were judged.
    """
    mates = project.session(project.document(query, document))
    at = next((i for i, one in enumerate(mates) if one["id"] == document), 0)
    before, after = mates[max(at - AROUND, 0) : at], mates[at + 1 : at + 1 + AROUND]
    return {"before": list(map(_shown, before)), "after": list(map(_shown, after))}


def said_time(value: Any) -> str | None:
    """A time as people read it: seconds since 1970 as date and hour, a text as it stands."""
    if value is None or value == "":
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return as_datetime(value).isoformat(" ", "minutes")
        except (ValueError, OverflowError, OSError):
            return str(value)
    return str(value).replace("T", " ")


def _ids(place: Place) -> dict[str, str | None]:
    return {"query": place[0], "document": place[1]}
