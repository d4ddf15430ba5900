"""LoCoMo's own way to ask over retrieved turns, as its gpt_utils.py does, a question a call.

Turns stand best first with the dates of their sessions. To questions that ask for a time a hint is
added. An adversarial question offers its wrong answer beside the right one, that nothing is said of
it: a choice of two, which is how LoCoMo asks it, and no test of whether a system abstains. Prompts
are read out of the authors' file.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.dataset.reader import Dataset
from harness.errors import UsageError
from harness.files import read_json
from harness.runs.answering.prompts import Prompt, raw_file
from harness.runs.answering.published_code import LOCOMO_PROMPTS, Code, published_code
from harness.runs.answering.shown import Context

_TEMPORAL, _ADVERSARIAL = 2, 5
_PARAMS = {"n": 1, "temperature": 0, "max_tokens": 32}


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
        self._prompt, self._of_choice = code.constant("QA_PROMPT"), code.constant("QA_PROMPT_CAT_5")
        self._hint, self._offer, self._not_said = _added(code)
        self._role = "system" if "gpt-3.5" in model else "user"
        self._turns: dict[tuple[str, str], str] = {}
        self._asked: dict[str, Mapping[str, Any]] = {}
        for record in read_json(raw_file(dataset, "locomo")):
            self._take(record)
        self.signature = f"locomo-official/3eb6f2c#{code.sha256[:8]}"

    def prompts(self, contexts: Sequence[Context]) -> Iterator[Prompt]:
        """One for each question."""
        ids, names = self._dataset.query_ids, self._dataset.haystack_bases
        for context in contexts:
            haystack = names[self._dataset.query_haystack[context.query]]
            rows = [row for one in context.shown for row in one.rows]
            documents = [self._dataset.documents[row].id for row in rows]
            turns = "\n".join(self._turns[haystack, id_] for id_ in documents)
            asked, choices = self._question(ids[context.query])
            template = self._prompt if choices is None else self._of_choice
            text = f"{turns}\n\n{template.format(asked)}"
            yield Prompt(context.query, ({"role": self._role, "content": text},), _PARAMS, choices)

    def answer(self, prompt: Prompt, text: str) -> str:
        """The reply; where answers were offered, the one whose letter it is."""
        if prompt.choices is None:
            return text.strip()
        said = text.strip().lower()
        if len(said) == 1:
            return prompt.choices["a" if said == "a" else "b"].strip()
        if len(said) == 3:
            return prompt.choices["a" if said == "(a)" else "b"].strip()
        return said

    def _take(self, record: Mapping[str, Any]) -> None:
        """The turns of a conversation as they are shown, and its questions."""
        talk, id_ = record["conversation"], record["sample_id"]
        for name, turns in talk.items():
            if not isinstance(turns, list):
                continue
            date = talk.get(f"{name}_date_time", "")
            for turn in turns:
                said = f'{turn["speaker"]} said, "{turn["text"]}"'
                if "blip_caption" in turn:
                    said += f" and shared {turn['blip_caption']}"
                self._turns[id_, turn["dia_id"]] = f"{date}: {said}"
        for number, question in enumerate(record["qa"]):
            self._asked[f"{id_}_qa{number}"] = question

    def _question(self, id_: str) -> tuple[str, Mapping[str, str] | None]:
        """The question as it is put, and the answers that it offers. Which of the two stands first
        is a matter of chance there, and of the question's id here."""
        question = self._asked[id_]
        text = question["question"]
        if question["category"] == _TEMPORAL:
            return text + self._hint, None
        if question["category"] != _ADVERSARIAL:
            return text, None
        wrong = str(question["answer"] if "answer" in question else question["adversarial_answer"])
        answers = [self._not_said, wrong]
        if hashlib.sha256(id_.encode()).digest()[0] % 2:
            answers.reverse()
        return text + self._offer.format(*answers), dict(zip("ab", answers, strict=True))


def _added(code: Code) -> tuple[str, str, str]:
    """What is added to questions of category 2 and of 5, and what stands for no answer."""
    texts: dict[Any, str] = {}
    not_said = ""
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
            not_said = not_said or str(call.args[0].value)
    if not {_TEMPORAL, _ADVERSARIAL} <= texts.keys() or not not_said:
        raise UsageError(f"{code.path}: does not say how questions are put; is it the authors'?")
    return texts[_TEMPORAL], texts[_ADVERSARIAL], not_said
