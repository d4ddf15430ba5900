"""Documents of sessions that many haystacks share, written once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.datasets.adapter import DatasetConfig
from harness.datasets.adapters.raw_files import dated_session, dated_turn, field

if TYPE_CHECKING:
    from harness.datasets.writer import DatasetWriter


@dataclass(frozen=True, slots=True)
class Slot:
    """One place in a haystack. `id` is `session`, the file's id, made unique in the haystack."""

    id: str
    session: str
    timestamp: int
    turns: list[Any]


class SessionDocuments:
    """Writes each session's documents once, however many haystacks hold it.

    Two sessions are the same when their ids, their texts and (in the `dated` text) their dates are.
    Texts are compared by a 64-bit hash, so that those of a large file need not stay in memory.
    """

    def __init__(self, config: DatasetConfig, out: DatasetWriter) -> None:
        self._turns = config.granularity == "turn"
        self._dated = config.text == "dated"
        self._out = out
        self._rows: dict[tuple[str, int, int], range] = {}
        self._content: dict[str, int] = {}

    def holds(self, turn: Mapping[str, object]) -> bool:
        """True for a turn that is part of the documents' text."""
        return self._dated or turn["role"] == "user"

    def rows(self, slot: Slot, where: str) -> range:
        """Rows of the session's documents: one, or one for each turn that `holds`.

        Raises UsageError, which begins with `where`, for a turn without role or content.
        """
        try:
            turns = [
                (position, turn["role"], turn["content"])
                for position, turn in enumerate(slot.turns)
                if self.holds(turn)
            ]
            text = "\0".join([part for _, role, said in turns for part in (role, said)])
        except (KeyError, TypeError):
            _check_turns(slot, where)
            raise
        positions = tuple([position for position, _, _ in turns]) if self._turns else ()
        content = hash((text, positions))
        key = (slot.id, content, slot.timestamp if self._dated else 0)
        rows = self._rows.get(key)
        if rows is None:
            if self._content.setdefault(slot.id, content) != content:
                self._out.repair(
                    "sessions that stand under one id with different texts: each kept as its own "
                    "document",
                    slot.id,
                )
            rows = self._rows[key] = self._write(slot, turns)
        return rows

    def _write(self, slot: Slot, turns: list[tuple[int, str, str]]) -> range:
        written = (
            [self._write_turn(slot, *turn) for turn in turns]
            if self._turns
            else [self._write_session(slot, turns)]
        )
        return range(written[0], written[-1] + 1) if written else range(0)

    def _write_session(self, slot: Slot, turns: list[tuple[int, str, str]]) -> int:
        if self._dated:
            text = dated_session(slot.timestamp, ((role, said) for _, role, said in turns))
        else:
            text = " ".join([said for _, _, said in turns])
        when = slot.timestamp if self._dated else None
        return self._out.document(slot.id, text, timestamp=when, session=slot.session)

    def _write_turn(self, slot: Slot, position: int, role: str, said: str) -> int:
        return self._out.document(
            f"{slot.id}_{position + 1}",
            dated_turn(slot.timestamp, role, said) if self._dated else said,
            timestamp=slot.timestamp if self._dated else None,
            session=slot.session,
            speaker=role,
            position=position,
        )


def _check_turns(slot: Slot, where: str) -> None:
    """Raise the UsageError that says which turn of a session is wrong."""
    for position, turn in enumerate(slot.turns):
        for name in ("role", "content"):
            field(turn, name, str, f"{where}, session {slot.id}, turn {position}")
