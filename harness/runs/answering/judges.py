"""Judges: how an answer and its reference are put to a model, and what in the reply is a verdict.

`plain` is this project's own, `longmemeval-official` LongMemEval's, and the path of a TOML file is
a judge of your own (`templates`). A verdict is yes, no, or neither: that is counted, never a no.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from harness.dataset.reader import Dataset
from harness.errors import UsageError, near
from harness.runs.answering.prompts import moment
from harness.runs.answering.published_code import EVALUATION, published_code
from harness.runs.answering.templates import Template, own_template, read_template
from harness.schema import Ability, Query

JUDGES = ("plain", "longmemeval-official")
OFFICIAL_MODEL = "gpt-4o-2024-08-06"
"""The one model whose judgements LongMemEval's own script takes."""


@dataclass(frozen=True)
class Case:
    """An answer to be judged: the row of its question, and what was said."""

    query: int
    answer: str


class Judge(Protocol):
    """A judge. `name` and `version` say what its numbers are called: another model is another
    protocol. `signature` says who judges, by what prompt."""

    name: str
    version: int
    signature: str

    def prompt(self, case: Case) -> tuple[tuple[Mapping[str, str], ...], Mapping[str, Any]]:
        """Messages and parameters. Raises UsageError for a question that it is not made for."""
        ...

    def verdict(self, reply: str) -> bool | None:
        """Whether the answer is right; None where the reply says neither."""
        ...


def judge(name: str, dataset: Dataset, model: str, source: Path | None = None) -> Judge:
    """The judge called `name`, or of a file, asking `model`. `source`: a clone of the authors'
    repository. Raises UsageError for an unknown name and for a file that is no template."""
    if name == "longmemeval-official":
        return LongMemEvalJudge(dataset, model, source)
    own = own_template("judge", name)
    path = own or Path(name)
    if own is None and not path.is_file():
        known = f"{near(name, [*JUDGES])}, or the path of a file"
        raise UsageError(f"unknown --judge {name!r}{known}")
    if source is not None:
        raise UsageError("--judge-source is for the official judges; leave it out")
    return TemplateJudge(read_template(path, "judge"), dataset, model)


class TemplateJudge:
    """A judge of a template file."""

    def __init__(self, template: Template, dataset: Dataset, model: str) -> None:
        self._template = template
        self._dataset = dataset
        own = f"#{template.digest}" if template.digest else ""
        self.name, self.version = f"judge:{template.name}{own}({model})", template.version
        self.signature = f"{template.signature}({model})"
        self._right, self._wrong = re.compile(template.right), re.compile(template.wrong)

    def prompt(self, case: Case) -> tuple[tuple[Mapping[str, str], ...], Mapping[str, Any]]:
        """The template, filled in: that of questions without an answer where there is one."""
        question = self._dataset.query(case.query)
        template = self._template
        alone = template.unanswerable if question.ability == Ability.ABSTENTION else ""
        values = {
            "question": question.text,
            "answer": _reference(question) or "(there is no answer)",
            "response": case.answer,
            "date": moment(question.timestamp, "not known"),
        }
        return template.messages(alone or template.prompt, values), template.params

    def verdict(self, reply: str) -> bool | None:
        """By the template's expressions; where both or neither find something, nobody knows."""
        right, wrong = self._right.search(reply), self._wrong.search(reply)
        return None if bool(right) == bool(wrong) else bool(right)


class LongMemEvalJudge:
    """The judge of evaluate_qa.py: a prompt for each type of question, read out of that file.

    Its numbers are called official for the one model that the authors' script takes.
    """

    def __init__(self, dataset: Dataset, model: str, source: Path | None) -> None:
        if dataset.name.partition("/")[0] != "longmemeval" or dataset.manifest.ids_only:
            raise UsageError(f"longmemeval-official judges LongMemEval, and this is {dataset.name}")
        self._code = published_code(EVALUATION, source)
        self._dataset = dataset
        official = model == OFFICIAL_MODEL
        called = "longmemeval-official" if official else "longmemeval-prompts"
        self.name, self.version = f"judge:{called}({model})", 1
        self.signature = f"{called}/9e0b455({model})"
        self._templates: dict[tuple[str, bool], str] = {}

    def prompt(self, case: Case) -> tuple[tuple[Mapping[str, str], ...], Mapping[str, Any]]:
        """The template of the question's type, or of abstention (`_abs` in its id)."""
        question = self._dataset.query(case.query)
        kind = question.category, "_abs" in question.id
        if kind not in self._templates:
            values = {"task": kind[0], "abstention": kind[1]}
            self._templates[kind] = self._code.template(
                "get_anscheck_prompt", "template", values, 3
            )
        text = self._templates[kind].format(question.text, _reference(question), case.answer)
        params = {"n": 1, "temperature": 0, "max_tokens": 10}
        return ({"role": "user", "content": text},), params

    def verdict(self, reply: str) -> bool | None:
        """Right where `yes` stands in the reply, as there. Neither yes nor no is a no there, and
        counted apart here."""
        said = reply.lower()
        if "yes" in said:
            return True
        return False if re.search(r"\bno\b", said) else None


def _reference(query: Query) -> str:
    """The reference answers as one text."""
    return " / ".join(query.answers)
