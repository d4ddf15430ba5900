"""Judges: build the prompt for an answer and its reference, and parse the verdict from the reply.

`plain` is built in, `longmemeval-official` is LongMemEval's own, and the path of a TOML file
selects a user's template (`templates`). A reply without yes or no is undecided, never no.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from harness.datasets.reader import Dataset
from harness.errors import UsageError, suggest
from harness.extensions.answers.answering.published_code import EVALUATION, published_code
from harness.extensions.answers.answering.replies import (
    REASONING,
    ModelMessage,
    without_reasoning,
)
from harness.extensions.answers.answering.templates import (
    JudgeTemplate,
    built_in_template,
    format_time,
    read_template,
    template_digest,
)
from harness.schema import Ability, Query

JUDGES = ("plain", "longmemeval-official")
OFFICIAL_MODEL = "gpt-4o-2024-08-06"
"""The only model that LongMemEval's own script accepts as a judge."""

JudgePrompt = tuple[tuple[ModelMessage, ...], Mapping[str, object]]
"""Messages and parameters of a call."""


class Judge(Protocol):
    """A judge. `name` and `version` identify its protocol, which includes the model; `signature`
    names the model and the prompt."""

    name: str
    version: int
    signature: str

    def prompt(self, query: int, answer: str) -> JudgePrompt:
        """Returns the call that judges an answer to the question at `query`. Raises UsageError for
        an unsuitable question."""
        ...

    def verdict(self, reply: str) -> bool | None:
        """Returns whether the answer is correct; None for an undecided reply."""
        ...


def make_judge(name: str, dataset: Dataset, model: str, source: Path | None = None) -> Judge:
    """Creates a judge by name or from a template file, for `model`. `source` is a clone of the
    authors' repository. Raises UsageError for an unknown name or an invalid template."""
    if name == "longmemeval-official":
        return LongMemEvalJudge(dataset, model, source)
    built_in = built_in_template("judge", name)
    path = built_in or Path(name)
    if built_in is None and not path.is_file():
        known = f"{suggest(name, [*JUDGES])}, or the path of a file"
        raise UsageError(f"unknown --judge {name!r}{known}")
    if source is not None:
        raise UsageError("--judge-source is for the official judges; omit it")
    return TemplateJudge(path, dataset, model)


class TemplateJudge:
    """A judge defined by a template file; it strips reasoning from replies."""

    def __init__(self, path: Path, dataset: Dataset, model: str) -> None:
        self._template = template = read_template(path, JudgeTemplate)
        self._dataset = dataset
        digest = template_digest(path)
        self.name, self.version = f"judge:{template.name}{digest}({model})", template.version
        self.signature = (
            f"{template.name}/{template.version}{digest}({model}),reasoning:{REASONING}"
        )
        self._correct = re.compile(template.correct)
        self._incorrect = re.compile(template.incorrect)

    def prompt(self, query: int, answer: str) -> JudgePrompt:
        """Fills in the template, or its variant for unanswerable questions if it has one."""
        question = self._dataset.query(query)
        template = self._template
        prompt = template.prompt
        if question.ability == Ability.ABSTENTION:
            prompt = template.unanswerable or prompt
        values = {
            "question": question.text,
            "answer": _reference(question) or "(there is no answer)",
            "response": answer,
            "date": format_time(question.timestamp, "not known"),
        }
        return template.messages(prompt, values), template.params

    def verdict(self, reply: str) -> bool | None:
        """Applies the template's expressions; undecided if both or neither match."""
        reply = without_reasoning(reply)
        correct = self._correct.search(reply) is not None
        return None if correct == (self._incorrect.search(reply) is not None) else correct


class LongMemEvalJudge:
    """The judge of evaluate_qa.py, with a prompt per question type that is read from that file.

    Its protocol is called official only for the model that the authors' script accepts.
    """

    def __init__(self, dataset: Dataset, model: str, source: Path | None) -> None:
        if dataset.name.partition("/")[0] != "longmemeval" or dataset.manifest.ids_only:
            raise UsageError(f"longmemeval-official judges LongMemEval, and this is {dataset.name}")
        self._code = published_code(EVALUATION, source)
        self._dataset = dataset
        kind = "longmemeval-official" if model == OFFICIAL_MODEL else "longmemeval-prompts"
        self.name, self.version = f"judge:{kind}({model})", 1
        self.signature = f"{kind}/9e0b455({model})"
        self._templates: dict[tuple[str, bool], str] = {}

    def prompt(self, query: int, answer: str) -> JudgePrompt:
        """Fills in the template of the question's type, or of abstention (`_abs` in its id)."""
        question = self._dataset.query(query)
        kind = question.category or "", "_abs" in question.id
        if kind not in self._templates:
            values: dict[str, str | bool] = {"task": kind[0], "abstention": kind[1]}
            self._templates[kind] = self._code.template(
                "get_anscheck_prompt", "template", values, 3
            )
        text = self._templates[kind].format(question.text, _reference(question), answer)
        params = {"n": 1, "temperature": 0, "max_tokens": 10}
        return (ModelMessage(role="user", content=text),), params

    def verdict(self, reply: str) -> bool | None:
        """Returns True if the reply or its reasoning contains `yes`, as in the script. A reply with
        neither yes nor no counts as no in the script, and is undecided here."""
        text = reply.lower()
        if "yes" in text:
            return True
        return False if re.search(r"\bno\b", text) else None


def _reference(query: Query) -> str:
    """Joins the reference answers."""
    return " / ".join(query.answers)
