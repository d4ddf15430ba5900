"""Runs of cogito-ergo on LongMemEval: per_question.json, a system in two stages.

`s2_top5_ids` is what the system returns, `s1_top5_ids` what its first stage hands to its re-ranker.
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


class Cogito:
    """Reader of per_question.json; the second stage unless the first is asked for."""

    about: ClassVar[str] = (
        "roli-lpci/cogito-ergo on LongMemEval (qid, s2_top5_ids after s1_top5_ids)"
    )
    rankings: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "s2_top5_ids": ("session",),
        "s1_top5_ids": ("session",),
    }
    texts: ClassVar[bool] = False

    def recognises(self, head: bytes) -> bool:
        """By the question's id and either stage."""
        return marked(head, "qid") and any(marked(head, one) for one in self.rankings)

    def records(self, value: Any) -> Any:
        """A record a question."""
        return listed(value)

    def question(self, record: Mapping[str, object]) -> QuestionRef:
        """By the dataset's id."""
        return QuestionRef(id=text_of(record, "qid"))

    def found(self, record: Mapping[str, object], ranking: str) -> list[str] | None:
        """The five sessions of a stage."""
        return ids_of(record, ranking)
