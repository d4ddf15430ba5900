"""Formats in which projects publish rankings: the protocol of a reader, and the readers by name.

A published file holds a record a question. A format says which records those are, how a record
names its question, and what was found for it, in ids as the datasets of this project have them; it
knows no dataset. What is doubled, broken or unknown is counted above it (runs/folder/published.py).

Formats come from the entry point group `harness.run_formats`, ours too, and from
`@register_run_format` in a plug-in file.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import orjson

from harness.errors import UsageError, near
from harness.io import plugins
from harness.runfiles.raw import read_bytes

ENTRY_POINTS = "harness.run_formats"

_HEAD = 1 << 20  # a record of the official log carries its whole haystack

_registered: dict[str, type[RunFormat]] = {}


@dataclass(frozen=True)
class QuestionRef:
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
class PublishedRanking:
    """What was found for a question, best first; None where its record says nothing of that.

    `broken` says where the record stands and why it cannot be read, though its question can be.
    """

    question: QuestionRef
    found: list[str] | None = None
    broken: str = ""


class RunFormat(Protocol):
    """The reader of one form.

    `about`: whose form it is, in a line. `rankings`: the rankings that a record holds, by the name
    of their field, each with the granularities that its ids may be of; the first is what counts if
    nobody says otherwise. `texts`: whether they hold texts of the system's own, and no ids.

    Each method that is given a record raises KeyError, TypeError or ValueError where that is not as
    it must be. A record of which the question is known counts as wrong then; null is no ranking.
    """

    about: ClassVar[str]
    rankings: ClassVar[Mapping[str, tuple[str, ...]]]
    texts: ClassVar[bool]

    def recognises(self, head: bytes) -> bool:
        """Whether a file is of this form, by its first megabyte."""
        ...

    def records(self, value: Any) -> Iterable[Any]:
        """The records in what a JSON file holds; of JSON lines each line is one.

        Raises KeyError, TypeError or ValueError for a file of another form.
        """
        ...

    def question(self, record: Mapping[str, object]) -> QuestionRef:
        """Which question a record is of."""
        ...

    def found(self, record: Mapping[str, object], ranking: str) -> list[str] | None:
        """What was found, best first: ids as the datasets have them, or texts. None: not said."""
        ...


def register_run_format(name: str) -> Callable[[type[RunFormat]], type[RunFormat]]:
    """Class decorator that makes a form of published rankings known under `name`."""

    def register(form: type[RunFormat]) -> type[RunFormat]:
        _registered[name] = form
        return form

    return register


def formats() -> list[str]:
    """Return the names of all known formats."""
    known = plugins.names(ENTRY_POINTS)
    return [*known, *sorted(set(_registered) - set(known))]


def run_format(name: str) -> RunFormat:
    """Return the format of that name. Raises UsageError, with the near names, without one."""
    if name in _registered:
        return _registered[name]()
    entry = plugins.find(ENTRY_POINTS, name)
    if entry is None:
        raise UsageError(f"unknown --format {name!r}{near(name, formats())}")
    form: type[RunFormat] = plugins.load(entry, "run format")
    return form()


def recognised(path: Path) -> str | None:
    """The form that a file is of; None for none of them. Only JSON and JSON lines are looked at.

    Raises UsageError for a file that cannot be read.
    """
    endings = {ending.lower() for ending in path.suffixes}
    if not endings & {".json", ".jsonl", ".ndjson"}:
        return None
    head = read_bytes(path, _HEAD)
    return next((name for name in reversed(formats()) if run_format(name).recognises(head)), None)


def marked(head: bytes, *names: str) -> bool:
    """Whether all the names stand in quotation marks, as the fields of a record do."""
    return all(f'"{name}"'.encode() in head for name in names)


def text_of(record: Mapping[str, object], name: str) -> str:
    """A field that must be a text. Raises KeyError and TypeError."""
    value = record[name]
    if not isinstance(value, str):
        raise TypeError(f"{name} is not a text")
    return value


def ids_of(record: Mapping[str, object], name: str) -> list[str] | None:
    """A field that must be a list of texts or of whole numbers; None where there is none.

    Raises TypeError.
    """
    values = list_of(record, name)
    return None if values is None else [id_of(value, name) for value in values]


def id_of(value: Any, name: str) -> str:
    """A text, or a whole number as one. Raises TypeError for anything else."""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TypeError(f"{name} holds what is no id")
    return str(value)


def list_of(record: Mapping[str, object], name: str) -> list[Any] | None:
    """A field that must be a list; None where it is not there or null. Raises TypeError."""
    value = record.get(name)
    if value is not None and not isinstance(value, list):
        raise TypeError(f"{name} is not a list")
    return value


def listed(value: Any, name: str = "") -> Sequence[Any]:
    """A list of records, or the list under `name` of an object. Raises TypeError and KeyError."""
    found = value[name] if name and isinstance(value, dict) else value
    if not isinstance(found, list):
        raise TypeError(f"no list of records{f' under {name}' if name else ''}")
    return found


# -- The records of a file -------------------------------------------------------------------------

_T = TypeVar("_T")

# As data may be of any shape, a reader's mistake about it is a record that cannot be read.
_UNREADABLE = (AttributeError, KeyError, TypeError, ValueError, RecursionError)
_SCALAR = re.compile(rb'"(\w{1,64})"\s*:\s*("(?:[^"\\]|\\.)*"|-?\d{1,18}(?=\s*[,}]))')


@dataclass(frozen=True)
class Records:
    """What a file says. `unread`: records that cannot be read, nor which question they are of, as
    `line 7: why` or `record 7: why`; of those whose question is known an answer says so."""

    answers: list[PublishedRanking] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    @property
    def broken(self) -> int:
        """How many records cannot be read."""
        return len(self.unread) + sum(bool(answer.broken) for answer in self.answers)


def read_records(path: Path, name: str, form: RunFormat, ranking: str) -> Records:
    """Every record, in the order of the file.

    Raises UsageError for a file of another form, and where no record names what was retrieved.
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
    """What is read of a record, and why it cannot be."""
    try:
        if not isinstance(record, Mapping):
            raise TypeError("not an object")
        return read(record), ""
    except _UNREADABLE as error:
        said = f"no field {error}" if isinstance(error, KeyError) else str(error)
        return None, said or "of another form"


def _entries(path: Path, name: str, form: RunFormat) -> Iterator[tuple[str, Any, str]]:
    """Where each record stands, the record, and why it cannot be read."""
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
    """The first text or whole number under each name of a line that is no JSON: enough to know
    which question a line was of that was cut off."""
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
