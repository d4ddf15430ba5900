"""One person's talks with an assistant, as JSON: the form of what `sample` and `changes` ship.

A file has `user`, `sessions` (each with an id, a date and its turns `[speaker, text]`) and
`questions`. A place is `[session, turn]`, the turn counted from 0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.datasets.adapter import DatasetConfig
from harness.datasets.adapters.raw_files import dated_session, dated_turn, field
from harness.errors import UsageError
from harness.schema import Ability, Document, timestamp

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter


@dataclass(frozen=True)
class WrittenTalks:
    """Where a person's talks were written: the document's row and id of each place."""

    rows: Mapping[tuple[str, int], int]
    ids: Mapping[tuple[str, int], str]
    dates: Mapping[str, int]

    def places(self, record: Any, name: str, where: str) -> list[tuple[str, int]]:
        """The places in the list `name` of a record. Raises UsageError for one that is none."""
        return [self.place(given, name, where) for given in field(record, name, list, where)]

    def place(self, given: Any, name: str, where: str) -> tuple[str, int]:
        """A place as it is written. Raises UsageError for one that is none."""
        if not isinstance(given, list) or given not in map(list, self.rows):
            raise UsageError(f"{where}: the {name} {given!r} is no turn; write [session, turn]")
        return given[0], given[1]


@dataclass(frozen=True)
class _TalkSession:
    """One session. `turns` are (speaker, text)."""

    id: str
    date: int
    turns: list[tuple[str, str]]

    def documents(self, config: DatasetConfig) -> Iterator[Document]:
        """The session itself, or one document for each of its turns."""
        dated = config.text == "dated"
        if config.granularity == "session":
            plain = "\n".join(f"{speaker}: {text}" for speaker, text in self.turns)
            text = dated_session(self.date, self.turns) if dated else plain
            yield Document(self.id, text, timestamp=self.date, session=self.id)
            return
        for position, (speaker, said) in enumerate(self.turns):
            text = dated_turn(self.date, speaker, said) if dated else said
            yield Document(f"{self.id}_{position}", text, "", self.date, self.id, speaker, position)


def find_files(source: Path) -> Mapping[str, Path]:
    """The JSON files of a folder, or the one that is named. Raises UsageError."""
    files = [source] if source.is_file() else sorted(source.glob("*.json"))
    if not files:
        raise UsageError(f"{source}: no .json file in this folder; name one that has them")
    return {path.name: path for path in files}


def write_talks(record: Any, path: Path, config: DatasetConfig, out: DatasetWriter) -> WrittenTalks:
    """Write a person's sessions as documents, and the haystack of them. Raises UsageError."""
    written: dict[str, int] = {}
    rows: dict[tuple[str, int], int] = {}
    ids: dict[tuple[str, int], str] = {}
    dates: dict[str, int] = {}
    for number, session in enumerate(field(record, "sessions", list, str(path))):
        talk = _session(session, f"{path}: session {number}")
        for document in talk.documents(config):
            if document.id in written:
                raise UsageError(f"{path}: two sessions are called {talk.id!r}; rename one")
            written[document.id] = out.document(
                document.id,
                document.text,
                timestamp=document.timestamp,
                session=document.session,
                speaker=document.speaker,
                position=document.position,
            )
        dates[talk.id] = talk.date
        for position in range(len(talk.turns)):
            of_turn = config.granularity == "turn"
            id_ = ids[talk.id, position] = f"{talk.id}_{position}" if of_turn else talk.id
            rows[talk.id, position] = written[id_]
    out.haystack(field(record, "user", str, str(path)), list(written.values()))
    return WrittenTalks(rows, ids, dates)


def write_question(record: Any, person: str, out: DatasetWriter, where: str) -> str:
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


def _session(record: Any, where: str) -> _TalkSession:
    turns: list[tuple[str, str]] = []
    for position, turn in enumerate(field(record, "turns", list, where)):
        match turn:
            case [str(speaker), str(text)]:
                turns.append((speaker, text))
            case _:
                raise UsageError(f"{where}: turn {position} is not [speaker, text]; correct it")
    return _TalkSession(field(record, "id", str, where), _date(record, where), turns)


def _date(record: Any, where: str) -> int:
    """The timestamp of a record's `date`. Raises UsageError when it does not parse."""
    written = field(record, "date", str, where)
    try:
        return timestamp(datetime.strptime(written, "%Y-%m-%d %H:%M"))
    except ValueError:
        raise UsageError(
            f"{where}: the date {written!r} does not parse; write it like 2024-01-31 18:05"
        ) from None
