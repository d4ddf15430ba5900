"""LoCoMo: 1,986 questions over ten very long conversations between two people.

Source: https://github.com/snap-research/locomo (CC BY-NC 4.0: downloaded, never shipped). The
`official` texts and the `locomo-official` qrels follow its task_eval; the `default` qrels use
corrected evidence, and the corrections are counted and listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from harness.datasets.adapter import DatasetConfig, RemoteFile, SourceFiles, Variant
from harness.datasets.adapters.misspelt import refuse_near, session_numbers
from harness.datasets.adapters.raw_files import (
    date,
    dated_session,
    dated_turn,
    field,
    one_file,
    read_once,
)
from harness.datasets.registry import register_adapter
from harness.errors import UsageError
from harness.schema import Ability, Document, timestamp

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter


OFFICIAL_KEY = "locomo-official"
CATEGORIES = {
    1: ("multi-hop", Ability.MULTI_HOP),
    2: ("temporal", Ability.TEMPORAL),
    3: ("open-domain", Ability.LOOKUP),
    4: ("single-hop", Ability.LOOKUP),
    5: ("adversarial", Ability.ABSTENTION),
}
"""Follows the paper's counts and the official code, which splits sub-answers for 1
(task_eval/evaluation.py) and requires a date for 2 (gpt_utils.py); many projects swap some."""

VARIANTS = (
    Variant(
        "",
        "1,986 questions over ten conversations of two people: 272 sessions, 5,882 turns",
        "CC BY-NC 4.0",
        files=(
            RemoteFile(
                "locomo10.json",
                "https://raw.githubusercontent.com/snap-research/locomo/"
                "3eb6f2c585f5e1699204e3c3bdf7adc5c28cb376/data/locomo10.json",
                sha256="79fa87e90f04081343b8c8debecb80a9a6842b76a7aa537dc9fdf651ea698ff4",
                bytes=2_805_274,
            ),
        ),
        granularities=("turn", "session", "observation", "session-summary"),
        texts=("official", "dated"),
    ),
)
_TURN = re.compile(r"D:?(\d{1,9}):(\d{1,9})(?!\d)")
_OF_SESSIONS = ("session", "session-summary")


@register_adapter("locomo")
class LoCoMo:
    """LoCoMo adapter."""

    version: ClassVar[int] = 1

    def variants(self) -> Iterable[Variant]:
        """Returns the only variant."""
        return VARIANTS

    def find_files(
        self, source: Path, variant: Variant, config: DatasetConfig
    ) -> Mapping[str, Path]:
        """Finds locomo10.json: the file, its folder, or a clone of the official repository."""
        return one_file(source, variant, "data")

    def convert(self, raw: SourceFiles, config: DatasetConfig, out: DatasetWriter) -> None:
        """Writes one haystack per conversation, and its questions with both sets of qrels.

        Raises UsageError for a truncated file, a missing field or an invalid date.
        """
        (path,) = raw.files.values()
        records = read_once(path)
        if not isinstance(records, list):
            raise UsageError(f"{path}: not a list of conversations; is it locomo10.json?")
        for number, record in enumerate(records):
            id_ = field(record, "sample_id", str, f"{path}: record {number}")
            _Conversation(record, id_, f"{path}: {id_}", config, out).write()


class _Conversation:
    """Writer of one conversation, with the location of its evidence by turn or session."""

    def __init__(
        self,
        record: dict[str, object],
        id: str,
        where: str,
        config: DatasetConfig,
        out: DatasetWriter,
    ) -> None:
        self._record = record
        self._id = id
        self._where = where
        self._config = config
        self._out = out
        conversation = field(record, "conversation", dict, where)
        for name in dates_without_session(conversation):
            out.repair("dates of sessions that do not exist: ignored", f"{id}: {name}")
        self._sessions = read_sessions(conversation, where)
        self._session_of = {t.id: s.number for s in self._sessions for t in s.turns}
        self._rows: dict[str, list[int]] = {}

    def write(self) -> None:
        """Writes the documents, the haystack, the questions and both sets of qrels."""
        config, rows = self._config, []
        for carrier in carriers(
            self._record, self._sessions, config.granularity, config.text, self._where
        ):
            row = self._out.document(**asdict(carrier.document))
            rows.append(row)
            for piece in carrier.pieces:
                self._rows.setdefault(piece, []).append(row)
        self._out.haystack(self._id, rows)
        for index, question in enumerate(field(self._record, "qa", list, self._where)):
            id_, at = f"{self._id}_qa{index}", f"{self._where}, qa {index}"
            evidence = [str(string) for string in field(question, "evidence", list, at)]
            self._query(id_, question, at)
            self._official_key(id_, evidence)
            self._default_key(id_, evidence)

    def _query(self, id_: str, question: dict[str, object], where: str) -> None:
        number = field(question, "category", int, where)
        if number not in CATEGORIES:
            raise UsageError(f"{where}: category {number} is not one of 1 to 5; correct it")
        category, ability = CATEGORIES[number]
        if "answer" not in question and ability is not Ability.ABSTENTION:
            raise UsageError(f"{where}: the field 'answer' is missing; add it")
        # `adversarial_answer` is the distractor of an adversarial question, not a reference answer.
        self._out.query(
            id_,
            field(question, "question", str, where),
            self._id,
            ability=ability,
            category=category,
            answers=[str(question["answer"])] if "answer" in question else [],
        )

    def _official_key(self, query: str, evidence: list[str]) -> None:
        """Builds one item per evidence STRING, by exact match, as task_eval/evaluation.py does.

        Malformed or dangling evidence can never be found; duplicates count twice.
        """
        for place, string in enumerate(evidence):
            of_session = self._config.granularity in _OF_SESSIONS
            piece = string.split(":")[0][1:] if of_session else string
            self._judge(
                query, piece, string, evidence_id=f"{place}:{string}", qrels_set=OFFICIAL_KEY
            )

    def _default_key(self, query: str, evidence: list[str]) -> None:
        """Builds one item per existing turn, or per session."""
        turns = self._normalised(query, evidence)
        if not turns:
            self._out.repair("questions without evidence: kept, without judgements", query)
        if self._config.granularity in _OF_SESSIONS:
            pieces = {str(self._session_of[turn]): f"S{self._session_of[turn]}" for turn in turns}
        else:
            pieces = {turn: turn for turn in turns}
        for piece, name in pieces.items():
            if piece not in self._rows:
                self._out.repair(
                    f"evidence in no {self._config.granularity}: kept as judgements of documents "
                    "that cannot be found",
                    f"{query}: {name}",
                )
            # Several observations may contain one turn; any of them is enough.
            unit = piece if self._config.granularity == "observation" else None
            self._judge(query, piece, name, evidence_id=unit)

    def _judge(
        self,
        query: str,
        piece: str,
        name: str,
        *,
        evidence_id: str | None = None,
        qrels_set: str = "default",
    ) -> None:
        """Judges every document that contains `piece`; if none, `name`, which cannot be found."""
        for row in self._rows.get(piece, []):
            self._out.qrel(query, row, evidence_id=evidence_id, qrels_set=qrels_set)
        if piece not in self._rows:
            self._out.qrel(
                query, -1, evidence_id=evidence_id, qrels_set=qrels_set, document_id=name
            )

    def _normalised(self, query: str, evidence: list[str]) -> list[str]:
        """Returns the ids of existing evidence turns, once each, and records every correction."""
        turns: list[str] = []
        for string in evidence:
            found = [f"D{int(s)}:{int(t)}" for s, t in _TURN.findall(string)]
            said = f"{query}: {string!r}"
            if not found:
                self._out.repair(
                    "evidence that names no turn: excluded from the default qrels", said
                )
            elif len(found) > 1:
                self._out.repair("evidence strings that name several turns: split", said)
            elif found != [string]:
                self._out.repair("evidence in another spelling: corrected", said)
            for turn in found:
                if turn not in self._session_of:
                    self._out.repair(
                        "evidence that names a turn which does not exist: excluded from the "
                        "default qrels",
                        said,
                    )
                elif turn in turns:
                    self._out.repair("evidence that names a turn twice: merged", said)
                else:
                    turns.append(turn)
        return turns


@dataclass(frozen=True, slots=True)
class Turn:
    """One utterance; `caption` describes an image shared with it.

    The `query` that found the image is not indexed, because some answers leak from it.
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
    """One session of a conversation: its number from 1, its time, its turns."""

    number: int
    timestamp: int
    turns: list[Turn]

    @property
    def id(self) -> str:
        """`S3`, the name in the official code."""
        return f"S{self.number}"

    @property
    def name(self) -> str:
        """`session_3`, the name in the file."""
        return f"session_{self.number}"


