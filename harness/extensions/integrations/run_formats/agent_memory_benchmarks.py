"""Runs of RonsenbergVI's agent-memory-benchmarks: results.jsonl, with turns and sessions.

`question_id` is the conversation and the question's place in it (`conv-26:0`) on LoCoMo, and the
dataset's own id elsewhere. The fields of what was retrieved are left out where the question has no
evidence, and where what came names no turn or session.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from harness.extensions.integrations.run_formats.locomo_ids import session_ids
from harness.runfiles.run_formats import (
    QuestionRef,
    ids_of,
    listed,
    marked,
    text_of,
)

_SESSIONS = "retrieved_session_ids"
_PLACE = re.compile(r"[0-9]{1,6}")


class AgentMemoryBenchmarks:
    """Reader of results.jsonl."""

    about: ClassVar[str] = "RonsenbergVI/agent-memory-benchmarks (question_id, retrieved_turn_ids)"
    rankings: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "retrieved_turn_ids": ("turn",),
        _SESSIONS: ("session",),
    }
    texts: ClassVar[bool] = False

    def recognises(self, head: bytes) -> bool:
        """By its three fields."""
        return marked(head, "question_id", "sample_id", "num_hits", _SESSIONS)

    def records(self, value: Any) -> Any:
        """A line a question."""
        return listed(value)

    def question(self, record: Mapping[str, object]) -> QuestionRef:
        """By its place in a conversation of LoCoMo, and by the dataset's id elsewhere."""
        id_ = text_of(record, "question_id")
        haystack, _, place = id_.rpartition(":")
        if haystack == text_of(record, "sample_id") and _PLACE.fullmatch(place):
            return QuestionRef(
                haystack=haystack, place=int(place), text=text_of(record, "question")
            )
        return QuestionRef(id=id_)

    def found(self, record: Mapping[str, object], ranking: str) -> list[str] | None:
        """Turns, or the session of each place."""
        found = ids_of(record, ranking)
        of_locomo = self.question(record).id is None
        return session_ids(found) if of_locomo and ranking == _SESSIONS else found
