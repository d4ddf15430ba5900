"""Generates queries with a language model, and validates its replies.

The prompt requests only questions that the document answers. A single document cannot show that a
whole collection lacks an answer, so unanswerable questions could not be graded by construction.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from msgspec import structs

from harness.errors import RunError, UsageError
from harness.extensions.answers.answering.client import ModelClient
from harness.extensions.answers.answering.replies import (
    Call,
    ModelMessage,
    without_reasoning,
)
from harness.extensions.labelling.generate.leakage import MIN_QUOTE
from harness.extensions.labelling.generate.templates import POINTING
from harness.extensions.labelling.generate.write_project import SetQuery, new_id
from harness.extensions.labelling.project import LabelDocument, QueryOrigin
from harness.extensions.labelling.reports import EndpointUsage
from harness.io.progress import progress
from harness.io.records import Record, convert, decode
from harness.schema import Ability

_ABILITIES = tuple(ability for ability in Ability if ability is not Ability.ABSTENTION)

_SYSTEM = (
    "You write test questions for a search engine. Answer with one JSON object and nothing else."
)

_TASK = """Write {number} that a person could type who does not know that the document below exists,
and that the document alone answers.

- Ask about what this document says and others are unlikely to say: names, numbers, reasons, events.
- Use words of your own. Never copy {quote} or more words in a row from the document.
- Never put the answer, or the words of it, into the question.
- Each question must be understood by itself: never write "this document", "the text", "the author".
- "answer" is the shortest right answer, from the document.
- "ability" is "lookup", or "temporal" if it asks when something was, or in which order.

Answer with JSON of this form:
{{"questions": [{{"query": "...", "answer": "...", "ability": "lookup"}}]}}

Document:
{document}"""

_FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*)\n```\s*", re.DOTALL)


def prompt(model: str, document: LabelDocument, each: int) -> Call:
    """Returns the request about one document: messages without parameters, as servers reject
    different ones."""
    number = "one question" if each == 1 else f"{each} different questions"
    task = _TASK.format(number=number, quote=MIN_QUOTE, document=document.content)
    messages = ModelMessage(role="system", content=_SYSTEM), ModelMessage(role="user", content=task)
    return Call(model, messages, {})


class ModelGenerator:
    """Asks a model about documents; `excluded` counts failed documents and questions by reason."""

    def __init__(
        self, client: ModelClient, documents: Sequence[LabelDocument], *, quiet: bool
    ) -> None:
        self._client, self._documents, self._quiet = client, documents, quiet
        self.excluded: Counter[str] = Counter()
        self._refusals: list[str] = []
        self._cached_answers = 0

    def generate(self, rows: Sequence[int], each: int) -> list[SetQuery]:
        """Returns up to `each` queries for each of these documents, in their order.

        Uses cached replies. Raises RunError if the endpoint fails or the spending limit is reached;
        replies received until then are cached.
        """
        calls = [prompt(self._client.model, self._documents[row], each) for row in rows]
        answered = 0
        with progress(
            len(rows), "documents", f"ask {self._client.model}", quiet=self._quiet
        ) as bar:

            def count(n: int) -> None:
                nonlocal answered
                answered += n
                bar.update(n)

            try:
                replies = self._client.complete(calls, count)
            except RunError as error:
                raise RunError(
                    f"{error}; {answered} of {len(rows)} documents are answered and cached; run "
                    "the same command to continue"
                ) from None
        queries = []
        for row, asked in zip(rows, replies, strict=True):
            self._cached_answers += not asked.new
            if asked.reply.refused:
                self.excluded["documents that the endpoint refused"] += 1
                self._refusals.append(f"{self._documents[row].id}: {asked.reply.refused}")
            else:
                queries += self._queries(
                    without_reasoning(asked.reply.text), row, self._documents[row], each
                )
        return queries

    def usage(self) -> EndpointUsage:
        """Returns the calls and tokens of this generator, and the number of cached answers."""
        return EndpointUsage(
            endpoint=self._client.address,
            model=self._client.model,
            cached_answers=self._cached_answers,
            refused=self._refusals,
            **structs.asdict(self._client.usage()),
        )

    def _queries(self, reply: str, row: int, document: LabelDocument, each: int) -> list[SetQuery]:
        fenced = _FENCED.fullmatch(reply)
        try:
            questions = decode(fenced[1] if fenced else reply, ModelReply, "reply").questions
        except UsageError:
            self.excluded["documents whose answer is not the JSON that was asked for"] += 1
            return []
        if not questions:
            self.excluded["documents answered with no question"] += 1
        queries = []
        for question in questions[:each]:
            try:
                checked = convert(question, ModelQuestion, "question")
            except UsageError:
                self.excluded["questions without a query and an answer"] += 1
                continue
            if reason := _fault(checked):
                self.excluded[reason] += 1
                continue
            haystack = next(iter(document.haystacks), None)
            text = " ".join(checked.query.split())
            id_, answers = new_id(text, haystack), (str(checked.answer).strip(),)
            ability = Ability(str(checked.ability))
            origin = QueryOrigin(method="model", model=self._client.model)
            queries.append(SetQuery(id_, text, haystack, None, (row,), answers, ability, origin))
        return queries


class ModelReply(Record, forbid_unknown_fields=False):
    """A model's reply; its questions are validated one by one."""

    questions: list[object]


class ModelQuestion(Record, forbid_unknown_fields=False):
    """A question that a model wrote."""

    query: str
    answer: str | int | float
    ability: object = Ability.LOOKUP


def _fault(question: ModelQuestion) -> str:
    """Returns the reason to exclude a question; empty for a valid one."""
    if not question.query.strip() or not str(question.answer).strip():
        return "questions without a query and an answer"
    if question.ability not in _ABILITIES:
        return "questions with an unknown ability"
    if POINTING.search(question.query):
        return 'questions that speak of "this document"'
    return ""
