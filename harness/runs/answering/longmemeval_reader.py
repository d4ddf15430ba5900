"""LongMemEval's own way to show what was retrieved, as its run_generation.py does.

Sessions, or rounds (a turn and the next one), of the dataset's own records, in the order of their
dates, as JSON or as plain text. Its prompts are read out of the authors' file. Nothing is cut to a
model's context, as the script does beyond 126,500 tokens: an endpoint refuses what is too long.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.dataset.adapters.json_stream import records
from harness.dataset.reader import Dataset
from harness.errors import UsageError
from harness.runs.answering.prompts import Prompt, raw_file
from harness.runs.answering.published_code import GENERATION, published_code
from harness.runs.answering.shown import Context
from harness.runs.folder.longmemeval_log import original_id

_TOKENS = {False: 500, True: 800}
"""Of a reply, without and with chain of thought."""


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
        chosen = {"cot": self._steps, "merge_key_expansion_into_value": "none"}
        chosen["retriever_type"] = f"flat-{dataset.manifest.granularity}"
        prompt = ("prepare_prompt", "answer_prompt_template")
        self._prompt = code.template(*prompt, chosen, 3)
        self._alone = code.template(*prompt, {**chosen, "retriever_type": "no-retrieval"}, 1)
        self._entry = code.format_added("prepare_prompt", "history_string", chosen, 3)
        form = "nl" if self._plain else "json"
        self.signature = f"longmemeval-official/9e0b455:{form}{':cot' if self._steps else ''}"

    def prompts(self, contexts: Sequence[Context]) -> Iterator[Prompt]:
        """One for each question, in the order of the raw file."""
        ids = self._dataset.query_ids
        mine = {ids[context.query]: context for context in contexts}
        for record in records(self._raw):
            context = mine.pop(record.value["question_id"], None)
            if context is not None:
                yield self._of(context, record.value)
        if mine:
            raise UsageError(f"{self._raw}: has no question {next(iter(mine))!r}; another file?")

    def answer(self, prompt: Prompt, text: str) -> str:
        """The reply, without blanks around it."""
        return text.strip()

    def _of(self, context: Context, record: Mapping[str, Any]) -> Prompt:
        params = {"n": 1, "temperature": 0, "max_tokens": _TOKENS[self._steps]}
        if not context.shown:
            text = self._alone.format(record["question"])
        else:
            history = "".join(
                self._entry.format(number, date, self._text(turns))
                for number, (date, turns) in enumerate(self._chunks(context, record), 1)
            )
            text = self._prompt.format(history, record["question_date"], record["question"])
        return Prompt(context.query, ({"role": "user", "content": text},), params)

    def _chunks(
        self, context: Context, record: Mapping[str, Any]
    ) -> list[tuple[str, list[dict[str, Any]]]]:
        """Date and turns of what is shown, by date; a turn with the one that follows it.

        Of a session that stands twice in a haystack the later one is shown, as in the script.
        """
        sessions = dict(
            zip(record["haystack_session_ids"], record["haystack_sessions"], strict=True)
        )
        dates = dict(zip(record["haystack_session_ids"], record["haystack_dates"], strict=True))
        rows = [row for one in context.shown for row in one.rows]
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

    def _text(self, turns: Sequence[Mapping[str, Any]]) -> str:
        shown = [{k: v for k, v in turn.items() if k != "has_answer"} for turn in turns]
        if not self._plain:
            return f"\n{json.dumps(shown)}"
        return "".join(f"\n\n{turn['role']}: {turn['content'].strip()}" for turn in shown)
