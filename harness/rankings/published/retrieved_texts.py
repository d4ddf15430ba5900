"""Lists of memory texts by question, under the names that several projects give them.

planetaryescape's cognitive-memory-benchmarks (`conv_index`, `question_index`, under
`per_question`), LightMem's toolkit (`retrieved_memories`, the question in `qa_pair`), and records
with a `question_id`.
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
)

_FIELDS = ("retrieved_contents", "retrieved_memories", "retrieved_texts")
_TEXTS = ("memory", "text", "content", "used_content")


@register_run_format("retrieved-texts")
class RetrievedTexts:
    """Reader of texts, which are then held against the documents."""

    about: ClassVar[str] = f"lists of memory texts by question ({', '.join(_FIELDS)})"
    rankings: ClassVar[Mapping[str, tuple[str, ...]]] = {"texts": ("turn", "session")}

    def recognises(self, head: bytes) -> bool:
        """By one of the fields, and one that says which question."""
        return any(marked(head, name) for name in _FIELDS) and any(
            marked(head, name) for name in ("question_id", "question_index", "question")
        )

    def records(self, value: Any) -> Any:
        """A list, or the one under `per_question` or `results`."""
        under = next((one for one in ("per_question", "results") if one in value), "")
        return listed(value, under)

    def answer(self, record: Mapping[str, Any], ranking: str, granularity: str) -> Answer:
        """The texts, as they stand there."""
        found = next((record[name] for name in _FIELDS if name in record), None)
        if found is None:
            return Answer(_question(record))
        if not isinstance(found, list):
            raise TypeError("the texts are not a list")
        return Answer(_question(record), texts=[_text(one) for one in found])


def _question(record: Mapping[str, Any]) -> Question:
    pair = record.get("qa_pair")
    record = {**record, **pair} if isinstance(pair, dict) else record
    if "question_id" in record:
        return Question(id=str(record["question_id"]))
    haystack = record["conv_index"] if "conv_index" in record else record.get("sample_id")
    return Question(
        haystack=haystack, text=text_of(record, "question"), place=record.get("question_index")
    )


def _text(one: Any) -> str:
    if isinstance(one, str):
        return one
    return text_of(one, next(name for name in _TEXTS if name in one))
