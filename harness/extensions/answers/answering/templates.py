"""Reader and judge templates in TOML files: built in, or a user's own.

A name in braces is a placeholder (`{question}`); other braces stay as they are. A template has a
name and a version, and its signature holds a digest of the file unless it is built in.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from harness.errors import UsageError
from harness.extensions.answers.answering.replies import ModelMessage
from harness.io.records import Record, read_toml_record

_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_BUILT_IN = Path(__file__).with_name("built_in")


class Template(Record):
    """The fields of every template. `params` are sent with each call."""

    name: str
    prompt: str
    version: int = 1
    system: str = ""
    params: dict[str, object] = msgspec.field(default_factory=dict)

    def messages(self, prompt: str, values: Mapping[str, str]) -> tuple[ModelMessage, ...]:
        """Returns the messages of a call, with the placeholders of `prompt` filled in."""
        user = ModelMessage(role="user", content=fill(prompt, values))
        return (ModelMessage(role="system", content=self.system), user) if self.system else (user,)


class ReaderTemplate(Template):
    """A reader: `document` is the text of one document, `separator` joins them, and `empty`
    replaces them where there are none."""

    document: str = "{text}"
    separator: str = "\n\n"
    empty: str = ""
    order: Literal["time", "rank"] = "time"


class JudgeTemplate(Template):
    """A judge: `unanswerable` is the prompt of questions without an answer; the expressions
    `correct` and `incorrect` find the verdict in a reply."""

    correct: str
    incorrect: str
    unanswerable: str = ""


T = TypeVar("T", ReaderTemplate, JudgeTemplate)


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replaces each placeholder by its value; unknown placeholders stay."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), template)


def built_in_template(kind: Literal["reader", "judge"], name: str) -> Path | None:
    """Returns the file of a built-in reader or judge, None for an unknown name."""
    path = _BUILT_IN / f"{kind}-{name}.toml"
    return path if path.is_file() else None


def template_digest(path: Path) -> str:
    """Returns `#` and the first digits of a template's sha256; empty for a built-in template."""
    if path.parent == _BUILT_IN:
        return ""
    return f"#{hashlib.sha256(path.read_bytes()).hexdigest()[:8]}"


def read_template(path: Path, kind: type[T]) -> T:
    """Reads and checks a template. Raises UsageError that names the field."""
    template = read_toml_record(path, kind)
    if not template.name.strip() or not template.prompt.strip():
        raise UsageError(f"{path}: name and prompt must not be empty")
    if {"model", "messages", "stream"} & template.params.keys():
        raise UsageError(f"{path}: params must be without model, messages and stream")
    if isinstance(template, ReaderTemplate):
        _check_placeholders(path, "prompt", template.prompt, {"documents", "question"}, {"date"})
        optional = {"date", "speaker", "number"}
        _check_placeholders(path, "document", template.document, {"text"}, optional)
    elif isinstance(template, JudgeTemplate):
        required = {"question", "answer", "response"}
        _check_placeholders(path, "prompt", template.prompt, required, {"date"})
        if template.unanswerable:
            _check_placeholders(
                path, "unanswerable", template.unanswerable, required - {"answer"}, required
            )
        _check_pattern(path, "correct", template.correct)
        _check_pattern(path, "incorrect", template.incorrect)
    return template


def _check_placeholders(
    path: Path, field: str, text: str, required: Collection[str], optional: Collection[str]
) -> None:
    found = {*_PLACEHOLDER.findall(text)}
    known = sorted({*required, *optional})
    if missing := sorted({*required} - found):
        raise UsageError(f"{path}: {field}: the placeholder {{{missing[0]}}} is missing")
    if unknown := sorted(found - {*known}):
        raise UsageError(
            f"{path}: {field}: unknown placeholder {{{unknown[0]}}}; known: {', '.join(known)}"
        )


def _check_pattern(path: Path, field: str, pattern: str) -> None:
    if not pattern:
        raise UsageError(f"{path}: {field} must not be empty: it finds the verdict in a reply")
    try:
        re.compile(pattern)
    except re.error as error:
        raise UsageError(f"{path}: {field} is no regular expression ({error})") from None
