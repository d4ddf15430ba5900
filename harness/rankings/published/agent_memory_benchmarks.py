"""Runs of RonsenbergVI's agent-memory-benchmarks: results.jsonl, with turns and sessions.

`question_id` is the conversation and the question's place in it (`conv-26:0`) on LoCoMo, and the
dataset's own id elsewhere. The fields of what was retrieved are left out where the question has no
evidence, and where what came names no turn or session.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from harness.rankings.published.form import (
    Answer,
    Question,
    listed,
    marked,
    register_run_format,
    text_of,
    texts_of,
)
from harness.rankings.published.locomo_ids import session_id

_SESSIONS = "retrieved_session_ids"


@register_run_format("agent-memory-benchmarks")
class AgentMemoryBenchmarks:
    """Reader of results.jsonl."""

    about: ClassVar[str] = "RonsenbergVI/agent-memory-benchmarks (question_id, retrieved_turn_ids)"
    rankings: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "retrieved_turn_ids": ("turn",),
        _SESSIONS: ("session",),
    }

    def recognises(self, head: bytes) -> bool:
        """By its three fields."""
        return marked(head, "question_id", "sample_id", "num_hits", _SESSIONS)

    def records(self, value: Any) -> Any:
        """A line a question."""
        return listed(value)

    def answer(self, record: Mapping[str, Any], ranking: str, granularity: str) -> Answer:
        """Turns, or the session of each place."""
        id_, sample = text_of(record, "question_id"), text_of(record, "sample_id")
        haystack, _, place = id_.rpartition(":")
        of_locomo = haystack == sample and place.isdigit()
        question = Question(id=id_)
        if of_locomo:
            text = text_of(record, "question")
            question = Question(haystack=haystack, place=int(place), text=text)
        found = texts_of(record, ranking)
        if found is not None and of_locomo and granularity == "session":
            found = [session_id(one) for one in found]
        return Answer(question, found)
