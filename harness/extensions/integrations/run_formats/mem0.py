"""Results of mem0's evaluation of LoCoMo, and of the many that copied it.

An object of conversations, by their place in the dataset, each a list of records; a memory has a
text and a score, and both speakers' memories are shown: `speaker_1_memories` and
`speaker_2_memories`, the better score first where both have scores, else in turns.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from itertools import chain, zip_longest
from typing import Any, ClassVar

from harness.runfiles.run_formats import (
    QuestionRef,
    list_of,
    marked,
    text_of,
)

_SPEAKERS = ("speaker_1_memories", "speaker_2_memories")
_PLACE = "conversation"
_NUMBER = re.compile(r"[0-9]{1,6}")


class Mem0Format:
    """Reader of memories by conversation."""

    about: ClassVar[str] = (
        "mem0's evaluation of LoCoMo (speaker_1_memories, speaker_2_memories): texts"
    )
    rankings: ClassVar[Mapping[str, tuple[str, ...]]] = {"memories": ("turn", "session")}
    texts: ClassVar[bool] = True

    def recognises(self, head: bytes) -> bool:
        """By the fields of both speakers."""
        return marked(head, "question", *_SPEAKERS)

    def records(self, value: Any) -> Iterator[Any]:
        """The records of all conversations, each with its place."""
        if not isinstance(value, dict):
            raise TypeError("no object of conversations")
        if not any(isinstance(records, list) for records in value.values()):
            raise TypeError("no conversation is a list of records")
        for place, records in value.items():
            # A conversation that is none is a record that cannot be read.
            for record in records if isinstance(records, list) else [None]:
                yield {**record, _PLACE: place} if isinstance(record, dict) else record

    def question(self, record: Mapping[str, object]) -> QuestionRef:
        """By the conversation's place and the question's words."""
        place = text_of(record, _PLACE)
        return QuestionRef(
            haystack=int(place) if _NUMBER.fullmatch(place) else place,
            text=text_of(record, "question"),
        )

    def found(self, record: Mapping[str, object], ranking: str) -> list[str] | None:
        """The texts of both speakers' memories."""
        given = [list_of(record, speaker) for speaker in _SPEAKERS]
        if given == [None, None]:
            return None
        memories = [one or [] for one in given]
        if all(one.get("score") is not None for one in chain(*memories)):
            merged = sorted(chain(*memories), key=lambda one: -_score(one["score"]))
        else:
            merged = [one for pair in zip_longest(*memories) for one in pair if one is not None]
        return [text_of(one, "memory") for one in merged]


def _score(value: Any) -> float:
    score = float(value) if isinstance(value, int | float | str) else math.nan
    if math.isnan(score):
        raise ValueError(f"{value!r} is no score")
    return score
