"""The interface of readers, and the prompts that they send."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.extensions.answers.answering.context import Context
from harness.extensions.answers.answering.replies import ModelMessage
from harness.schema import as_datetime


@dataclass(frozen=True)
class Prompt:
    """The prompt of the question at `query`; `choices` maps letters to answers for a question that
    offers some."""

    query: int
    messages: tuple[ModelMessage, ...]
    params: Mapping[str, object]
    choices: Mapping[str, str] | None = None


class Reader(Protocol):
    """A reader. `signature` changes with everything that could change an answer but the model."""

    signature: str

    def prompts(self, contexts: Sequence[Context]) -> Iterator[Prompt]:
        """Yields a prompt for each context. Raises UsageError for an unsuitable dataset."""
        ...

    def answer(self, prompt: Prompt, text: str) -> str:
        """Returns the answer in a reply."""
        ...


def format_time(timestamp: int | None, unknown: str) -> str:
    """Formats a time as `2023-05-20 02:21`; returns `unknown` for None."""
    return unknown if timestamp is None else f"{as_datetime(timestamp):%Y-%m-%d %H:%M}"


def raw_file(dataset: Dataset, name: str) -> Path:
    """Returns the file that the dataset was prepared from; official readers show parts of it.

    Raises UsageError for another dataset, and if the file is missing or changed.
    """
    if dataset.name.partition("/")[0] != name or dataset.manifest.ids_only:
        raise UsageError(f"{name}-official reads {name}'s own files, and this is {dataset.name}")
    raw = dataset.manifest.raw[0]
    path = Path(raw.path)
    if not path.is_file() or path.stat().st_size != raw.bytes:
        raise UsageError(f"{path}: the raw file is missing or changed; name it with --source PATH")
    return path
