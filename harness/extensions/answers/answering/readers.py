"""Readers: build a prompt from a question and its context. Each has a signature.

`plain` is built in, `longmemeval-official` and `locomo-official` are those of the datasets'
authors, and the path of a TOML file selects a user's template (`templates`). Words after a colon
select a variant (`longmemeval-official:nl:cot`).
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from harness.datasets.adapters.json_stream import records
from harness.datasets.reader import Dataset
from harness.errors import UsageError, suggest
from harness.extensions.answers.answering.context import Context, ContextItem
from harness.extensions.answers.answering.published_code import (
    GENERATION,
    LOCOMO_PROMPTS,
    Code,
    published_code,
)
from harness.extensions.answers.answering.replies import ModelMessage
from harness.extensions.answers.answering.templates import (
    Prompt,
    Reader,
    ReaderTemplate,
    built_in_template,
    fill,
    format_time,
    raw_file,
    read_template,
    template_digest,
)
from harness.io.records import Record, convert, read_json_record
from harness.runs.folder.export import original_id

OFFICIAL = ("longmemeval-official", "locomo-official")
READERS = ("plain", *OFFICIAL)


def make_reader(name: str, dataset: Dataset, model: str, source: Path | None = None) -> Reader:
    """Creates a reader by name or from a template file. `source` is a clone of the authors'
    repository.

    Raises UsageError for an unknown name, an invalid template or an unsuitable dataset, and
    RunError if the authors' file cannot be downloaded.
    """
    base, *variant = name.split(":")
    if base == "longmemeval-official":
        return LongMemEvalReader(dataset, variant, source)
    if base == "locomo-official":
        return LoCoMoReader(dataset, variant, model, source)
    built_in = built_in_template("reader", base)
    path = built_in or Path(name)
    if built_in is None and not path.is_file():
        known = f"{suggest(base, [*READERS])}, or the path of a file"
        raise UsageError(f"unknown --reader {name!r}{known}")
    if built_in is not None and variant:
        raise UsageError(f"--reader {name!r}: {base} has no variants")
    if source is not None:
        raise UsageError("--reader-source is for the official readers; omit it")
    return TemplateReader(path, dataset)


class TemplateReader:
    """A reader defined by a template file."""

    scores_truncated = False

    def __init__(self, path: Path, dataset: Dataset) -> None:
        self._template = read_template(path, ReaderTemplate)
        self._dataset = dataset
        self.signature = f"{self._template.name}/{self._template.version}{template_digest(path)}"

    def prompts(self, contexts: Sequence[Context]) -> Iterator[Prompt]:
        """Fills in the template."""
        template, table = self._template, self._dataset.query_table
        texts, stamps = table["text"].to_pylist(), table["timestamp"].to_pylist()
        for context in contexts:
            items = context.items
            if template.order == "time":
                items = by_time(items)
            documents = [
                fill(
                    template.document,
                    {
                        "text": item.text,
                        "date": format_time(item.timestamp, "undated"),
                        "speaker": item.speaker,
                        "number": str(number),
                    },
                )
                for number, item in enumerate(items, 1)
            ]
            values = {
                "documents": template.separator.join(documents) or template.empty,
                "question": texts[context.query],
                "date": format_time(stamps[context.query], "not known"),
            }
            messages = template.messages(template.prompt, values)
            yield Prompt(context.query, messages, template.params)

    def answer(self, prompt: Prompt, text: str) -> str:
        """Returns the reply without surrounding white space."""
        return text.strip()


def by_time(items: Sequence[ContextItem]) -> tuple[ContextItem, ...]:
    """Sorts items by time; undated items come first, in their original order."""
    return tuple(sorted(items, key=lambda one: (one.timestamp is not None, one.timestamp or 0)))


_TEMPORAL, _ADVERSARIAL = 2, 5
_PARAMS = {"n": 1, "temperature": 0, "max_tokens": 32}


class LoCoMoTurn(Record, forbid_unknown_fields=False):
    """A turn of a conversation; `blip_caption` describes an image."""

    speaker: str
    dia_id: str
    text: str
    blip_caption: str | None = None


class LoCoMoQuestion(Record, forbid_unknown_fields=False):
    """A question; adversarial ones may have `adversarial_answer` in place of `answer`."""

    question: str
    category: int
    answer: str | int | float | None = None
    adversarial_answer: str | int | float | None = None


class LoCoMoSample(Record, forbid_unknown_fields=False):
    """A conversation and its questions; only the fields that are used."""

    sample_id: str
    conversation: dict[str, list[LoCoMoTurn] | str]
    qa: list[LoCoMoQuestion]


class LoCoMoReader:
    """The official reader of LoCoMo, as in its gpt_utils.py, with one question per call.

    Turns are shown best first, with the dates of their sessions. Temporal questions get a hint. An
    adversarial question offers two choices, the wrong answer and the correct one ("not mentioned"),
    as in LoCoMo; this does not test whether a system abstains.
    """

    scores_truncated = True

    def __init__(
        self, dataset: Dataset, variant: Sequence[str], model: str, source: Path | None
    ) -> None:
        if variant:
            raise UsageError("locomo-official has no variants")
        if dataset.manifest.granularity != "turn":
            raise UsageError("locomo-official shows turns: run with --granularity turn")
        code = published_code(LOCOMO_PROMPTS, source)
        self._dataset = dataset
        self._prompt, self._choice_prompt = (
            code.constant("QA_PROMPT"),
            code.constant("QA_PROMPT_CAT_5"),
        )
        self._hint, self._offer, self._not_mentioned = _additions(code)
        self._role = "system" if "gpt-3.5" in model else "user"
        self._turns: dict[tuple[str, str], str] = {}
        self._questions: dict[str, LoCoMoQuestion] = {}
        for sample in read_json_record(raw_file(dataset, "locomo"), list[LoCoMoSample]):
            self._add(sample)
        self.signature = f"locomo-official/3eb6f2c#{code.sha256[:8]}"

    def prompts(self, contexts: Sequence[Context]) -> Iterator[Prompt]:
        """Yields a prompt for each question."""
        ids, names = self._dataset.query_ids, self._dataset.haystack_bases
        for context in contexts:
            haystack = names[self._dataset.query_haystack[context.query]]
            rows = [row for item in context.items for row in item.rows]
            documents = [self._dataset.documents[row].id for row in rows]
            turns = "\n".join(self._turns[haystack, id_] for id_ in documents)
            question, choices = self._question(ids[context.query])
            template = self._prompt if choices is None else self._choice_prompt
            text = f"{turns}\n\n{template.format(question)}"
            message = ModelMessage(role=self._role, content=text)
            yield Prompt(context.query, (message,), _PARAMS, choices)

    def answer(self, prompt: Prompt, text: str) -> str:
        """Returns the reply; for a multiple-choice question, the answer of its letter."""
        if prompt.choices is None:
            return text.strip()
        reply = text.strip().lower()
        if len(reply) == 1:
            return prompt.choices["a" if reply == "a" else "b"].strip()
        if len(reply) == 3:
            return prompt.choices["a" if reply == "(a)" else "b"].strip()
        return reply

    def _add(self, sample: LoCoMoSample) -> None:
        """Adds the turns of a conversation as prompt text, and its questions."""
        for name, turns in sample.conversation.items():
            if isinstance(turns, str):
                continue
            date = sample.conversation.get(f"{name}_date_time", "")
            for turn in turns:
                text = f'{turn.speaker} said, "{turn.text}"'
                if turn.blip_caption is not None:
                    text += f" and shared {turn.blip_caption}"
                self._turns[sample.sample_id, turn.dia_id] = f"{date}: {text}"
        for number, question in enumerate(sample.qa):
            self._questions[f"{sample.sample_id}_qa{number}"] = question

    def _question(self, id_: str) -> tuple[str, Mapping[str, str] | None]:
        """Returns the question as prompted, and the answers that it offers. Their order is random
        in the script; here it depends on the question's id."""
        question = self._questions[id_]
        text = question.question
        if question.category == _TEMPORAL:
            return text + self._hint, None
        if question.category != _ADVERSARIAL:
            return text, None
        wrong = question.adversarial_answer if question.answer is None else question.answer
        answers = [self._not_mentioned, str(wrong)]
        if hashlib.sha256(id_.encode()).digest()[0] % 2:
            answers.reverse()
        return text + self._offer.format(*answers), dict(zip("ab", answers, strict=True))


