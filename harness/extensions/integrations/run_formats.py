"""Forms in which projects publish what they retrieved, one small reader a form.

A reader says by which fields a file is recognised, where its records stand, how a record names its
question and what was found (see `harness.runfiles.run_formats.RunFormat`).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain, zip_longest
from typing import Any, ClassVar

from harness.runfiles.run_formats import (
    QuestionRef,
    id_of,
    ids_of,
    list_of,
    listed,
    marked,
    text_of,
)

_NUMBER = re.compile(r"[0-9]{1,6}")
_LOCOMO_SESSION = re.compile(r"(?:session_|S)?(\d+)")


class PublishedIds:
    """What most readers share: a record a question, and the ids that were found in a field.

    `fields` mark a file of the form; `id_field` holds the dataset's id of the question; the records
    stand in a list, or in the one that is called `under`.
    """

    fields: ClassVar[tuple[str, ...]]
    id_field: ClassVar[str] = "question_id"
    under: ClassVar[str] = ""
    rankings: ClassVar[Mapping[str, tuple[str, ...]]]
    texts: ClassVar[bool] = False

    def recognises(self, head: bytes) -> bool:
        """By its fields."""
        return marked(head, *self.fields)

    def records(self, value: Any) -> Any:
        """A record a question."""
        return listed(value, self.under)

    def question(self, record: Mapping[str, object]) -> QuestionRef:
        """By the dataset's id."""
        return QuestionRef(id=text_of(record, self.id_field))

    def found(self, record: Mapping[str, object], ranking: str) -> list[str] | None:
        """The ids as they stand there."""
        return ids_of(record, ranking)


class AgentMemoryBenchmarks(PublishedIds):
    """Reads results.jsonl of RonsenbergVI's agent-memory-benchmarks, with turns and sessions.

    `question_id` is the conversation and the question's place in it (`conv-26:0`) on LoCoMo, and
    the dataset's own id elsewhere. The fields of what was retrieved are left out where the question
    has no evidence, and where what came names no turn or session.
    """

    about = "RonsenbergVI/agent-memory-benchmarks (question_id, retrieved_turn_ids)"
    fields = ("question_id", "sample_id", "num_hits", "retrieved_session_ids")
    rankings: ClassVar = {"retrieved_turn_ids": ("turn",), "retrieved_session_ids": ("session",)}

    def question(self, record: Mapping[str, object]) -> QuestionRef:
        """By its place in a conversation of LoCoMo, and by the dataset's id elsewhere."""
        id_ = text_of(record, "question_id")
        haystack, _, place = id_.rpartition(":")
        if haystack != text_of(record, "sample_id") or not _NUMBER.fullmatch(place):
            return QuestionRef(id=id_)
        return QuestionRef(haystack=haystack, place=int(place), text=text_of(record, "question"))

    def found(self, record: Mapping[str, object], ranking: str) -> list[str] | None:
        """Turns, or the session of each place."""
        found = ids_of(record, ranking)
        of_locomo = self.question(record).id is None
        return _locomo_sessions(found) if of_locomo and "session" in ranking else found


class Cogito(PublishedIds):
    """Reads per_question.json of cogito-ergo on LongMemEval, a system in two stages.

    `s2_top5_ids` is what the system returns, `s1_top5_ids` what its first stage hands to its
    re-ranker.
    """

    about = "roli-lpci/cogito-ergo on LongMemEval (qid, s2_top5_ids after s1_top5_ids)"
    id_field = "qid"
    rankings: ClassVar = {"s2_top5_ids": ("session",), "s1_top5_ids": ("session",)}

    def recognises(self, head: bytes) -> bool:
        """By the question's id and either stage."""
        return marked(head, "qid") and any(marked(head, one) for one in self.rankings)


class LongMemEvalLog(PublishedIds):
    """Reads the retrieval log of LongMemEval's own run_retrieval.py; sessions or turns.

    Lines of the dataset's records, each with `retrieval_results.ranked_items`: `corpus_id`, a
    session's id or a turn's (`_N`, from 1, over all turns), best first. Where nothing in a session
    is marked as evidence, or a turn is not, the script writes its id with `noans` for `answer`. A
    session that stands twice in a haystack stands twice in a log; `haystack_session_ids` of the
    record say which do.
    """

    about = "LongMemEval's retrieval log (retrieval_results.ranked_items[].corpus_id)"
    fields = ("question_id", "retrieval_results", "ranked_items", "corpus_id")
    rankings: ClassVar = {"ranked_items": ("session", "turn")}

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


