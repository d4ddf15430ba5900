"""MemPalace's results on LoCoMo: a list of records with `retrieved_ids`, sessions or turns.

A record names its conversation (`sample_id`) and its question's words; sessions are `session_N`.
"""

from __future__ import annotations

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


class MemPalace:
    """Reader of results_locomo_*.json."""

    about: ClassVar[str] = "MemPalace on LoCoMo (sample_id, question, retrieved_ids)"
    rankings: ClassVar[Mapping[str, tuple[str, ...]]] = {"retrieved_ids": ("session", "turn")}
    texts: ClassVar[bool] = False

    def recognises(self, head: bytes) -> bool:
        """By its three fields."""
        return marked(head, "sample_id", "question", "retrieved_ids")

    def records(self, value: Any) -> Any:
        """A record a question, in the dataset's order."""
        return listed(value)

    def question(self, record: Mapping[str, object]) -> QuestionRef:
        """By its conversation and its words."""
        return QuestionRef(haystack=text_of(record, "sample_id"), text=text_of(record, "question"))

    def found(self, record: Mapping[str, object], ranking: str) -> list[str] | None:
        """The sessions as the dataset calls them; turns are called the same."""
        return session_ids(ids_of(record, ranking))
