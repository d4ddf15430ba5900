"""Reader interface, prompts, and TOML templates of readers and judges.

A template is built in or supplied by the user. A name in braces is a placeholder (`{question}`);
other braces are kept. A template has a name and a version; the signature of a user's template
includes a digest of its file.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol, TypeVar

import msgspec

from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.extensions.answers.answering.context import Context
from harness.extensions.answers.answering.replies import ModelMessage
from harness.io.records import Record, read_toml_record
from harness.schema import as_datetime

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
    """A reader: `document` formats one document, `separator` joins them, and `empty` replaces them
    if the context is empty."""

    document: str = "{text}"
    separator: str = "\n\n"
    empty: str = ""
    order: Literal["time", "rank"] = "time"


class JudgeTemplate(Template):
    """A judge: `unanswerable` is the prompt for questions without an answer; the regular
    expressions `correct` and `incorrect` find the verdict in a reply."""

    correct: str
    incorrect: str
    unanswerable: str = ""


T = TypeVar("T", ReaderTemplate, JudgeTemplate)


def fill(template: str, values: Mapping[str, str]) -> str:
    """Replaces each placeholder by its value; unknown placeholders are kept."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), template)


def built_in_template(kind: Literal["reader", "judge"], name: str) -> Path | None:
    """Returns the file of a built-in reader or judge, None for an unknown name."""
    path = _BUILT_IN / f"{kind}-{name}.toml"
    return path if path.is_file() else None


def template_digest(path: Path) -> str:
    """Returns `#` and the first 8 digits of a template's sha256; empty for a built-in template."""
    if path.parent == _BUILT_IN:
        return ""
    return f"#{hashlib.sha256(path.read_bytes()).hexdigest()[:8]}"


def read_template(path: Path, kind: type[T]) -> T:
    """Reads and validates a template. Raises UsageError that names the field."""
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


@dataclass(frozen=True)
class Prompt:
    """The prompt for the question at `query`; `choices` maps letters to answers for a
    multiple-choice question."""

    query: int
    messages: tuple[ModelMessage, ...]
    params: Mapping[str, object]
    choices: Mapping[str, str] | None = None


class Reader(Protocol):
    """A reader. `signature` covers everything that can change an answer except the model;
    `scores_truncated`: replies cut at `max_tokens` count as answers, as in the authors' script."""

    signature: str
    scores_truncated: bool

    def prompts(self, contexts: Sequence[Context]) -> Iterator[Prompt]:
        """Yields a prompt for each context. Raises UsageError for an unsuitable dataset."""
        ...

    def answer(self, prompt: Prompt, text: str) -> str:
        """Extracts the answer from a reply."""
        ...


def format_time(timestamp: int | None, unknown: str) -> str:
    """Formats a time as `2023-05-20 02:21`; returns `unknown` for None."""
    return unknown if timestamp is None else f"{as_datetime(timestamp):%Y-%m-%d %H:%M}"


def raw_file(dataset: Dataset, name: str) -> Path:
    """Returns the raw file that the dataset was prepared from; official readers show parts of it.

    Raises UsageError for another dataset, or if the file is missing or its size has changed.
    """
    if dataset.name.partition("/")[0] != name or dataset.manifest.ids_only:
        raise UsageError(f"{name}-official reads {name}'s own files, and this is {dataset.name}")
    raw = dataset.manifest.raw[0]
    path = Path(raw.path)
    if not path.is_file() or path.stat().st_size != raw.bytes:
        raise UsageError(f"{path}: the raw file is missing or changed; name it with --source PATH")
    return path
