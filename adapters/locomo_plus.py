"""LoCoMo-Plus: 401 remarks that call for a memory which shares no words with them.

Source: https://github.com/xjtuleeyf/Locomo-Plus (no licence stated, so the data is downloaded and
never shipped). Each item is a cue, a short exchange, and a trigger, a later remark; the cue is
inserted into a conversation of LoCoMo and must be found for the trigger.

The official code has two builders: `build_conv.py` draws the conversation at random without a seed,
so no two builds agree; `unified_input.py` inserts item i into conversation i mod 10. This is the
second construction; results over another one are not comparable. As in both, the cue is
`time_gap` before the trigger, which is a week after the last session.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from harness.datasets.adapter import DatasetConfig, RemoteFile, SourceFiles, Variant
from harness.datasets.adapters.locomo import VARIANTS as LOCOMO
from harness.datasets.adapters.locomo import LocomoSession, read_sessions
from harness.datasets.adapters.raw_files import all_files, dated_turn, field, read_once
from harness.datasets.registry import register_adapter
from harness.errors import UsageError
from harness.schema import Ability

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter

RELATIONS = ("causal", "state", "goal", "value")
VARIANTS = (
    Variant(
        "",
        "401 remarks, each about one exchange inserted into a conversation of LoCoMo (i mod 10)",
        "none stated in the repository; LoCoMo: CC BY-NC 4.0",
        files=(
            RemoteFile(
                "locomo_plus.json",
                "https://raw.githubusercontent.com/xjtuleeyf/Locomo-Plus/"
                "059f4e3d38f7f1f96765e8e2cb7de3097551bffb/data/locomo_plus.json",
                sha256="af2fc6e5e0e88735e28d8dd1ef474b718861a73beb21779809e3b9e1a4fe3d23",
                bytes=305_737,
            ),
            *LOCOMO[0].files,
        ),
        granularities=("turn",),
        texts=("official", "dated"),
    ),
)
_DAY = 86_400
_DAYS = {"week": 7, "month": 30, "year": 365}
_NUMBERS = (
    *("one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)
_COUNT = {"a": 1, "an": 1} | {word: number for number, word in enumerate(_NUMBERS, 1)}
_GAP = re.compile(rf"\b(\d+|{'|'.join(_COUNT)})\b\s*(week|month|year)s?\b")


@register_adapter("locomo-plus")
class LoCoMoPlus:
    """LoCoMo-Plus adapter."""

    version: ClassVar[int] = 1

    def variants(self) -> Iterable[Variant]:
        """Returns the only variant."""
        return VARIANTS

    def find_files(
        self, source: Path, variant: Variant, config: DatasetConfig
    ) -> Mapping[str, Path]:
        """Finds both files in a folder or in a clone of the repository."""
        repository = "https://github.com/xjtuleeyf/Locomo-Plus"
        return all_files(source, variant, folder="data", of=repository)

    def convert(self, raw: SourceFiles, config: DatasetConfig, out: DatasetWriter) -> None:
        """Writes a haystack per item: the turns of its conversation and its cue, by time.

        Raises UsageError for a truncated file, a missing field or an invalid date.
        """
        path = raw.files["locomo10.json"]
        records = read_once(path)
        if not isinstance(records, list) or not records:
            raise UsageError(f"{path}: not a list of conversations; is it locomo10.json?")
        conversations = [
            _PlusConversation(record, f"{path}: record {number}", config, out)
            for number, record in enumerate(records)
        ]
        path = raw.files["locomo_plus.json"]
        for number, item in enumerate(read_once(path)):
            where = f"{path}: item {number}"
            conversations[number % len(conversations)].write_item(number, item, where)


class _PlusConversation:
    """Writer of one conversation and of the items that are inserted into it."""

    def __init__(self, record: Any, where: str, config: DatasetConfig, out: DatasetWriter) -> None:
        conversation = field(record, "conversation", dict, where)
        self._dated = config.text == "dated"
        self._out = out
        self._speakers = {
            "A": field(conversation, "speaker_a", str, where),
            "B": field(conversation, "speaker_b", str, where),
        }
        sessions = sorted(read_sessions(conversation, where), key=lambda one: one.timestamp)
        if not sessions:
            raise UsageError(f"{where}: has no session")
        self._asked = sessions[-1].timestamp + 7 * _DAY
        self._rows = [(session.timestamp, self._write_session(session)) for session in sessions]

    def _write_session(self, session: LocomoSession) -> list[int]:
        return [
            self._write_turn(
                turn.id,
                turn.speaker,
                turn.plain if self._dated else turn.text,
                session.timestamp,
                session.name,
                position,
            )
            for position, turn in enumerate(session.turns)
        ]

    def _write_turn(
        self, id: str, speaker: str, text: str, time: int, session: str, position: int
    ) -> int:
        return self._out.document(
            id,
            dated_turn(time, speaker, text) if self._dated else f"{speaker}: {text}",
            timestamp=time,
            session=session,
            speaker=speaker,
            position=position,
        )

    def write_item(self, number: int, item: Any, where: str) -> None:
        """Writes the cue of an item, its haystack, its trigger and the judgements of the cue."""
        relation, cue, trigger, gap = (
            field(item, name, str, where)
            for name in ("relation_type", "cue_dialogue", "trigger_query", "time_gap")
        )
        if relation not in RELATIONS:
            raise UsageError(
                f"{where}: relation_type {relation!r} is not one of {', '.join(RELATIONS)}"
            )
        days = _days(gap)
        if not days:
            self._out.repair("time gaps that the official rule reads as none", f"{where}: {gap!r}")
        time = self._asked - days * _DAY
        if time < self._rows[0][0]:
            self._out.repair("cues before the first session: they come first", where)
        turns = [
            self._write_turn(
                f"C{number}:{place + 1}", self._speakers[name], text, time, f"cue_{number}", place
            )
            for place, (name, text) in enumerate(_dialogue(cue))
        ]
        if not turns:
            raise UsageError(f"{where}: cue_dialogue has no line that begins with A: or B:")
        before = [row for moment, rows in self._rows if moment <= time for row in rows]
        after = [row for moment, rows in self._rows if moment > time for row in rows]
        id_ = f"plus_{number}"
        self._out.haystack(id_, [*before, *turns, *after])
        # One exchange must be found, and it answers alone: a lookup, though without shared words.
        self._out.query(
            id_,
            " ".join(text for _, text in _dialogue(trigger)) or trigger,
            id_,
            ability=Ability.LOOKUP,
            category=relation,
            timestamp=self._asked,
        )
        for row in turns:
            self._out.qrel(id_, row)


def _dialogue(text: str) -> list[tuple[str, str]]:
    """Returns speaker (A or B) and text of each line, as the official code splits them.

    Written `\\n` is no line break there: 44 cues are one turn for that reason.
    """
    lines = (line.strip() for line in text.split("\n"))
    return [(line[0], line[2:].strip()) for line in lines if line.startswith(("A:", "B:"))]


def _days(gap: str) -> int:
    """Returns the days of a time gap like `about two weeks later`; 0 if the official rule does."""
    found = _GAP.search(gap.lower())
    if found is None:
        return 0
    number, unit = found.groups()
    return (int(number) if number.isdigit() else _COUNT[number]) * _DAYS[unit]
