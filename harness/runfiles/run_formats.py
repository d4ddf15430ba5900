"""Readers of rankings that projects publish in their own formats: protocol and registry.

A published file has one record per question. A format finds the records, the question of each, and
its ranking, in the ids of this project's datasets. It does not need the dataset itself: duplicate,
broken and unknown records are counted in runs/folder/published.py.

Formats, including the built-in ones, are entry points of the group `harness.run_formats`; plug-in
files add more with `@register_run_format`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import orjson

from harness.errors import UsageError, suggest
from harness.io import plugins
from harness.runfiles.raw import read_bytes

ENTRY_POINTS = "harness.run_formats"

_HEAD = 1 << 20  # bytes; a record of the official log includes its whole haystack

_registered: dict[str, type[RunFormat]] = {}


@dataclass(frozen=True)
class QuestionRef:
    """Reference of a record to its question.

    Either the dataset's own `id`, or the `haystack` (its name, or its position in the dataset, from
    0) with the question's `text`, its `place` (position among the haystack's questions, from 0), or
    both.
    """

    id: str | None = None
    haystack: str | int | None = None
    text: str | None = None
    place: int | None = None

    def __str__(self) -> str:
        return self.id or f"{self.haystack}: {self.place if self.text is None else self.text}"


@dataclass(frozen=True)
class PublishedRanking:
    """The ranking of a question, best first; None if its record has none.

    `broken` gives the position of a record whose ranking cannot be read, and the reason.
    """

    question: QuestionRef
    found: list[str] | None = None
    broken: str = ""


class RunFormat(Protocol):
    """Reader of one published format.

    `about`: the project that uses the format, in one line. `rankings`: maps the field of each
    ranking in a record to the granularities that its ids may have; the first is the default.
    `texts`: whether rankings contain the system's texts instead of ids.

    Methods that take a record raise KeyError, TypeError or ValueError if it is invalid; if its
    question is known, the question then counts as wrong. A null ranking counts as missing.
    """

    about: ClassVar[str]
    rankings: ClassVar[Mapping[str, tuple[str, ...]]]
    texts: ClassVar[bool]

    def recognises(self, head: bytes) -> bool:
        """Tests whether a file has this format, from its first mebibyte."""
        ...

    def records(self, value: Any) -> Iterable[Any]:
        """Returns the records of a parsed JSON file; in JSON Lines, each line is a record.

        Raises KeyError, TypeError or ValueError for a file of another form.
        """
        ...

    def question(self, record: Mapping[str, object]) -> QuestionRef:
        """Returns the question of a record."""
        ...

    def found(self, record: Mapping[str, object], ranking: str) -> list[str] | None:
        """Returns the ranking, best first: dataset ids, or texts; None if the record has none."""
        ...


def register_run_format(name: str) -> Callable[[type[RunFormat]], type[RunFormat]]:
    """Returns a class decorator that registers a format of published rankings as `name`."""

    def register(form: type[RunFormat]) -> type[RunFormat]:
        _registered[name] = form
        return form

    return register


def formats() -> list[str]:
    """Returns the names of all known formats."""
    known = plugins.names(ENTRY_POINTS)
    return [*known, *sorted(set(_registered) - set(known))]


def run_format(name: str) -> RunFormat:
    """Returns the format `name`. Raises UsageError with similar names if it is unknown."""
    if name in _registered:
        return _registered[name]()
    entry = plugins.find(ENTRY_POINTS, name)
    if entry is None:
        raise UsageError(f"unknown --format {name!r}{suggest(name, formats())}")
    form: type[RunFormat] = plugins.load(entry, "run format")
    return form()


def recognised(path: Path) -> str | None:
    """Detects the format of a JSON or JSON Lines file; None if it is unknown.

    Raises UsageError for a file that cannot be read.
    """
    endings = {ending.lower() for ending in path.suffixes}
    if not endings & {".json", ".jsonl", ".ndjson"}:
        return None
    head = read_bytes(path, _HEAD)
    return next((name for name in reversed(formats()) if run_format(name).recognises(head)), None)


def marked(head: bytes, *names: str) -> bool:
    """Tests whether all names occur in double quotes, as the fields of a record do."""
    return all(f'"{name}"'.encode() in head for name in names)


def text_of(record: Mapping[str, object], name: str) -> str:
    """Returns a field that must be text. Raises KeyError and TypeError."""
    value = record[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} is not a text")
    return value


def ids_of(record: Mapping[str, object], name: str) -> list[str] | None:
    """Returns a list of texts or whole numbers as texts; None if it is missing or null.

    Raises TypeError.
    """
    values = list_of(record, name)
    return None if values is None else [id_of(value, name) for value in values]


def id_of(value: Any, name: str) -> str:
    """Returns a text or whole number as text. Raises TypeError for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TypeError(f"{name} holds what is no id")
    return str(value)


