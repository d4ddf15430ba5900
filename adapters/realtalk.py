"""REALTALK: 728 questions over ten chats between two people, each over 21 days.

Source: https://github.com/danny911kr/REALTALK (no licence stated, so the data is downloaded and
never shipped). The format is LoCoMo's, except that the D-number of a `dia_id` is not always its
session's, and that every turn has a time. No official retrieval scorer is known, so there is one
set of qrels: the turns in `evidence`, after corrections, which are counted and listed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from harness.datasets.adapter import DatasetConfig, SourceFiles, Variant
from harness.datasets.adapters.misspelt import refuse_near, session_numbers
from harness.datasets.adapters.raw_files import (
    dated_turn,
    field,
    note_a_part,
    parts_in,
    published_files,
    read_once,
)
from harness.datasets.registry import register_adapter
from harness.errors import UsageError
from harness.schema import Ability, timestamp

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter

CATEGORIES = {
    1: ("multi-hop", Ability.MULTI_HOP),
    2: ("temporal", Ability.TEMPORAL),
    3: ("commonsense", Ability.LOOKUP),
}
_RAW = (
    "https://raw.githubusercontent.com/danny911kr/REALTALK/"
    "b903e06a9770bf4e5fe9018c3e132889666d3b4a/data/"
)
VARIANTS = (
    Variant(
        "",
        "728 questions over ten chats of two people each, of 21 days: 219 sessions, 8,944 turns",
        "none stated in the repository",
        files=published_files(Path(__file__).with_name("realtalk.sha256"), _RAW),
        granularities=("turn", "session"),
        texts=("official", "dated"),
    ),
)
_KEPT = ("dia_id", "speaker", "clean_text", "date_time", "img_url", "img_file")
_TURN = r"D:?(\d{1,5}):(\d{1,5})(?!\d)"  # protects against a huge range
_NAMED = re.compile(rf"{_TURN}(?:\s*-\s*{_TURN})?")


@dataclass(frozen=True, slots=True)
class _Turn:
    """One message and its time; `caption` describes a picture sent with it."""

    id: str
    speaker: str
    said: str
    caption: str
    timestamp: int

    def text(self, *, dated: bool) -> str:
        """Returns the indexed text; the dated form includes the caption."""
        if not dated:
            return f"{self.speaker}: {self.said}"
        shared = f" (shared: {self.caption})" if self.caption else ""
        return dated_turn(self.timestamp, self.speaker, self.said + shared)


@register_adapter("realtalk")
class RealTalk:
    """REALTALK adapter."""

    version: ClassVar[int] = 1

    def variants(self) -> Iterable[Variant]:
        """Returns the only variant."""
        return VARIANTS

    def find_files(
        self, source: Path, variant: Variant, config: DatasetConfig
    ) -> Mapping[str, Path]:
        """Finds the chats in a folder or in `data` of a clone of the repository, or one of them."""
        repository = "https://github.com/danny911kr/REALTALK"
        return parts_in(source, variant, folder="data", pattern="Chat_*.json", of=repository)

    def convert(self, raw: SourceFiles, config: DatasetConfig, out: DatasetWriter) -> None:
        """Writes one haystack per chat, and its questions.

        Raises UsageError for a truncated file, a missing field or an invalid date.
        """
        note_a_part(raw, out, "chats missing from this copy: it is a part of REALTALK")
        for path in raw.files.values():
            _RealTalkChat(path, config, out).write()


class _RealTalkChat:
    """Writer of one chat; maps each dia_id to the document that contains the turn."""

    def __init__(self, path: Path, config: DatasetConfig, out: DatasetWriter) -> None:
        self._id = path.stem
        self._where = str(path)
        self._record = read_once(path)
        self._config = config
        self._out = out
        self._rows: dict[str, int] = {}

    def write(self) -> None:
        """Writes the documents, the haystack, and the questions with their evidence."""
        for number in session_numbers(self._record, self._where):
            self._write_session(number)
        self._out.haystack(self._id, list(dict.fromkeys(self._rows.values())))
        for place, question in enumerate(field(self._record, "qa", list, self._where)):
            self._question(f"{self._id}_qa{place}", question, f"{self._where}, qa {place}")

    def _write_session(self, number: int) -> None:
        name, dated = f"session_{number}", self._config.text == "dated"
        turns = [*self._turns(name)]
        if self._config.granularity == "session":
            row = self._out.document(
                f"S{number}",
                "\n".join(turn.text(dated=dated) for turn in turns),
                timestamp=_moment(self._record, f"{name}_date_time", self._where),
                session=name,
            )
        for position, turn in enumerate(turns):
            if self._config.granularity == "turn":
                row = self._out.document(
                    turn.id,
                    turn.text(dated=dated),
                    timestamp=turn.timestamp,
                    session=name,
                    speaker=turn.speaker,
                    position=position,
                )
            if turn.id in self._rows:
                raise UsageError(f"{self._where}: duplicate dia_id {turn.id!r}; make it unique")
            self._rows[turn.id] = row

    def _turns(self, session: str) -> Iterator[_Turn]:
        for position, turn in enumerate(field(self._record, session, list, self._where)):
            at = f"{self._where}, {session}, turn {position}"
            id_, speaker, said = (
                field(turn, name, str, at) for name in ("dia_id", "speaker", "clean_text")
            )
            refuse_near(turn, "blip_caption", at, _KEPT)
            caption = field(turn, "blip_caption", str, at) if turn.get("blip_caption") else ""
            if not id_.startswith(f"D{session.removeprefix('session_')}:"):
                self._out.repair(
                    "turns whose dia_id has the number of another session: kept in their session",
                    f"{self._id}: {id_} in {session}",
                )
            yield _Turn(id_, speaker, said, caption, _moment(turn, "date_time", at))

    def _question(self, id_: str, question: Any, where: str) -> None:
        number = field(question, "category", int, where)
        if number not in CATEGORIES:
            raise UsageError(f"{where}: category {number} is not one of 1 to 3; correct it")
        category, ability = CATEGORIES[number]
        if "answer" not in question:
            raise UsageError(f"{where}: the field 'answer' is missing; add it")
        self._out.query(
            id_,
            field(question, "question", str, where),
            self._id,
            ability=ability,
            category=category,
            answers=[str(question["answer"])],
        )
        evidence = [str(string) for string in field(question, "evidence", list, where)]
        turns = [turn for string in evidence for turn in self._named(id_, string)]
        for _ in range(len(turns) - len({*turns})):
            self._out.repair("evidence that names a turn twice: merged", id_)
        if not turns:
            self._out.repair("questions without evidence: kept, without judgements", id_)
        for row in dict.fromkeys(self._rows[turn] for turn in turns):
            self._out.qrel(id_, row)

    def _named(self, query: str, string: str) -> Iterator[str]:
        """Returns the existing turns named by an evidence string, and records every correction."""
        said = f"{query}: {string!r}"
        found = [*_NAMED.finditer(string)]
        if not found:
            self._out.repair("evidence that names no turn: excluded", said)
        elif len(found) > 1:
            self._out.repair("evidence strings that name several turns: split", said)
        elif found[0][3] is None and found[0][0] != string:
            self._out.repair("evidence in another spelling: corrected", said)
        for one in found:
            ends = [f"D{int(one[1])}:{int(one[2])}"]
            if one[3] is not None:
                self._out.repair("evidence that is a range of turns: all of them used", said)
                ends.append(f"D{int(one[3])}:{int(one[4])}")
            for end in ends:
                if end not in self._rows:
                    self._out.repair(
                        "evidence that names a turn which does not exist: excluded",
                        f"{said}, {end}",
                    )
            inner = range(int(one[2]) + 1, int(one[4])) if one[3] == one[1] else ()
            turns = [ends[0], *(f"D{int(one[1])}:{turn}" for turn in inner), *ends[1:]]
            yield from (turn for turn in turns if turn in self._rows)


def _moment(record: Any, name: str, where: str) -> int:
    """Converts a field like `29.12.2023, 22:42:04` to a timestamp. Raises UsageError."""
    written = field(record, name, str, where)
    try:
        return timestamp(datetime.strptime(written, "%d.%m.%Y, %H:%M:%S"))
    except ValueError:
        raise UsageError(
            f"{where}: {name} {written!r:.40} is not a date like 29.12.2023, 22:42:04"
        ) from None
