"""Adapter of the shipped conversations (`sample`, `changes`): JSON files, one per person.

A file has `user`, `sessions` (each with an id, a date and turns `[speaker, text]`), `questions` and
optionally `changes`. A place is `[session, turn]`, with turns counted from 0.
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
"""Document row of each place."""


class ShippedTalks:
    """Adapter of a shipped benchmark of conversations.

    `grades` maps the lists of places in a question to grades. `has_changes` is true if the files
    list changes.
    """

    shipped: ClassVar[Path]
    published: ClassVar[Variant]
    grades: ClassVar[Mapping[str, int]] = {"evidence": 1}
    has_changes: ClassVar[bool] = False

    def variants(self) -> Iterable[Variant]:
        """Returns the only variant."""
        return (self.published,)

    def find_files(
        self, source: Path, variant: Variant, config: DatasetConfig
    ) -> Mapping[str, Path]:
        """Finds the JSON files of a folder, or a single file. Raises UsageError."""
        files = [source] if source.is_file() else sorted(source.glob("*.json"))
        if not files:
            raise UsageError(f"{source}: no .json file in this folder; pass a folder that has them")
        return {path.name: path for path in files}

    def convert(self, raw: SourceFiles, config: DatasetConfig, out: DatasetWriter) -> None:
        """Writes one haystack per person, the changes, and the questions.

        Raises UsageError for a missing field, an invalid date or an unknown place.
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
    """Parses a place. Raises UsageError if it is invalid."""
    if not isinstance(given, list) or given not in map(list, rows):
        raise UsageError(f"{where}: the {name} {given!r} is not a turn; write [session, turn]")
    return given[0], given[1]


def _write_sessions(
    record: Any, path: Path, config: DatasetConfig, out: DatasetWriter
) -> tuple[Rows, dict[str, int]]:
    """Writes the sessions or their turns; returns rows by place, and dates of sessions."""
    rows: Rows = {}
    dates: dict[str, int] = {}
    dated = config.text == "dated"
    for number, session in enumerate(field(record, "sessions", list, str(path))):
        where = f"{path}: session {number}"
        turns = _turns(session, where)
        id_, date = field(session, "id", str, where), _date(session, where)
        if id_ in dates:
            raise UsageError(f"{path}: duplicate session id {id_!r}; rename one")
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
    """Yields speaker and text of each turn. Raises UsageError."""
    turns: list[tuple[str, str]] = []
    for position, turn in enumerate(field(session, "turns", list, where)):
        match turn:
            case [str(speaker), str(text)]:
                turns.append((speaker, text))
            case _:
                raise UsageError(f"{where}: turn {position} is not [speaker, text]; correct it")
    return turns


def _write_question(record: Any, person: str, out: DatasetWriter, where: str) -> str:
    """Writes a question without judgements; returns its id. Raises UsageError."""
    ability = field(record, "ability", str, where)
    if ability not in list(Ability):
        raise UsageError(f"{where}: ability {ability!r} is not one of {', '.join(Ability)}")
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
    """Parses the `date` of a record. Raises UsageError."""
    written = field(record, "date", str, where)
    try:
        return timestamp(datetime.strptime(written, "%Y-%m-%d %H:%M"))
    except ValueError:
        raise UsageError(
            f"{where}: the date {written!r} is invalid; write it like 2024-01-31 18:05"
        ) from None
