"""The retrieval log of LongMemEval's own run_retrieval.py, which its generation script reads.

Lines of the dataset's records, each with `retrieval_results.ranked_items`: `corpus_id`, a session's
id or a turn's (`_N`, from 1, over all turns), best first. Where nothing in a session is marked as
evidence, or a turn is not, the script writes its id with `noans` for `answer`. A session that
stands twice in a haystack stands twice in a log; `haystack_session_ids` of the record say which do.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, ClassVar

from harness.runfiles.run_formats import (
    QuestionRef,
    list_of,
    listed,
    marked,
    text_of,
)


class LongMemEvalLog:
    """Reader of the log; sessions or turns, whichever its ids are."""

    about: ClassVar[str] = (
        "LongMemEval's retrieval log (retrieval_results.ranked_items[].corpus_id)"
    )
    rankings: ClassVar[Mapping[str, tuple[str, ...]]] = {"ranked_items": ("session", "turn")}
    texts: ClassVar[bool] = False

    def recognises(self, head: bytes) -> bool:
        """By its three fields."""
        return marked(head, "question_id", "retrieval_results", "ranked_items", "corpus_id")

    def records(self, value: Any) -> Any:
        """A line a question."""
        return listed(value)

    def question(self, record: Mapping[str, object]) -> QuestionRef:
        """By the dataset's id."""
        return QuestionRef(id=text_of(record, "question_id"))

    def found(self, record: Mapping[str, object], ranking: str) -> list[str] | None:
        """The ids without the script's twist; the second copy of a session is `ID#2`.

        An id that is named more often than its session stands in the haystack, as by a log of
        chunks, is the same document again.
        """
        results = record.get("retrieval_results")
        if results is None:
            return None
        if not isinstance(results, Mapping):
            raise TypeError("retrieval_results is not an object")
        items = list_of(results, ranking)
        if items is None:
            return None
        copies = Counter(list_of(record, "haystack_session_ids"))
        named = Counter[str]()
        documents = []
        for item in items:
            id_ = text_of(item, "corpus_id").replace("noans", "answer")
            named[id_] += 1
            session = id_ if id_ in copies else id_.rpartition("_")[0]
            again = 1 < named[id_] <= copies[session]
            copy = f"{session}#{named[id_]}{id_.removeprefix(session)}"
            documents.append(copy if again else id_)
        return documents