def _additions(code: Code) -> tuple[str, str, str]:
    """Returns the texts added to questions of categories 2 and 5, and the text for no answer."""
    texts: dict[object, str] = {}
    not_mentioned = ""
    for node in ast.walk(ast.Module([*code.function("get_gpt_answers")], [])):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Compare):
            category = node.test.comparators[0]
            for inner in (one for part in node.body for one in ast.walk(part)):
                if (
                    isinstance(category, ast.Constant)
                    and isinstance(inner, ast.BinOp)
                    and isinstance(inner.right, ast.Constant)
                    and isinstance(inner.right.value, str)
                ):
                    texts.setdefault(category.value, inner.right.value)
        call = node if isinstance(node, ast.Call) and len(node.args) == 2 else None
        if (
            call is not None
            and isinstance(call.func, ast.Attribute)
            and call.func.attr == "format"
            and isinstance(call.args[0], ast.Constant)
        ):
            not_mentioned = not_mentioned or str(call.args[0].value)
    if not {_TEMPORAL, _ADVERSARIAL} <= texts.keys() or not not_mentioned:
        raise UsageError(f"{code.path}: contains no prompts; name the authors' file")
    return texts[_TEMPORAL], texts[_ADVERSARIAL], not_mentioned


_MAX_TOKENS = {False: 500, True: 800}
"""Maximum tokens of a reply, without and with chain of thought."""

Turn = dict[str, str | bool | None]
"""A turn with the fields of the raw file: role, content, has_answer."""


class LongMemEvalQuestion(Record, forbid_unknown_fields=False):
    """A record of LongMemEval's file; only the fields that are used."""

    question_id: str
    question: str
    question_date: str
    haystack_session_ids: list[str]
    haystack_dates: list[str]
    haystack_sessions: list[list[Turn]]


class LongMemEvalReader:
    """The official reader of LongMemEval, as in its run_generation.py.

    It shows sessions, or rounds (a turn and the next one), of the raw records by date, as JSON or,
    in the variant `nl`, as plain text; `cot` requests chain of thought. The script truncates at
    126,500 tokens; this reader does not, so the endpoint rejects a prompt that is too long.
    """

    scores_truncated = True

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

        If a haystack contains a session twice, the later one is shown, as in the script.
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
