"""Results of mem0's evaluation of LoCoMo, and of the many that copied it.

An object of conversations, by their place in the dataset, each a list of records; a memory has a
text and a score, and both speakers' memories are shown: `speaker_1_memories` and
`speaker_2_memories`, the better score first where both have scores, else in turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain, zip_longest
from typing import Any, ClassVar

from harness.rankings.published.form import (
    Answer,
    Question,
    marked,
    register_run_format,
    text_of,
)

_SPEAKERS = ("speaker_1_memories", "speaker_2_memories")
_PLACE = "conversation"


@register_run_format("mem0")
class Mem0:
    """Reader of memories by conversation."""

    about: ClassVar[str] = (
        "mem0's evaluation of LoCoMo (speaker_1_memories, speaker_2_memories): texts"
    )
    rankings: ClassVar[Mapping[str, tuple[str, ...]]] = {"memories": ("turn", "session")}

    def recognises(self, head: bytes) -> bool:
        """By the fields of both speakers."""
        return marked(head, "question", *_SPEAKERS)

    def records(self, value: Any) -> Iterator[Any]:
        """The records of all conversations, each with its place."""
        if not isinstance(value, dict):
            raise TypeError("no object of conversations")
        for place, records in value.items():
            if not isinstance(records, list):
                raise TypeError(f"conversation {place} is not a list")
            for record in records:
                yield {**record, _PLACE: place} if isinstance(record, dict) else record

    def answer(self, record: Mapping[str, Any], ranking: str, granularity: str) -> Answer:
        """The texts of both speakers' memories."""
        place = text_of(record, _PLACE)
        question = Question(
            haystack=int(place) if place.isdigit() else place, text=text_of(record, "question")
        )
        memories = [record[speaker] for speaker in _SPEAKERS]
        if all("score" in one for one in chain(*memories)):
            merged = sorted(chain(*memories), key=lambda one: -float(one["score"]))
        else:
            merged = [one for pair in zip_longest(*memories) for one in pair if one is not None]
        return Answer(question, texts=[text_of(one, "memory") for one in merged])
