"""Queries that a language model writes about a document, held to what was asked of it.

It is asked for questions alone that the document answers. Unanswerable ones are not asked for:
whether nothing in a whole collection answers a question cannot be known from the document it was
made from, so it would be no judgement by construction.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import orjson

from harness.dataset.progress import progress
from harness.errors import RunError
from harness.labelling.generate.sources import Source
from harness.labelling.generate.written import Made
from harness.records.base import to_plain
from harness.runs.answering.client import ModelClient
from harness.runs.answering.replies import Call, Message
from harness.schema import Ability

_ABILITIES = tuple(ability for ability in Ability if ability is not Ability.ABSTENTION)

_SYSTEM = (
    "You write test questions for a search engine. Answer with one JSON object and nothing else."
)

_TASK = """Write {number} that a person could type who does not know that the document below exists,
and that the document alone answers.

- Ask about what this document says and others are unlikely to say: names, numbers, reasons, events.
- Use words of your own. Never copy four or more words in a row from the document.
- Each question must be understood by itself: never write "this document", "the text", "the author".
- "answer" is the shortest right answer, from the document.
- "ability" is "lookup", or "temporal" if it asks when something was, or in which order.

Answer with JSON of this form:
{{"questions": [{{"query": "...", "answer": "...", "ability": "lookup"}}]}}

Document:
{document}"""

_POINTING = re.compile(
    r"\b(?:this|the (?:above|given|following|provided)) "
    r"(?:document|text|passage|article|page|note|excerpt)\b|"
    r"\b(?:according to|in|does|says?) the (?:document|text|passage|excerpt)\b",
    re.IGNORECASE,
)

_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*)\n```\s*", re.DOTALL)


def prompt(model: str, source: Source, each: int) -> Call:
    """What a model is asked about one document. It holds the messages alone, as servers differ in
    which parameters they refuse."""
    number = "one question" if each == 1 else f"{each} different questions"
    task = _TASK.format(number=number, document=source.content)
    messages = Message(role="system", content=_SYSTEM), Message(role="user", content=task)
    return Call(model, messages, {})


class FromModel:
    """Asks a model about documents; `left_out` counts, by reason, what gave no query."""

    def __init__(self, client: ModelClient, sources: Sequence[Source], *, quiet: bool) -> None:
        self._client, self._sources, self._quiet = client, sources, quiet
        self.left_out: Counter[str] = Counter()
        self.refusals: list[str] = []
        self.from_before = 0

    def deal(self, rows: Sequence[int], each: int) -> list[Made]:
        """Up to `each` queries of each of these documents, in their order.

        What was answered before is not asked again. Raises RunError where the endpoint fails or the
        limit of spending is reached; what was answered until then is kept.
        """
        calls = [prompt(self._client.model, self._sources[row], each) for row in rows]
        came = 0
        with progress(
            len(rows), "documents", f"ask {self._client.model}", quiet=self._quiet
        ) as bar:

            def done(n: int) -> None:
                nonlocal came
                came += n
                bar.update(n)

            try:
                found = self._client.complete(calls, done)
            except RunError as error:
                raise RunError(
                    f"{error}; {came} of {len(rows)} documents are answered and kept, and the same "
                    "command goes on from there"
                ) from None
        made = []
        for row, asked in zip(rows, found, strict=True):
            self.from_before += not asked.new
            if asked.reply.refused:
                self.left_out["documents that the endpoint refused"] += 1
                self.refusals.append(f"{self._sources[row].id}: {asked.reply.refused}")
            else:
                made += self._made(asked.reply.text, row, self._sources[row], each)
        return made

    def cost(self) -> dict[str, Any]:
        """Endpoint, model, calls and tokens of this time, and answers that were there already."""
        about = {"endpoint": self._client.address, "model": self._client.model}
        said = {**about, **to_plain(self._client.usage()), "answers_from_before": self.from_before}
        return {**said, "refused": self.refusals} if self.refusals else said

    def _made(self, answer: str, row: int, source: Source, each: int) -> list[Made]:
        questions = _questions(answer)
        if questions is None:
            self.left_out[
                "documents answered with something else than the JSON that was asked for"
            ] += 1
            return []
        made = []
        for one in questions[:each]:
            found = _one(one)
            if isinstance(found, str):
                self.left_out[found] += 1
                continue
            text, answers, ability = found
            haystack = source.haystacks[0] if source.haystacks else None
            origin = {"by": "model", "model": self._client.model}
            made.append(Made(text, haystack, (row,), origin, ability=ability, answers=(answers,)))
        if not questions:
            self.left_out["documents answered with no question"] += 1
        return made


def _questions(answer: str) -> list[Any] | None:
    """The questions of an answer, of which a code fence is taken off; None for another form."""
    fenced = _FENCED.fullmatch(answer)
    try:
        found = orjson.loads(fenced[1] if fenced else answer)
    except orjson.JSONDecodeError:
        return None
    questions = found.get("questions") if isinstance(found, dict) else None
    return questions if isinstance(questions, list) else None


def _one(question: Any) -> tuple[str, str, str] | str:
    """Text, answer and ability of a question, or why it is left out."""
    if not isinstance(question, dict):
        return "questions without a query and an answer"
    text, answer = question.get("query"), question.get("answer")
    ability = question.get("ability", Ability.LOOKUP)
    if not isinstance(text, str) or not text.strip() or not isinstance(answer, str | int | float):
        return "questions without a query and an answer"
    if not str(answer).strip():
        return "questions without a query and an answer"
    if ability not in _ABILITIES:
        return "questions with an unknown ability"
    if _POINTING.search(text):
        return 'questions that speak of "this document"'
    return " ".join(text.split()), str(answer).strip(), str(ability)
