"""A LoCoMo conversation: its sessions and turns, and the documents that each unit makes of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from harness.datasets.adapters.raw_files import date, dated_session, dated_turn, field, refuse_near
from harness.errors import UsageError
from harness.runfiles.fields import mistaken
from harness.schema import Document, timestamp

_DIGITS = re.compile(r"\d")
_SESSION = re.compile(r"session_(\d{1,9})")


@dataclass(frozen=True, slots=True)
class Turn:
    """What one person said; `caption` describes an image that was shared with it.

    The image's search `query` is left out on purpose: some answers leak from it.
    """

    id: str
    speaker: str
    text: str
    caption: str

    @property
    def official(self) -> str:
        """The text that the official code indexes."""
        shared = f" and shared {self.caption}" if self.caption else ""
        return f'{self.speaker} said, "{self.text}"{shared}'

    @property
    def plain(self) -> str:
        """The text with its caption."""
        return f"{self.text} (shared: {self.caption})" if self.caption else self.text


@dataclass(frozen=True, slots=True)
class LocomoSession:
    """One sitting of a conversation: its number from 1, its time, what was said."""

    number: int
    timestamp: int
    turns: list[Turn]

    @property
    def id(self) -> str:
        """`S3`, as the official code names it."""
        return f"S{self.number}"

    @property
    def name(self) -> str:
        """`session_3`, as the file names it."""
        return f"session_{self.number}"


@dataclass(frozen=True, slots=True)
class Carrier:
    """A document and the pieces of evidence that it carries: turn ids, or a session's number."""

    document: Document
    pieces: list[str]


def read_sessions(conversation: dict[str, object], where: str) -> list[LocomoSession]:
    """The sessions by number; dates alone make none. `where` names the file and conversation.

    Raises UsageError for a missing field, a bad date, or a dia_id that stands twice.
    """
    sessions = [
        _read_session(conversation, number, where)
        for number in session_numbers(conversation, where)
    ]
    ids: set[str] = set()
    for turn in (turn for session in sessions for turn in session.turns):
        if turn.id in ids:
            raise UsageError(f"{where}: the dia_id {turn.id!r} stands twice; make it unique")
        ids.add(turn.id)
    return sessions


_TURN = ("dia_id", "speaker", "text", "query", "img_url", "re-download")


def session_numbers(conversation: Any, where: str) -> list[int]:
    """The numbers of the fields `session_N`, in order. Raises UsageError for what is no object."""
    if not isinstance(conversation, dict):
        raise UsageError(f"{where}: not an object; the file is damaged or of another format")
    numbers = [int(found[1]) for name in conversation if (found := _SESSION.fullmatch(name))]
    for name in conversation:
        if not name.startswith("session_") and mistaken("session", [_DIGITS.sub("", name)]):
            raise UsageError(f"{where}: unknown field {name!r}; did you mean session_N?")
    if not numbers:
        raise UsageError(f"{where}: no field session_1; the file is of another format")
    return sorted(numbers)


def dates_without_session(conversation: dict[str, object]) -> list[str]:
    """Fields that date a session which is not there."""
    suffix = "_date_time"
    return [n for n in conversation if n.endswith(suffix) and n[: -len(suffix)] not in conversation]


def _read_session(conversation: dict[str, object], number: int, where: str) -> LocomoSession:
    name = f"session_{number}"
    turns = []
    for position, turn in enumerate(field(conversation, name, list, where)):
        at = f"{where}, {name}, turn {position}"
        id_, speaker, text = (field(turn, part, str, at) for part in ("dia_id", "speaker", "text"))
        refuse_near(turn, "blip_caption", at, _TURN)
        caption = field(turn, "blip_caption", str, at) if turn.get("blip_caption") else ""
        turns.append(Turn(id_, speaker, text, caption))
    when = field(conversation, f"{name}_date_time", str, where)
    try:
        moment = datetime.strptime(when, "%I:%M %p on %d %B, %Y")
    except ValueError:
        raise UsageError(
            f"{where}: {name}_date_time {when!r:.60} is not a date like 1:56 pm on 8 May, 2023"
        ) from None
    return LocomoSession(number, timestamp(moment), turns)


def carriers(
    record: dict[str, object],
    sessions: list[LocomoSession],
    granularity: str,
    text: str,
    where: str,
) -> Iterator[Carrier]:
    """The documents of a conversation in the unit and text form that were asked for, in order."""
    dated = text == "dated"
    if granularity == "observation":
        yield from _observations(field(record, "observation", dict, where), sessions, dated, where)
        return
    for session in sessions:
        if granularity == "turn":
            yield from _turns(session, dated)
        elif granularity == "session":
            yield _whole(session, _session_text(session, dated))
        else:
            summaries = field(record, "session_summary", dict, where)
            summary = field(summaries, f"{session.name}_summary", str, where)
            yield _whole(session, f"{date(session.timestamp)}\n{summary}" if dated else summary)


def _turns(session: LocomoSession, dated: bool) -> Iterator[Carrier]:
    for position, turn in enumerate(session.turns):
        text = dated_turn(session.timestamp, turn.speaker, turn.plain) if dated else turn.official
        document = Document(
            turn.id,
            text,
            timestamp=session.timestamp,
            session=session.name,
            speaker=turn.speaker,
            position=position,
        )
        yield Carrier(document, [turn.id])


def _session_text(session: LocomoSession, dated: bool) -> str:
    if dated:
        return dated_session(session.timestamp, ((t.speaker, t.plain) for t in session.turns))
    return " ".join(turn.official for turn in session.turns)


def _whole(session: LocomoSession, text: str) -> Carrier:
    document = Document(session.id, text, timestamp=session.timestamp, session=session.name)
    return Carrier(document, [str(session.number)])


def _observations(
    observed: dict[str, object], sessions: list[LocomoSession], dated: bool, where: str
) -> Iterator[Carrier]:
    """Facts that were noted of each session; an id is the first turn's with a number behind it."""
    noted: dict[str, int] = {}
    for session in sessions:
        name = f"{session.name}_observation"
        for person, facts in field(observed, name, dict, where).items():
            for fact in facts:
                text, pieces = _fact(fact, f"{where}, {name}")
                noted[pieces[0]] = noted.get(pieces[0], 0) + 1
                document = Document(
                    f"{pieces[0]}#obs{noted[pieces[0]]}",
                    dated_turn(session.timestamp, person, text) if dated else text,
                    timestamp=session.timestamp,
                    session=session.name,
                    speaker=person,
                )
                yield Carrier(document, pieces)


def _fact(fact: Any, where: str) -> tuple[str, list[str]]:
    """Text of an observation and the turns it points at, cut at commas as the official code does.

    `fact` is [text, "D1:3"], [text, "D1:3, D1:5"] or [text, ["D1:3", "D1:5"]].
    """
    match fact:
        case [str(text), str(turns)]:
            return text, list(dict.fromkeys(turn.strip() for turn in turns.split(",")))
        case [str(text), [str(), *_] as turns]:
            return text, list(dict.fromkeys(str(turn) for turn in turns))
    raise UsageError(f"{where}: {fact!r:.60} is not a text with the dia_id it was noted from")
