"""The official reader of LoCoMo, as in its gpt_utils.py, with one question per call.

Turns are shown best first with the dates of their sessions. Temporal questions get a hint. An
adversarial question offers its wrong answer beside the correct one ("not mentioned"): LoCoMo asks
it as a choice of two, which does not test whether a system abstains. Prompts are read from the
authors' file.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.extensions.answers.answering.context import Context
from harness.extensions.answers.answering.prompts import Prompt, raw_file
from harness.extensions.answers.answering.published_code import LOCOMO_PROMPTS, Code, published_code
from harness.extensions.answers.answering.replies import ModelMessage
from harness.io.records import Record, read_json_record

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
    """A conversation and its questions, with the fields that are read."""

    sample_id: str
    conversation: dict[str, list[LoCoMoTurn] | str]
    qa: list[LoCoMoQuestion]


class LoCoMoReader:
    """The reader; it has no variants."""

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
        """Returns the reply; where answers were offered, the one of its letter."""
        if prompt.choices is None:
            return text.strip()
        reply = text.strip().lower()
        if len(reply) == 1:
            return prompt.choices["a" if reply == "a" else "b"].strip()
        if len(reply) == 3:
            return prompt.choices["a" if reply == "(a)" else "b"].strip()
        return reply

    def _add(self, sample: LoCoMoSample) -> None:
        """Adds the turns of a conversation as they are shown, and its questions."""
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
        """Returns the question as it is asked, and the answers that it offers. Their order is
        random in the script; here the question's id determines it."""
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
        raise UsageError(
            f"{code.path}: does not hold the prompts of questions; is it the authors' file?"
        )
    return texts[_TEMPORAL], texts[_ADVERSARIAL], not_mentioned
