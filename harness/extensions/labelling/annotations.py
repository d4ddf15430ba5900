"""Annotations of queries and documents: grades, abilities, notes, and marks of whole queries.

Each annotator has an append-only log, which is safe for concurrent processes and crashes.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from harness.errors import UsageError
from harness.io.files import fsync_path
from harness.io.records import Record, decode, encode
from harness.schema import Ability

_log = logging.getLogger(__name__)

GRADES = (0, 1, 2, 3)

MEANINGS = {
    0: ("not relevant", "not about the question"),
    1: ("related", "same topic, but no answer"),
    2: ("partial answer", "part of the answer, or an unclear answer"),
    3: ("answer", "answers the question"),
}
"""Name and meaning of each grade: the four levels of TREC's Deep Learning track."""


@dataclass(frozen=True)
class Scale:
    """What a project judges (a `document` or an `answer`), and the possible grades."""

    target: str
    meanings: Mapping[int, tuple[str, str]]

    def effect(self, grade: int, relevance_level: int) -> str:
        """Describes whether a grade makes a document evidence; empty for answers: their grade
        names are self-explanatory."""
        if self.target != "document":
            return ""
        return "counts as evidence" if grade >= relevance_level else "not evidence"

    def final_command(self, folder: object) -> str:
        """Returns the command that uses the finished annotations."""
        what = "label export" if self.target == "document" else "judge ANSWERS --human-labels"
        return f"harness {what} {folder}"


DOCUMENTS = Scale("document", MEANINGS)
ANSWERS = Scale(
    "answer",
    {
        0: (
            "wrong",
            "differs from the reference, is incomplete, or declines an answerable question",
        ),
        1: ("right", "agrees with the reference, in any words, or declines if there is none"),
    },
)

ABILITIES = {
    "l": (Ability.LOOKUP, "one document has the answer"),
    "m": (Ability.MULTI_HOP, "the answer needs several documents"),
    "t": (Ability.TEMPORAL, "the query asks when, how long, or in which order"),
    "k": (Ability.KNOWLEDGE_UPDATE, "the newest of several statements is the answer"),
}
"""The abilities that an annotator can choose, by key on the page."""

Pair = tuple[str, str]
"""Ids of a query and a document."""

Value = int | bool | str | None
Kind = Literal["grade", "ability", "unanswerable", "rejected", "note"]
KINDS: tuple[Kind, ...] = get_args(Kind)


class Annotation(Record):
    """One line of an annotation log, with one of grade, ability, unanswerable, rejected and note.

    A null, or an empty note, withdraws the value. A `rejected` query is not a usable question and
    is excluded from the dataset. `adjudicator` is the person who resolved a conflict. `undo` marks
    a line that reverts the newest one.
    """

    query: str
    document: str | None = None
    grade: Annotated[int, Meta(ge=0, le=3)] | UnsetType | None = UNSET
    ability: Ability | UnsetType | None = UNSET
    unanswerable: bool | UnsetType | None = UNSET
    rejected: bool | UnsetType | None = UNSET
    note: str | UnsetType = UNSET
    adjudicator: str | None = None
    undo: bool = False
    time: str | None = None

    def __post_init__(self) -> None:
        """Raises ValueError unless the line has exactly one value, and a valid one."""
        n = sum(getattr(self, kind) is not UNSET for kind in KINDS)
        if n != 1:
            raise ValueError(f"exactly one of {', '.join(KINDS)} is needed, not {n}")
        if self.kind == "grade" and self.document is None:
            raise ValueError("a grade needs a document")
        if self.ability is Ability.ABSTENTION:
            raise ValueError("abstention is not an ability to choose; mark it as unanswerable")

    @property
    def kind(self) -> Kind:
        """The kind of value that the line sets."""
        return next(kind for kind in KINDS if getattr(self, kind) is not UNSET)

    @property
    def value(self) -> Value:
        """The value that the line sets."""
        value: Value = getattr(self, self.kind)
        return value