class Mem0Format(PublishedIds):
    """Reads the results of mem0's evaluation of LoCoMo, and of the many that copied it.

    An object of conversations, by their place in the dataset, each a list of records; a memory has
    a text and a score, and both speakers' memories are shown, the better score first where both
    have scores, else in turns.
    """

    about = "mem0's evaluation of LoCoMo (speaker_1_memories, speaker_2_memories): texts"
    fields = ("question", "speaker_1_memories", "speaker_2_memories")
    rankings: ClassVar = {"memories": ("turn", "session")}
    texts = True

    def records(self, value: Any) -> Iterator[Any]:
        """The records of all conversations, each with its place."""
        if not isinstance(value, dict):
            raise TypeError("no object of conversations")
        if not any(isinstance(records, list) for records in value.values()):
            raise TypeError("no conversation is a list of records")
        for place, records in value.items():
            # A conversation that is none is a record that cannot be read.
            for record in records if isinstance(records, list) else [None]:
                yield {**record, "conversation": place} if isinstance(record, dict) else record

    def question(self, record: Mapping[str, object]) -> QuestionRef:
        """By the conversation's place and the question's words."""
        place = text_of(record, "conversation")
        haystack = int(place) if _NUMBER.fullmatch(place) else place
        return QuestionRef(haystack=haystack, text=text_of(record, "question"))

    def found(self, record: Mapping[str, object], ranking: str) -> list[str] | None:
        """The texts of both speakers' memories."""
        given = [list_of(record, speaker) for speaker in self.fields[1:]]
        if given == [None, None]:
            return None
        memories = [one or [] for one in given]
        if all(one.get("score") is not None for one in chain(*memories)):
            merged = sorted(chain(*memories), key=lambda one: -_score(one["score"]))
        else:
            merged = [one for pair in zip_longest(*memories) for one in pair if one is not None]
        return [text_of(one, "memory") for one in merged]


class MemoryCoreEval(PublishedIds):
    """Reads the files of memory-core-eval on LongMemEval.

    Its systems index turns, and a session is named once for each of its turns that was found: the
    first place of a session counts, and its repeats take no places.
    """

    about = "Evanyuan-builder/memory-core-eval on LongMemEval (results[].retrieved_sessions)"
    fields = ("results", "question_id", "retrieved_sessions")
    under = "results"
    rankings: ClassVar = {"retrieved_sessions": ("session",)}


class MemPalace(PublishedIds):
    """Reads results_locomo_*.json of MemPalace: sessions, called `session_N`, or turns."""

    about = "MemPalace on LoCoMo (sample_id, question, retrieved_ids)"
    fields = ("sample_id", "question", "retrieved_ids")
    rankings: ClassVar = {"retrieved_ids": ("session", "turn")}

    def question(self, record: Mapping[str, object]) -> QuestionRef:
        """By its conversation and its words."""
        return QuestionRef(haystack=text_of(record, "sample_id"), text=text_of(record, "question"))

    def found(self, record: Mapping[str, object], ranking: str) -> list[str] | None:
        """The sessions as the dataset calls them; turns are called the same."""
        return _locomo_sessions(ids_of(record, ranking))


_TEXT_LISTS = ("retrieved_contents", "retrieved_memories", "retrieved_texts")
_TEXTS = ("memory", "text", "content", "used_content")


class RetrievedTexts(PublishedIds):
    """Reads lists of memory texts by question, under the names that several projects give them.

    planetaryescape's cognitive-memory-benchmarks (`conv_index`, `question_index`, under
    `per_question`), LightMem's toolkit (`retrieved_memories`, the question in `qa_pair`), and
    records with a `question_id`. The texts are then held against the documents.
    """

    about = f"lists of memory texts by question ({', '.join(_TEXT_LISTS)})"
    rankings: ClassVar = {"texts": ("turn", "session")}
    texts = True

    def recognises(self, head: bytes) -> bool:
        """By one of the fields, and one that says which question."""
        return any(marked(head, name) for name in _TEXT_LISTS) and any(
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
        lists = (list_of(record, name) for name in _TEXT_LISTS)
        found = next((one for one in lists if one is not None), None)
        return None if found is None else [_text(one) for one in found]


def _locomo_sessions(names: list[str] | None) -> list[str] | None:
    """`S3`, as the dataset has it, for `session_3`, `3` or `S3`; what is none stays as it is."""
    if names is None:
        return None
    found = [(name, _LOCOMO_SESSION.fullmatch(name)) for name in names]
    return [f"S{int(session[1])}" if session else name for name, session in found]


def _score(value: Any) -> float:
    score = float(value) if isinstance(value, int | float | str) else math.nan
    if math.isnan(score):
        raise ValueError(f"{value!r} is no score")
    return score


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
