"""One person's talks with an assistant, as JSON: the adapter of what `sample` and `changes` ship.

A file has `user`, `sessions` (each with an id, a date and its turns `[speaker, text]`) and
`questions`, and maybe `changes`. A place is `[session, turn]`, the turn counted from 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from harness.datasets.adapter import DatasetConfig, SourceFiles, Variant
from harness.datasets.adapters.raw_files import dated_session, dated_turn, field, read_once
from harness.errors import UsageError
from harness.schema import Ability, Change, timestamp

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter

Rows = dict[tuple[str, int], int]
"""The document's row of each place."""


class ShippedTalks:
    """The adapter of a benchmark of talks that ships with the harness.

    `grades`: the lists of places in a question, and the grade of what stands there. `has_changes`:
    whether a file says what of it stopped to hold.
    """

    shipped: ClassVar[Path]
    published: ClassVar[Variant]
    grades: ClassVar[Mapping[str, int]] = {"evidence": 1}
    has_changes: ClassVar[bool] = False

    def variants(self) -> Iterable[Variant]:
        """The one dataset there is."""
        return (self.published,)

    def find_files(
        self, source: Path, variant: Variant, config: DatasetConfig
    ) -> Mapping[str, Path]:
        """The JSON files of a folder, or the one that is named. Raises UsageError."""
        files = [source] if source.is_file() else sorted(source.glob("*.json"))
        if not files:
            raise UsageError(f"{source}: no .json file in this folder; name one that has them")
        return {path.name: path for path in files}

    def convert(self, raw: SourceFiles, config: DatasetConfig, out: DatasetWriter) -> None:
        """Write one haystack a person, the changes, and the questions.

        Raises UsageError for a field that is missing, a bad date, and a place that is not there.
        """
        for path in raw.files.values():
            self._write_person(read_once(path), path, config, out)

    def _write_person(
        self, record: Any, path: Path, config: DatasetConfig, out: DatasetWriter
    ) -> None:
        person = field(record, "user", str, str(path))
        rows, dates = _write_sessions(record, path, config, out)
        out.haystack(person, list(dict.fromkeys(rows.values())))
        changes = field(record, "changes", list, str(path)) if self.has_changes else ()
        for number, change in enumerate(changes):
            where = f"{path}: change {number}"
            document, by = (
                _place(field(change, name, list, where), rows, name, where)
                for name in ("document", "by")
            )
            kind = field(change, "kind", str, where)
            old, new = (f"{session}_{turn}" for session, turn in (document, by))
            out.change(Change(person, kind, old, dates[by[0]], new), where)
        for number, question in enumerate(field(record, "questions", list, str(path))):
            where = f"{path}: question {number}"
            query = _write_question(question, person, out, where)
            for name, grade in self.grades.items():
                given = field(question, name, list, where)
                places = [_place(place, rows, name, where) for place in given]
                for row in dict.fromkeys(rows[place] for place in places):
                    out.qrel(query, row, grade)


def _place(given: Any, rows: Rows, name: str, where: str) -> tuple[str, int]:
    """A place as it is written. Raises UsageError for one that is none."""
    if not isinstance(given, list) or given not in map(list, rows):
        raise UsageError(f"{where}: the {name} {given!r} is no turn; write [session, turn]")
    return given[0], given[1]


def _write_sessions(
    record: Any, path: Path, config: DatasetConfig, out: DatasetWriter
) -> tuple[Rows, dict[str, int]]:
    """Write the sessions or their turns; returns the rows by place, and the sessions' dates."""
    rows: Rows = {}
    dates: dict[str, int] = {}
    dated = config.text == "dated"
    for number, session in enumerate(field(record, "sessions", list, str(path))):
        where = f"{path}: session {number}"
        turns = _turns(session, where)
        id_, date = field(session, "id", str, where), _date(session, where)
        if id_ in dates:
            raise UsageError(f"{path}: two sessions are called {id_!r}; rename one")
        dates[id_] = date
        if config.granularity == "session":
            plain = "\n".join(f"{speaker}: {text}" for speaker, text in turns)
            text = dated_session(date, turns) if dated else plain
            row = out.document(id_, text, timestamp=date, session=id_)
            rows.update(((id_, position), row) for position in range(len(turns)))
            continue
        for position, (speaker, said) in enumerate(turns):
            rows[id_, position] = out.document(
                f"{id_}_{position}",
                dated_turn(date, speaker, said) if dated else said,
                timestamp=date,
                session=id_,
                speaker=speaker,
                position=position,
            )
    return rows, dates


def _turns(session: Any, where: str) -> list[tuple[str, str]]:
    """Speaker and text of each turn. Raises UsageError."""
    turns: list[tuple[str, str]] = []
    for position, turn in enumerate(field(session, "turns", list, where)):
        match turn:
            case [str(speaker), str(text)]:
                turns.append((speaker, text))
            case _:
                raise UsageError(f"{where}: turn {position} is not [speaker, text]; correct it")
    return turns


def _write_question(record: Any, person: str, out: DatasetWriter, where: str) -> str:
    """Write a question, without judgements; returns its id. Raises UsageError."""
    ability = field(record, "ability", str, where)
    if ability not in list(Ability):
        raise UsageError(f"{where}: the ability {ability!r} is none of {', '.join(Ability)}")
    id_ = field(record, "id", str, where)
    out.query(
        id_,
        field(record, "question", str, where),
        person,
        ability=Ability(ability),
        category=field(record, "category", str, where),
        timestamp=_date(record, where),
        answers=field(record, "answers", list, where),
    )
    return id_


def _date(record: Any, where: str) -> int:
    """The timestamp of a record's `date`. Raises UsageError when it does not parse."""
    written = field(record, "date", str, where)
    try:
        return timestamp(datetime.strptime(written, "%Y-%m-%d %H:%M"))
    except ValueError:
        raise UsageError(
            f"{where}: the date {written!r} does not parse; write it like 2024-01-31 18:05"
        ) from None