@dataclass(frozen=True, slots=True)
class Carrier:
    """A document and the evidence that it contains: turn ids, or a session's number."""

    document: Document
    pieces: list[str]


def read_sessions(conversation: dict[str, object], where: str) -> list[LocomoSession]:
    """Reads the sessions by number; a date alone makes no session.

    Raises UsageError for a missing field, an invalid date, or a duplicate dia_id.
    """
    sessions = [
        _read_session(conversation, number, where)
        for number in session_numbers(conversation, where)
    ]
    ids: set[str] = set()
    for turn in (turn for session in sessions for turn in session.turns):
        if turn.id in ids:
            raise UsageError(f"{where}: duplicate dia_id {turn.id!r}; make it unique")
        ids.add(turn.id)
    return sessions


_TURN_FIELDS = ("dia_id", "speaker", "text", "query", "img_url", "re-download")


def dates_without_session(conversation: dict[str, object]) -> list[str]:
    """Returns the date fields without a session."""
    suffix = "_date_time"
    return [n for n in conversation if n.endswith(suffix) and n[: -len(suffix)] not in conversation]


def _read_session(conversation: dict[str, object], number: int, where: str) -> LocomoSession:
    name = f"session_{number}"
    turns = []
    for position, turn in enumerate(field(conversation, name, list, where)):
        at = f"{where}, {name}, turn {position}"
        id_, speaker, text = (field(turn, part, str, at) for part in ("dia_id", "speaker", "text"))
        refuse_near(turn, "blip_caption", at, _TURN_FIELDS)
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
    """Yields the documents of a conversation in order, in the configured form."""
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
    """Yields facts noted about each session; an id is that of the first turn plus a number."""
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
    """Splits an observation into its text and its turns, at commas as in the official code.

    `fact` is [text, "D1:3"], [text, "D1:3, D1:5"] or [text, ["D1:3", "D1:5"]].
    """
    match fact:
        case [str(text), str(turns)]:
            return text, list(dict.fromkeys(turn.strip() for turn in turns.split(",")))
        case [str(text), [str(), *_] as turns]:
            return text, list(dict.fromkeys(str(turn) for turn in turns))
    raise UsageError(f"{where}: {fact!r:.60} is not a text with the dia_id of its source")
