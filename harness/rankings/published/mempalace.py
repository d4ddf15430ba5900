"""MemPalace's results on LoCoMo: a list of records with `retrieved_ids`, sessions or turns.

A record names its conversation (`sample_id`) and its question's words; sessions are `session_N`.
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


@register_run_format("mempalace")
class MemPalace:
    """Reader of results_locomo_*.json."""

    about: ClassVar[str] = "MemPalace on LoCoMo (sample_id, question, retrieved_ids)"
    rankings: ClassVar[Mapping[str, tuple[str, ...]]] = {"retrieved_ids": ("session", "turn")}

    def recognises(self, head: bytes) -> bool:
        """By its three fields."""
        return marked(head, "sample_id", "question", "retrieved_ids")

    def records(self, value: Any) -> Any:
        """A record a question, in the dataset's order."""
        return listed(value)

    def answer(self, record: Mapping[str, Any], ranking: str, granularity: str) -> Answer:
        """The sessions as the dataset calls them; turns are called the same."""
        question = Question(haystack=text_of(record, "sample_id"), text=text_of(record, "question"))
        found = texts_of(record, ranking)
        return Answer(question, None if found is None else [session_id(one) for one in found])
