"""What a reader of published rankings is, and the forms that are known, by their names.

A published file holds a record a question. A form says which records those are, how a record names
its question, and what was found for it, in ids as the datasets of this project have them; it knows
no dataset. What is doubled, broken or unknown is counted above it (runs/folder/published.py).

Forms come from `BUILT_IN`, from the entry point group `harness.run_formats` of any installed
package, and from `@register_run_format` in a plug-in file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, ClassVar, Protocol

import pyarrow as pa

from harness.errors import UsageError, near

ENTRY_POINTS = "harness.run_formats"

BUILT_IN = {
    "longmemeval": "longmemeval_log",
    "mempalace": "mempalace",
    "agent-memory-benchmarks": "agent_memory_benchmarks",
    "memory-core-eval": "memory_core_eval",
    "cogito": "cogito",
    "mem0": "mem0",
    "retrieved-texts": "retrieved_texts",
}
"""Module of each form in this folder."""

_HEAD = 1 << 20  # a record of the official log carries its whole haystack

_registered: dict[str, type[RunFormat]] = {}


@dataclass(frozen=True)
class Question:
    """How a record names its question.

    By the dataset's own `id`; or by the `haystack` that it was asked over (its name, or its place
    in the dataset, from 0) with the question's `text`, its `place` among those of the haystack,
    from 0, or both.
    """

    id: str | None = None
    haystack: str | int | None = None
    text: str | None = None
    place: int | None = None

    def __str__(self) -> str:
        return self.id or f"{self.haystack}: {self.place if self.text is None else self.text}"


@dataclass(frozen=True)
class Answer:
    """What was found for a question, best first: ids of documents, or `texts` of the system's own.

    Both are None where the record has neither, although its question was asked.
    """

    question: Question
    documents: list[str] | None = None
    texts: list[str] | None = None


class RunFormat(Protocol):
    """The reader of one form.

    `about`: whose form it is, in a line. `rankings`: the rankings that a record holds, by the name
    of their field, each with the granularities that its ids may be of; the first is what counts if
    nobody says otherwise.
    """

    about: ClassVar[str]
    rankings: ClassVar[Mapping[str, tuple[str, ...]]]

    def recognises(self, head: bytes) -> bool:
        """Whether a file is of this form, by its first megabyte."""
        ...

    def records(self, value: Any) -> Iterable[Any]:
        """The records in what a JSON file holds; JSON lines come as a list.

        Raises KeyError, TypeError or ValueError for a file of another form.
        """
        ...

    def answer(self, record: Mapping[str, Any], ranking: str, granularity: str) -> Answer:
        """What a record says, its ids being of the granularity.

        Raises KeyError, TypeError or ValueError for a record of another form.
        """
        ...


def register_run_format(name: str) -> Callable[[type[RunFormat]], type[RunFormat]]:
    """Class decorator that makes a form of published rankings known under `name`."""

    def register(form: type[RunFormat]) -> type[RunFormat]:
        _registered[name] = form
        return form

    return register


def formats() -> list[str]:
    """Names of all known forms."""
    others = {*_registered, *(entry.name for entry in entry_points(group=ENTRY_POINTS))}
    return [*BUILT_IN, *sorted(others - set(BUILT_IN))]


def run_format(name: str) -> RunFormat:
    """The form of that name. Raises UsageError, with the near names, where there is none."""
    if name in BUILT_IN and name not in _registered:
        import_module(f"harness.rankings.published.{BUILT_IN[name]}")
    if name not in _registered:
        for entry in entry_points(group=ENTRY_POINTS, name=name):
            _registered.setdefault(name, entry.load())
    if name not in _registered:
        raise UsageError(f"unknown --format {name!r}{near(name, formats())}")
    return _registered[name]()


def recognised(path: Path) -> str | None:
    """The form that a file is of; None for none of them. Only JSON and JSON lines are looked at."""
    endings = {ending.lower() for ending in path.suffixes}
    if not endings & {".json", ".jsonl", ".ndjson"}:
        return None
    with pa.input_stream(str(path), compression="detect") as stream:
        head: bytes = stream.read(_HEAD)
    return next((name for name in reversed(formats()) if run_format(name).recognises(head)), None)


def marked(head: bytes, *names: str) -> bool:
    """Whether all the names stand in quotation marks, as the fields of a record do."""
    return all(f'"{name}"'.encode() in head for name in names)


def text_of(record: Mapping[str, Any], name: str) -> str:
    """A field that must be a text. Raises KeyError and TypeError."""
    value = record[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} is not a text")
    return value


def texts_of(record: Mapping[str, Any], name: str) -> list[str] | None:
    """A field that must be a list of texts or of whole numbers; None where it is not there.

    Raises TypeError.
    """
    if name not in record:
        return None
    values = record[name]
    if not isinstance(values, list):
        raise TypeError(f"{name} is not a list")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise TypeError(f"{name} holds what is no id")
    return [str(value) for value in values]


def listed(value: Any, name: str = "") -> Sequence[Any]:
    """A list of records, or the list under `name` of an object. Raises TypeError and KeyError."""
    found = value[name] if name and isinstance(value, dict) else value
    if not isinstance(found, list):
        raise TypeError(f"no list of records{f' under {name}' if name else ''}")
    return found
