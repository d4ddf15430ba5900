"""The records of a published file, one by one, with what cannot be read among them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import orjson

from harness.errors import UsageError
from harness.runfiles.raw import read_bytes
from harness.runfiles.run_formats import PublishedRanking, RunFormat

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
