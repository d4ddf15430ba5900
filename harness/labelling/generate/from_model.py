"""Queries that a language model writes about a document, held to what was asked of it.

It is asked for questions alone that the document answers. Unanswerable ones are not asked for:
whether nothing in a whole collection answers a question cannot be known from the document it was
made from, so it would be no judgement by construction.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import Any

import orjson

from harness.dataset.progress import progress
from harness.errors import RunError, UsageError
from harness.files import fsync_path
from harness.labelling.generate.endpoint import Chat, Message
from harness.labelling.generate.sources import Source
from harness.labelling.generate.written import Made
from harness.schema import Ability

ANSWERS = "answers.jsonl"
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


def prompt(source: Source, each: int) -> list[Message]:
    """The messages for one document."""
    number = "one question" if each == 1 else f"{each} different questions"
    task = _TASK.format(number=number, document=source.content)
    return [{"role": "system", "content": _SYSTEM}, {"role": "user", "content": task}]


class Asker:
    """Asks a model about documents; `left_out` counts, by reason, what gave no query."""

    def __init__(
        self,
        chat: Chat,
        journal: Journal,
        sources: Sequence[Source],
        concurrency: int,
        *,
        quiet: bool,
    ) -> None:
        self._chat, self._journal, self._sources = chat, journal, sources
        self._concurrency, self._quiet = concurrency, quiet
        self.left_out: Counter[str] = Counter()
        self.refusals: list[str] = []
        self.from_journal = 0

    def deal(self, rows: Sequence[int], each: int) -> list[Made]:
        """Up to `each` queries of each of these documents, in their order.

        Documents whose answer is in the journal are not asked about again. Raises RunError where
        the endpoint fails; what was answered until then is kept.
        """
        sources = self._sources
        asked = {row: prompt(sources[row], each) for row in rows}
        hashes = {row: _hash_of(self._chat.model, asked[row]) for row in rows}
        missing = [row for row in rows if self._journal.get(hashes[row]) is None]
        self.from_journal += len(rows) - len(missing)

        def ask(row: int) -> None:
            reply = self._chat.ask(asked[row])
            if reply.refused:
                self.refusals.append(f"{sources[row].id}: {reply.refused}")
            else:
                self._journal.add(hashes[row], sources[row].key, reply.text, reply.usage)

        try:
            self._all(ask, missing)
        except RunError as error:
            done = sum(self._journal.get(hashes[row]) is not None for row in rows)
            raise RunError(
                f"{error}; {done} of {len(rows)} documents are answered and kept, and the same "
                "command goes on from there"
            ) from None
        made = []
        for row in rows:
            answer = self._journal.get(hashes[row])
            if answer is None:
                self.left_out["documents that the endpoint refused"] += 1
            else:
                made += self._made(answer, row, sources[row], each)
        return made

    def cost(self) -> dict[str, Any]:
        """Endpoint, model, calls and tokens of this time, and answers that were there already."""
        said = {**self._chat.report(), "answers_from_before": self.from_journal}
        return {**said, "refused": self.refusals} if self.refusals else said

    def _all(self, ask: Any, rows: list[int]) -> None:
        threads = ThreadPoolExecutor(self._concurrency)
        futures = [threads.submit(ask, row) for row in rows]
        with progress(len(rows), "documents", f"ask {self._chat.model}", quiet=self._quiet) as bar:
            try:
                for future in futures:
                    future.result()
                    bar.update(1)
            finally:
                # What is under way is paid for, so it is waited for and kept; no more is begun.
                threads.shutdown(cancel_futures=True)

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
            origin = {"by": "model", "model": self._chat.model}
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


# -- Answers that are kept -------------------------------------------------------------------------


class Journal:
    """The model's answers in a file, one JSON line a document. The file need not be there yet.

    An answer is on the disk before it counts, so a call that was stopped goes on where it was, and
    nothing is paid for twice. It is found again by the hash of model and messages: another prompt,
    model or text is another question.
    """

    def __init__(self, path: Path) -> None:
        """Reads the file; a last line that was cut off is dropped, and said.

        Raises UsageError, naming the line, for any other that cannot be read.
        """
        self._path = path
        self._lock = Lock()
        self._held: dict[str, str] = {}
        data = path.read_bytes() if path.is_file() else b""
        *whole, rest = data.split(b"\n")
        if rest:
            print(f"note: {path}: its last line was cut off and is dropped", file=sys.stderr)
            os.truncate(path, len(data) - len(rest))
        for number, line in enumerate(whole, 1):
            try:
                record = orjson.loads(line)
                self._held[record["asked"]] = str(record["answer"])
            except (ValueError, TypeError, KeyError):
                raise UsageError(
                    f"{path}, line {number}: is no answer; take the line out, and it is asked again"
                ) from None

    def get(self, asked: str) -> str | None:
        """The answer to what has this hash; None where it was not asked."""
        return self._held.get(asked)

    def add(self, asked: str, document: str, answer: str, usage: dict[str, Any] | None) -> None:
        """Keep an answer; safe to call from several threads."""
        record = {"asked": asked, "document": document, "answer": answer, "usage": usage}
        with self._lock:
            new = not self._path.exists()
            with open(self._path, "ab") as file:
                file.write(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE))
                file.flush()
                os.fsync(file.fileno())
            if new:
                fsync_path(self._path.parent)
            self._held[asked] = answer


def _hash_of(model: str, messages: list[Message]) -> str:
    """What an answer is found again by."""
    return hashlib.sha256(orjson.dumps([model, messages])).hexdigest()
