"""What a reader sends for a question, and what every reader is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from harness.dataset.reader import Dataset
from harness.errors import UsageError
from harness.runs.answering.shown import Context
from harness.schema import as_datetime

Messages = tuple[Mapping[str, str], ...]


@dataclass(frozen=True)
class Prompt:
    """What is sent for the question at `query`; `choices` are the answers that letters stand for,
    where the question offers some."""

    query: int
    messages: Messages
    params: Mapping[str, Any]
    choices: Mapping[str, str] | None = None


class Reader(Protocol):
    """A reader. `signature` changes with everything that could change an answer but the model."""

    signature: str

    def prompts(self, contexts: Sequence[Context]) -> Iterator[Prompt]:
        """A prompt for each context. Raises UsageError for a dataset that it is not made for."""
        ...

    def answer(self, prompt: Prompt, text: str) -> str:
        """The answer in a reply."""
        ...


def moment(timestamp: int | None, unknown: str) -> str:
    """`2023-05-20 02:21`, or a word where nobody knows."""
    return unknown if timestamp is None else f"{as_datetime(timestamp):%Y-%m-%d %H:%M}"


def raw_file(dataset: Dataset, name: str) -> Path:
    """The file that the dataset was prepared from, which an official reader shows parts of.

    Raises UsageError where the dataset is another, and where the file is not there any more.
    """
    if dataset.name.partition("/")[0] != name or dataset.manifest.ids_only:
        raise UsageError(f"{name}-official reads {name}'s own files, and this is {dataset.name}")
    raw = dataset.manifest.raw[0]
    path = Path(raw.path)
    if not path.is_file() or path.stat().st_size != raw.bytes:
        raise UsageError(f"{path}: the file that was run on is not there any more; --source PATH")
    return path
