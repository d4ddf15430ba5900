"""Readers of published rankings, one small class per format.

A reader declares the fields that identify its format, and returns records, the question of a
record, and what was retrieved (see `harness.runfiles.run_formats.RunFormat`).
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
    """Base of most readers: one record per question, with retrieved ids in a field.

    `fields` identify the format; `id_field` holds the dataset's question id; records are a list, or
    the list under the key `under`.
    """

    fields: ClassVar[tuple[str, ...]]
    id_field: ClassVar[str] = "question_id"
    under: ClassVar[str] = ""
    rankings: ClassVar[Mapping[str, tuple[str, ...]]]
    texts: ClassVar[bool] = False

    def recognises(self, head: bytes) -> bool:
        """Recognises the format by its fields."""
        return marked(head, *self.fields)

    def records(self, value: Any) -> Any:
        """Returns one record per question."""
        return listed(value, self.under)

    def question(self, record: Mapping[str, object]) -> QuestionRef:
        """Returns the dataset's question id."""
        return QuestionRef(id=text_of(record, self.id_field))

    def found(self, record: Mapping[str, object], ranking: str) -> list[str] | None:
        """Returns the ids unchanged."""
        return ids_of(record, ranking)


class AgentMemoryBenchmarks(PublishedIds):
    """Reads results.jsonl of RonsenbergVI's agent-memory-benchmarks, with turns and sessions.

    `question_id` is the conversation and the index of the question (`conv-26:0`) on LoCoMo, and the
    dataset's id elsewhere. The fields with results are absent if the question has no evidence, and
    if the results name no turn or session.
    """

    about = "RonsenbergVI/agent-memory-benchmarks (question_id, retrieved_turn_ids)"
    fields = ("question_id", "sample_id", "num_hits", "retrieved_session_ids")
    rankings: ClassVar = {"retrieved_turn_ids": ("turn",), "retrieved_session_ids": ("session",)}

    def question(self, record: Mapping[str, object]) -> QuestionRef:
        """Returns the conversation and index on LoCoMo, and the dataset's id elsewhere."""
        id_ = text_of(record, "question_id")
        haystack, _, place = id_.rpartition(":")
        if haystack != text_of(record, "sample_id") or not _NUMBER.fullmatch(place):
            return QuestionRef(id=id_)
        return QuestionRef(haystack=haystack, place=int(place), text=text_of(record, "question"))

    def found(self, record: Mapping[str, object], ranking: str) -> list[str] | None:
        """Returns turns, or the session of each place."""
        found = ids_of(record, ranking)
        of_locomo = self.question(record).id is None
        return _locomo_sessions(found) if of_locomo and "session" in ranking else found


class Cogito(PublishedIds):
    """Reads per_question.json of cogito-ergo on LongMemEval, a two-stage system.

    `s2_top5_ids` is the output of the system, `s1_top5_ids` that of its first stage.
    """

    about = "roli-lpci/cogito-ergo on LongMemEval (qid, s2_top5_ids after s1_top5_ids)"
    id_field = "qid"
    rankings: ClassVar = {"s2_top5_ids": ("session",), "s1_top5_ids": ("session",)}

    def recognises(self, head: bytes) -> bool:
        """Recognises the question id and either stage."""
        return marked(head, "qid") and any(marked(head, one) for one in self.rankings)


