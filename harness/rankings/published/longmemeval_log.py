"""The retrieval log of LongMemEval's own run_retrieval.py, which its generation script reads.

Lines of the dataset's records, each with `retrieval_results.ranked_items`: `corpus_id`, a session's
id or a turn's (`_N`, from 1, over all turns), best first. Where nothing in a session is marked as
evidence, or a turn is not, the script writes its id with `noans` for `answer`. A session that
stands twice in a haystack stands twice in a log.
"""

from __future__ import annotations

from collections import Counter
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


@register_run_format("longmemeval")
class LongMemEvalLog:
    """Reader of the log; sessions or turns, whichever its ids are."""

    about: ClassVar[str] = (
        "LongMemEval's retrieval log (retrieval_results.ranked_items[].corpus_id)"
    )
    rankings: ClassVar[Mapping[str, tuple[str, ...]]] = {"ranked_items": ("session", "turn")}

    def recognises(self, head: bytes) -> bool:
        """By its three fields."""
        return marked(head, "question_id", "retrieval_results", "ranked_items", "corpus_id")

    def records(self, value: Any) -> Any:
        """A line a question."""
        return listed(value)

    def answer(self, record: Mapping[str, Any], ranking: str, granularity: str) -> Answer:
        """The ids without the script's twist; the second copy of a session is `ID#2`."""
        named = Counter[str]()
        documents = []
        for item in record["retrieval_results"][ranking]:
            id_ = text_of(item, "corpus_id").replace("noans", "answer")
            named[id_] += 1
            documents.append(_copy(id_, named[id_], granularity))
        return Answer(Question(id=text_of(record, "question_id")), documents)


def _copy(id_: str, number: int, granularity: str) -> str:
    """What the dataset calls the copy of a session, or a turn of it; a copy is never evidence."""
    if number == 1:
        return id_
    if granularity == "session":
        return f"{id_}#{number}"
    session, _, turn = id_.rpartition("_")
    return f"{session}#{number}_{turn}"
