"""The records of a published file, one by one, with what cannot be read among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from harness.errors import UsageError
from harness.rankings.jsonl import read_bytes
from harness.rankings.published.form import Answer, RunFormat


@dataclass(frozen=True)
class Records:
    """What a file says, and where it cannot be read: `line 7: why`, or `record 7: why`."""

    answers: list[Answer] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


def read_records(path: Path, name: str, form: RunFormat, ranking: str, granularity: str) -> Records:
    """Every record that can be read, in the order of the file.

    Raises UsageError for a file of another form, and where no record of it can be read.
    """
    found = Records()
    value, unit, places = _loaded(path, found.broken)
    try:
        records = list(form.records(value))
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{path}: is not of the form {name}, {form.about} ({error})") from None
    for number, record in enumerate(records, 1):
        at = places[number - 1] if places else number
        try:
            if not isinstance(record, Mapping):
                raise TypeError("not an object")
            found.answers.append(form.answer(record, ranking, granularity))
        except (AttributeError, KeyError, TypeError, ValueError, StopIteration) as error:
            found.broken.append(f"{unit} {at}: {_why(error)}")
    found.broken.sort(key=lambda said: int(said.partition(":")[0].rpartition(" ")[2]))
    if not found.answers:
        first = f", first {found.broken[0]}" if found.broken else ""
        raise UsageError(f"{path}: no record of the form {name}, {form.about}{first}")
    return found


def _loaded(path: Path, broken: list[str]) -> tuple[Any, str, list[int]]:
    """What the file holds; of lines, those that are JSON, and the number of each."""
    data = read_bytes(path).removeprefix(b"\xef\xbb\xbf")
    lines = {".jsonl", ".ndjson"} & {ending.lower() for ending in path.suffixes}
    if not lines:
        try:
            return orjson.loads(data), "record", []
        except orjson.JSONDecodeError as error:
            first = next((line for line in data.split(b"\n") if line.strip()), b"")
            if not _whole(first):
                raise UsageError(f"{path}: not valid JSON ({error})") from None
    values, places = [], []
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            values.append(orjson.loads(line))
            places.append(number)
        except orjson.JSONDecodeError as error:
            broken.append(f"line {number}: not valid JSON ({error})")
    return values, "line", places


def _whole(line: bytes) -> bool:
    try:
        return isinstance(orjson.loads(line), dict)
    except orjson.JSONDecodeError:
        return False


def _why(error: Exception) -> str:
    return f"no field {error}" if isinstance(error, KeyError) else str(error) or "of another form"
