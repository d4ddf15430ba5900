"""Lists of memory texts by question, under the names that several projects give them.

planetaryescape's cognitive-memory-benchmarks (`conv_index`, `question_index`, under
`per_question`), LightMem's toolkit (`retrieved_memories`, the question in `qa_pair`), and records
with a `question_id`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from harness.runfiles.run_formats import (
    QuestionRef,
    id_of,
    list_of,
    listed,
    marked,
    text_of,
)

_FIELDS = ("retrieved_contents", "retrieved_memories", "retrieved_texts")
_TEXTS = ("memory", "text", "content", "used_content")


class RetrievedTexts:
    """Reader of texts, which are then held against the documents."""

    about: ClassVar[str] = f"lists of memory texts by question ({', '.join(_FIELDS)})"
    rankings: ClassVar[Mapping[str, tuple[str, ...]]] = {"texts": ("turn", "session")}
    texts: ClassVar[bool] = True

    def recognises(self, head: bytes) -> bool:
        """By one of the fields, and one that says which question."""
        return any(marked(head, name) for name in _FIELDS) and any(
            marked(head, name) for name in ("question_id", "question_index", "question")
        )

    def records(self, value: Any) -> Any:
        """A list, or the one under `per_question` or `results`."""
        under = next((one for one in ("per_question", "results") if one in value), "")
        return listed(value, under)

    def question(self, record: Mapping[str, object]) -> QuestionRef:
        """By the dataset's id, or by its conversation with its words and, if given, its place."""
        pair = record.get("qa_pair")
        record = {**record, **pair} if isinstance(pair, dict) else record
        if record.get("question_id") is not None:
            return QuestionRef(id=id_of(record["question_id"], "question_id"))
        haystack, place = (_whole(record, name) for name in ("conv_index", "question_index"))
        return QuestionRef(
            haystack=text_of(record, "sample_id") if haystack is None else haystack,
            text=text_of(record, "question"),
            place=place,
        )

    def found(self, record: Mapping[str, object], ranking: str) -> list[str] | None:
        """The texts, as they stand there."""
        found = next((one for name in _FIELDS if (one := list_of(record, name)) is not None), None)
        return None if found is None else [_text(one) for one in found]


def _whole(record: Mapping[str, object], name: str) -> int | None:
    value = record.get(name)
    if value is None or type(value) is int:
        return value
    raise TypeError(f"{name} is not a whole number")


def _text(one: Any) -> str:
    if isinstance(one, str):
        return one
    name = next((name for name in _TEXTS if name in one), None)
    if name is None:
        raise ValueError(f"a text is under none of {', '.join(_TEXTS)}")
    return text_of(one, name)