class LongMemEvalLog(PublishedIds):
    """Reads the retrieval log of LongMemEval's run_retrieval.py; sessions or turns.

    Each line is a record of the dataset with `retrieval_results.ranked_items`, best first:
    `corpus_id` is the id of a session or turn (`_N`, from 1, over all turns). The script writes
    `noans` for `answer` in the id of a session or turn without marked evidence. Duplicate sessions
    of a haystack are duplicated in the log; `haystack_session_ids` of the record lists them.
    """

    about = "LongMemEval's retrieval log (retrieval_results.ranked_items[].corpus_id)"
    fields = ("question_id", "retrieval_results", "ranked_items", "corpus_id")
    rankings: ClassVar = {"ranked_items": ("session", "turn")}

    def found(self, record: Mapping[str, object], ranking: str) -> list[str] | None:
        """Returns the original ids; the second copy of a session is `ID#2`.

        Further repetitions of an id, as in a log of chunks, are the same document.
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
    """Reads the results of mem0's LoCoMo evaluation and of its many copies.

    An object maps the index of each conversation to a list of records. A memory has a text and a
    score. Memories of both speakers are merged by score, or alternately if scores are missing.
    """

    about = "mem0's evaluation of LoCoMo (speaker_1_memories, speaker_2_memories): texts"
    fields = ("question", "speaker_1_memories", "speaker_2_memories")
    rankings: ClassVar = {"memories": ("turn", "session")}
    texts = True

    def records(self, value: Any) -> Iterator[Any]:
        """Yields the records of all conversations, each with its place."""
        if not isinstance(value, dict):
            raise TypeError("not an object of conversations")
        if not any(isinstance(records, list) for records in value.values()):
            raise TypeError("no conversation is a list of records")
        for place, records in value.items():
            # An invalid conversation becomes an unreadable record.
            for record in records if isinstance(records, list) else [None]:
                yield {**record, "conversation": place} if isinstance(record, dict) else record

    def question(self, record: Mapping[str, object]) -> QuestionRef:
        """Returns the index of the conversation and the text of the question."""
        place = text_of(record, "conversation")
        haystack = int(place) if _NUMBER.fullmatch(place) else place
        return QuestionRef(haystack=haystack, text=text_of(record, "question"))

    def found(self, record: Mapping[str, object], ranking: str) -> list[str] | None:
        """Returns the texts of both speakers' memories."""
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

    Its systems index turns and name a session once per retrieved turn; repetitions are dropped
    without taking a rank.
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
        """Returns the conversation and the text of the question."""
        return QuestionRef(haystack=text_of(record, "sample_id"), text=text_of(record, "question"))

    def found(self, record: Mapping[str, object], ranking: str) -> list[str] | None:
        """Returns sessions under the dataset's ids; turn ids are equal."""
        return _locomo_sessions(ids_of(record, ranking))


class PrecisionMemBenchReport(PublishedIds):
    """Reads retrieval-report-*.json of PrecisionMemBench: the beliefs found by search.

    Beliefs that its code shows without a search (`pinnedBeliefs`) are not part of a ranking.
    """

    about = "tenurehq/precisionMemBench (cases[].caseId, relevantBeliefs)"
    fields = ("caseId", "relevantBeliefs", "retrievalPrecision")
    id_field = "caseId"
    under = "cases"
    rankings: ClassVar = {"relevantBeliefs": ("belief",)}


_TEXT_LISTS = ("retrieved_contents", "retrieved_memories", "retrieved_texts")
_TEXTS = ("memory", "text", "content", "used_content")


class RetrievedTexts(PublishedIds):
    """Reads lists of memory texts by question, under the names used by several projects.

    These are planetaryescape's cognitive-memory-benchmarks (`conv_index`, `question_index`, under
    `per_question`), LightMem's toolkit (`retrieved_memories`, the question in `qa_pair`), and
    records with a `question_id`. Texts are then matched to documents.
    """

    about = f"lists of memory texts by question ({', '.join(_TEXT_LISTS)})"
    rankings: ClassVar = {"texts": ("turn", "session")}
    texts = True

    def recognises(self, head: bytes) -> bool:
        """Recognises one of the fields and a reference to the question."""
        return any(marked(head, name) for name in _TEXT_LISTS) and any(
            marked(head, name) for name in ("question_id", "question_index", "question")
        )

    def records(self, value: Any) -> Any:
        """Returns a list, or the one under `per_question` or `results`."""
        under = next((one for one in ("per_question", "results") if one in value), "")
        return listed(value, under)

    def question(self, record: Mapping[str, object]) -> QuestionRef:
        """Returns the dataset's id, or conversation, text and, if given, index of the question."""
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
        """Returns the texts unchanged."""
        lists = (list_of(record, name) for name in _TEXT_LISTS)
        found = next((one for one in lists if one is not None), None)
        return None if found is None else [_text(one) for one in found]


def _locomo_sessions(names: list[str] | None) -> list[str] | None:
    """Returns the dataset's `S3` for `session_3`, `3` or `S3`; other values are unchanged."""
    if names is None:
        return None
    found = [(name, _LOCOMO_SESSION.fullmatch(name)) for name in names]
    return [f"S{int(session[1])}" if session else name for name, session in found]


def _score(value: Any) -> float:
    score = float(value) if isinstance(value, int | float | str) else math.nan
    if math.isnan(score):
        raise ValueError(f"{value!r} is not a score")
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
        raise ValueError(f"no text found under {', '.join(_TEXTS)}")
    return text_of(one, name)
