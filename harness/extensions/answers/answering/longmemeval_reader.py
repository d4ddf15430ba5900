"""The official reader of LongMemEval, as in its run_generation.py.

It shows sessions, or rounds (a turn and the next one), of the dataset's own records by date, as
JSON or as plain text. Its prompts are read from the authors' file. The script truncates beyond
126,500 tokens; this reader does not, and an endpoint rejects a prompt that is too long.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from harness.datasets.adapters.json_stream import records
from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.extensions.answers.answering.context import Context
from harness.extensions.answers.answering.prompts import Prompt, raw_file
from harness.extensions.answers.answering.published_code import GENERATION, published_code
from harness.extensions.answers.answering.replies import ModelMessage
from harness.io.records import Record, convert
from harness.runs.folder.export import original_id

_MAX_TOKENS = {False: 500, True: 800}
"""Of a reply, without and with chain of thought."""

Turn = dict[str, str | bool | None]
"""A turn with all of its fields, as the reader shows them: role, content, has_answer."""


class LongMemEvalQuestion(Record, forbid_unknown_fields=False):
    """A record of LongMemEval's file, with the fields that are read."""

    question_id: str
    question: str
    question_date: str
    haystack_session_ids: list[str]
    haystack_dates: list[str]
    haystack_sessions: list[list[Turn]]


class LongMemEvalReader:
    """The reader; variants are `nl` (plain text in place of JSON) and `cot` (step by step)."""

    def __init__(self, dataset: Dataset, variant: Sequence[str], source: Path | None) -> None:
        if unknown := sorted({*variant} - {"json", "nl", "cot"}):
            raise UsageError(f"longmemeval-official has no variant {unknown[0]!r}; it has nl, cot")
        if dataset.manifest.granularity not in ("session", "turn"):
            raise UsageError("longmemeval-official shows sessions or turns")
        self._dataset, self._raw = dataset, raw_file(dataset, "longmemeval")
        self._plain, self._steps = "nl" in variant, "cot" in variant
        code = published_code(GENERATION, source)
        chosen: dict[str, str | bool] = {
            "cot": self._steps,
            "merge_key_expansion_into_value": "none",
        }
        chosen["retriever_type"] = f"flat-{dataset.manifest.granularity}"
        prompt = ("prepare_prompt", "answer_prompt_template")
        self._prompt = code.template(*prompt, chosen, 3)
        self._no_context = code.template(*prompt, {**chosen, "retriever_type": "no-retrieval"}, 1)
        self._entry = code.format_added("prepare_prompt", "history_string", chosen, 3)
        form = "nl" if self._plain else "json"
        self.signature = f"longmemeval-official/9e0b455:{form}{':cot' if self._steps else ''}"

    def prompts(self, contexts: Sequence[Context]) -> Iterator[Prompt]:
        """Yields a prompt for each question, in the order of the raw file."""
        ids = self._dataset.query_ids
        missing = {ids[context.query]: context for context in contexts}
        for number, record in enumerate(records(self._raw)):
            where = f"{self._raw}: record {number}"
            question = convert(record.value, LongMemEvalQuestion, where)
            context = missing.pop(question.question_id, None)
            if context is not None:
                yield self._prompt_of(context, question)
        if missing:
            raise UsageError(f"{self._raw}: has no question {next(iter(missing))!r}; another file?")

    def answer(self, prompt: Prompt, text: str) -> str:
        """Returns the reply without surrounding white space."""
        return text.strip()

    def _prompt_of(self, context: Context, question: LongMemEvalQuestion) -> Prompt:
        params = {"n": 1, "temperature": 0, "max_tokens": _MAX_TOKENS[self._steps]}
        if not context.items:
            text = self._no_context.format(question.question)
        else:
            history = "".join(
                self._entry.format(number, date, self._text(turns))
                for number, (date, turns) in enumerate(self._chunks(context, question), 1)
            )
            text = self._prompt.format(history, question.question_date, question.question)
        return Prompt(context.query, (ModelMessage(role="user", content=text),), params)

    def _chunks(
        self, context: Context, question: LongMemEvalQuestion
    ) -> list[tuple[str, list[Turn]]]:
        """Returns date and turns of each session or round in the context, by date.

        If a haystack has a session twice, the later one is shown, as in the script.
        """
        ids = question.haystack_session_ids
        sessions = dict(zip(ids, question.haystack_sessions, strict=True))
        dates = dict(zip(ids, question.haystack_dates, strict=True))
        rows = [row for item in context.items for row in item.rows]
        documents = self._dataset.documents
        found = []
        for row in rows:
            document = documents[row]
            id_ = original_id(document.id, document.session or "")
            if id_ in sessions:
                found.append((dates[id_], sessions[id_]))
                continue
            session, _, number = id_.rpartition("_")
            found.append((dates[session], sessions[session][int(number) - 1 : int(number) + 1]))
        found.sort(key=lambda one: one[0])
        return found

    def _text(self, turns: Sequence[Turn]) -> str:
        shown = [{k: v for k, v in turn.items() if k != "has_answer"} for turn in turns]
        if not self._plain:
            return f"\n{json.dumps(shown)}"
        return "".join(f"\n\n{turn['role']}: {str(turn['content']).strip()}" for turn in shown)