def list_of(record: Mapping[str, object], name: str) -> list[Any] | None:
    """Returns a field that must be a list; None if it is missing or null. Raises TypeError."""
    value = record.get(name)
    if value is not None and not isinstance(value, list):
        raise TypeError(f"{name} is not a list")
    return value


def listed(value: Any, name: str = "") -> Sequence[Any]:
    """Returns a list, or the list in field `name` of an object. Raises TypeError and KeyError."""
    found = value[name] if name and isinstance(value, dict) else value
    if not isinstance(found, list):
        raise TypeError(f"no list of records{f' under {name}' if name else ''}")
    return found


# -- The records of a file -------------------------------------------------------------------------

_T = TypeVar("_T")

# Data may have any shape, so a reader that fails on a record makes it unreadable.
_UNREADABLE = (AttributeError, KeyError, TypeError, ValueError, RecursionError)
_SCALAR = re.compile(rb'"(\w{1,64})"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d{1,18}(?=\s*[,}]))')


@dataclass(frozen=True)
class Records:
    """The records of a file. `unread`: records without a readable question, as `line 7: why` or
    `record 7: why`. Unreadable rankings of known questions are in `answers`, as `broken`."""

    answers: list[PublishedRanking] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    @property
    def broken(self) -> int:
        """Number of records that cannot be read."""
        return len(self.unread) + sum(bool(answer.broken) for answer in self.answers)


def read_records(path: Path, name: str, form: RunFormat, ranking: str) -> Records:
    """Reads every record, in the order of the file.

    Raises UsageError for a file of another format, and if no record has a ranking.
    """
    found = Records()
    for place, record, why in _entries(path, name, form):
        question, said = _read(form.question, record)
        if question is None:
            found.unread.append(f"{place}: {why or said}")
            continue
        ranked, said = (None, why) if why else _read(lambda one: form.found(one, ranking), record)
        found.answers.append(PublishedRanking(question, ranked, f"{place}: {said}" if said else ""))
    if all(answer.found is None for answer in found.answers):
        broken = [*(answer.broken for answer in found.answers if answer.broken), *found.unread]
        first = f", first {broken[0]}" if broken else f": none has {ranking}"
        raise UsageError(f"{path}: no record of the form {name}, {form.about}{first}")
    return found


def _read(read: Callable[[Mapping[str, object]], _T], record: Any) -> tuple[_T | None, str]:
    """Returns the value that `read` finds in a record, or None and the reason."""
    try:
        if not isinstance(record, Mapping):
            raise TypeError("not an object")
        return read(record), ""
    except _UNREADABLE as error:
        said = f"no field {error}" if isinstance(error, KeyError) else str(error)
        return None, said or "of another form"


def _entries(path: Path, name: str, form: RunFormat) -> Iterator[tuple[str, Any, str]]:
    """Yields (position, record, reason why it cannot be read or empty)."""
    data = read_bytes(path)
    if not {".jsonl", ".ndjson"} & {ending.lower() for ending in path.suffixes}:
        try:
            records = [*form.records(orjson.loads(data))]
        except orjson.JSONDecodeError as error:
            first = next((line for line in data.split(b"\n") if line.strip()), b"")
            if not _is_object(first):
                raise UsageError(f"{path}: not valid JSON ({error})") from None
        except _UNREADABLE as error:
            raise UsageError(f"{path}: is not of the form {name}, {form.about} ({error})") from None
        else:
            for number, record in enumerate(records, 1):
                yield f"record {number}", record, ""
            return
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            yield f"line {number}", orjson.loads(line), ""
        except orjson.JSONDecodeError as error:
            yield f"line {number}", _scalars(line), f"not valid JSON ({error})"


def _scalars(line: bytes) -> dict[str, object]:
    """Returns the first text or whole number of each field in a line that is invalid JSON: enough
    to identify the question of a truncated line."""
    found: dict[str, object] = {}
    for name, value in _SCALAR.findall(line):
        try:
            found.setdefault(name.decode(), orjson.loads(value))
        except orjson.JSONDecodeError:
            continue
    return found


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False