@dataclass
class Annotations:
    """The current annotations of one annotator: the last line for each key.

    `undo_stack` has, for each line, oldest first, the line that reverts it.
    """

    grades: dict[Pair, int] = field(default_factory=dict)
    abilities: dict[str, Ability] = field(default_factory=dict)
    unanswerable: dict[str, bool] = field(default_factory=dict)
    rejected: dict[str, bool] = field(default_factory=dict)
    notes: dict[tuple[str, str | None], str] = field(default_factory=dict)
    undo_stack: list[Annotation] = field(default_factory=list)
    last: tuple[str, str | None] | None = None
    """Query of the newest line, and its document if any."""

    @property
    def queries(self) -> set[str]:
        """The queries that have a grade, an ability or a mark."""
        graded = (query for query, _ in self.grades)
        return {*self.unanswerable, *self.rejected, *self.abilities, *graded}

    def add(self, line: Annotation) -> None:
        """Applies one line."""
        values, key, empty = self._slot(line)
        revert: dict[str, Any] = {line.kind: values.get(key, empty)}
        if line.value == empty:
            values.pop(key, None)
        else:
            values[key] = line.value
        self.last = (line.query, line.document)
        if not line.undo:
            self.undo_stack.append(Annotation(query=line.query, document=line.document, **revert))
        elif self.undo_stack:
            self.undo_stack.pop()

    def contains(self, line: Annotation) -> bool:
        """Tests whether the line would change nothing."""
        values, key, empty = self._slot(line)
        return bool(values.get(key, empty) == line.value)

    def _slot(self, line: Annotation) -> tuple[dict[Any, Any], Any, str | None]:
        """Returns the values that a line changes, its key there, and the value that withdraws."""
        if line.kind == "grade":
            return self.grades, (line.query, line.document), None
        if line.kind == "note":
            return self.notes, (line.query, line.document), ""
        marks = self.unanswerable if line.kind == "unanswerable" else self.rejected
        return self.abilities if line.kind == "ability" else marks, line.query, None


class AnnotationLog:
    """The annotations in one file, one JSON line each. The file may not exist yet.

    A line counts only once it is on disk. Several processes may write to the file (two pages): each
    write holds a lock. A crash can cut off only the last line, which was never acknowledged; it
    is dropped with a warning. A damaged line elsewhere is an error.

    `current` are the annotations after all lines; `append` and `refresh` include the lines of other
    processes.
    """

    current: Annotations
    lines: list[Annotation]

    def __init__(self, path: Path) -> None:
        """Reads the file. Raises UsageError, with the line number, for a damaged line."""
        self.path = path
        self.current, self.lines = Annotations(), []
        self._whole = b""  # valid content of the file
        self.refresh()
        if path.exists() and path.stat().st_size > len(self._whole):
            _log.warning("%s: its last line was cut off and is dropped", path)

    def append(self, *lines: Annotation) -> None:
        """Adds lines, with the time, and syncs them to disk. Raises OSError."""
        from filelock import FileLock

        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = not self.path.exists()
        with FileLock(self.path.with_name(f".{self.path.name}.lock")):
            self.refresh()
            time = datetime.now(UTC).isoformat(timespec="milliseconds")
            data = b"".join(encode(replace(line, time=time)) + b"\n" for line in lines)
            with open(self.path, "r+b" if self.path.exists() else "xb") as file:
                file.truncate(len(self._whole))  # removes an incomplete line
                file.seek(len(self._whole))
                file.write(data if self._whole.endswith(b"\n") or not self._whole else b"\n" + data)
                file.flush()
                os.fsync(file.fileno())
            if new:
                fsync_path(self.path.parent)
            self.refresh()

    def refresh(self) -> None:
        """Reads the file again if this or another process changed it."""
        data = self.path.read_bytes() if self.path.exists() else b""
        if data == self._whole:
            return
        self.current, self.lines, self._whole = Annotations(), [], data
        texts = data.split(b"\n")
        for number, text in enumerate(texts, 1):
            if not text.strip():
                continue
            where = f"{self.path}, line {number}"
            try:
                line = decode(text, Annotation, where, "correct the line or delete it")
            except UsageError:
                if number < len(texts):
                    raise
                self._whole = data.removesuffix(text)
                break
            self.current.add(line)
            self.lines.append(line)
