"""Runs of memory-core-eval on LongMemEval: `results`, each with `retrieved_sessions`.

Its systems index turns, and a session is named once for each of its turns that was found: the first
place of a session counts, and its repeats take no places.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from harness.runfiles.run_formats import (
    QuestionRef,
    ids_of,
    listed,
    marked,
    text_of,
)


class MemoryCoreEval:
    """Reader of its JSON files."""

    about: ClassVar[str] = (
        "Evanyuan-builder/memory-core-eval on LongMemEval (results[].retrieved_sessions)"
    )
    rankings: ClassVar[Mapping[str, tuple[str, ...]]] = {"retrieved_sessions": ("session",)}
    texts: ClassVar[bool] = False

    def recognises(self, head: bytes) -> bool:
        """By its three fields."""
        return marked(head, "results", "question_id", "retrieved_sessions")

    def records(self, value: Any) -> Any:
        """A record a question, under `results`."""
        return listed(value, "results")

    def question(self, record: Mapping[str, object]) -> QuestionRef:
        """By the dataset's id."""
        return QuestionRef(id=text_of(record, "question_id"))

    def found(self, record: Mapping[str, object], ranking: str) -> list[str] | None:
        """The sessions, each as often as it stands there."""
        return ids_of(record, ranking)
