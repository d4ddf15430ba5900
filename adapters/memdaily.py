"""MemDaily: 2,954 Chinese questions over short lists of daily messages to an assistant.

Source: https://github.com/nuster1128/MemSim (no licence stated, so the data is downloaded and never
shipped). Each question has a haystack of 4 to 19 messages of one sentence; `target_step_id` names
the evidence among them.

The evidence comes first in nearly every haystack, and the times have the same order: the order of
the file alone finds .817 of the evidence in the first five messages (random: .635). So use cutoffs
of 1 and 3, and see the documentation for the values of systems that keep this order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from harness.datasets.adapter import DatasetConfig, SourceFiles, Variant
from harness.datasets.adapters.raw_files import (
    date,
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
    "01": ("simple", Ability.LOOKUP),
    "02": ("conditional", Ability.MULTI_HOP),
    "03": ("comparative", Ability.MULTI_HOP),
    "04": ("aggregative", Ability.MULTI_HOP),
    "05": ("post-processing", Ability.MULTI_HOP),
    "06": ("noisy", Ability.MULTI_HOP),
}
"""By the number of a file's name. Multi-hop: every question needs two or more messages."""

VARIANTS = (
    Variant(
        "",
        "2,954 Chinese questions, each over its own 4 to 19 messages to an assistant",
        "none stated in the repository",
        files=published_files(
            Path(__file__).with_name("memdaily.sha256"),
            "https://raw.githubusercontent.com/nuster1128/MemSim/"
            "db9d5d552d6cb1d859f692eb7e6c0fd6d61d3815/data_generation/final_dataset/"
            "messages_and_QAs/",
        ),
        granularities=("turn",),
        texts=("official", "dated"),
        k=20,
    ),
)
_DROPPED = ("[ERRORQ]", "[ERRORA]")


@register_adapter("memdaily")
class MemDaily:
    """MemDaily adapter."""

    version: ClassVar[int] = 1

    def variants(self) -> Iterable[Variant]:
        """Returns the only variant."""
        return VARIANTS

    def find_files(
        self, source: Path, variant: Variant, config: DatasetConfig
    ) -> Mapping[str, Path]:
        """Finds the 26 files in a folder or in a clone of the repository, or one of them."""
        return parts_in(
            source,
            variant,
            folder="data_generation/final_dataset/messages_and_QAs",
            pattern="0[1-6]_*.json",
            of="https://github.com/nuster1128/MemSim",
        )

    def convert(self, raw: SourceFiles, config: DatasetConfig, out: DatasetWriter) -> None:
        """Writes a haystack per trajectory, and its question with the evidence.

        Raises UsageError for a truncated file, a missing field or an invalid date.
        """
        note_a_part(raw, out, "files missing from this copy: it is a part of MemDaily")
        for path in raw.files.values():
            category, ability = CATEGORIES.get(path.name[:2], ("", Ability.LOOKUP))
            if not category:
                raise UsageError(f"{path}: no file of MemDaily; their names begin with 01 to 06")
            records = read_once(path)
            if not isinstance(records, list):
                raise UsageError(f"{path}: not a list of trajectories")
            for number, record in enumerate(records):
                trajectory = _Trajectory(record, f"{path.stem}_{number}", f"{path}: {number}")
                trajectory.write(config, out, category, ability)


class _Trajectory:
    """Writer of one trajectory: its messages and its questions."""

    def __init__(self, record: Any, id: str, where: str) -> None:
        self._record, self._id, self._where = record, id, where

    def write(
        self, config: DatasetConfig, out: DatasetWriter, category: str, ability: Ability
    ) -> None:
        """Writes the documents, the haystack and the questions that the generator completed."""
        questions = []
        for number, question in enumerate(field(self._record, "question_list", list, self._where)):
            id_ = f"{self._id}_q{number}"
            if any(question.get(name) in _DROPPED for name in ("question", "answer")):
                out.repair("questions that the generator did not complete: dropped", id_)
            else:
                questions.append((id_, question))
        if not questions:
            return
        rows = self._write_messages(config, out)
        out.haystack(self._id, [*rows.values()])
        for id_, question in questions:
            text, answer = (
                field(question, name, str, self._where) for name in ("question", "answer")
            )
            time = _moment(question, self._where)
            out.query(
                id_,
                text,
                self._id,
                ability=ability,
                category=category,
                timestamp=time,
                answers=[answer],
            )
            for number in dict.fromkeys(field(question, "target_step_id", list, self._where)):
                if number not in rows:
                    raise UsageError(
                        f"{self._where}: evidence in message {number}, which does not exist"
                    )
                out.qrel(id_, rows[number])

    def _write_messages(self, config: DatasetConfig, out: DatasetWriter) -> dict[int, int]:
        rows: dict[int, int] = {}
        messages = field(self._record, "message_list", list, self._where)
        for position, message in enumerate(messages):
            where = f"{self._where}, message {position}"
            number, text = field(message, "mid", int, where), field(message, "message", str, where)
            time = _moment(message, where)
            if number in rows:
                raise UsageError(f"{where}: duplicate mid {number}; make it unique")
            rows[number] = out.document(
                str(number),
                f"{date(time)} {text}" if config.text == "dated" else text,
                timestamp=time,
                position=position,
            )
        return rows


def _moment(record: Any, where: str) -> int:
    """Converts a time like `2024年04月01日 周一 08:30` to a timestamp. Raises UsageError."""
    written = field(record, "time", str, where)
    day, _, rest = written.partition(" ")
    try:
        moment = datetime.strptime(f"{day} {rest.rpartition(' ')[2]}", "%Y年%m月%d日 %H:%M")
    except ValueError:
        raise UsageError(
            f"{where}: time {written!r:.40} is not a time like 2024年04月01日 周一 08:30"
        ) from None
    return timestamp(moment)
