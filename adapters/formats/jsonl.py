"""JSON Lines: one JSON object per line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from typing import Any

import orjson

from harness.datasets.adapters.formats.text import TextFile
from harness.errors import UsageError
from harness.io.files import doubled_key
from harness.runfiles.raw import BYTE_ORDER_MARK, MARKED

Record = dict[str, object]


def batches(file: TextFile) -> Iterator[tuple[Sequence[int], list[Record]]]:
    """Yields records in batches of a few MB, with the line number of each.

    Raises UsageError for a line that is not a JSON object.
    """
    for first, lines in file.blocks():
        numbers: Sequence[int] = range(first, first + len(lines))
        try:
            records = list(map(orjson.loads, lines))
        except orjson.JSONDecodeError:
            # A blank or malformed line: parse the lines one by one.
            numbers = [number for number, line in zip(numbers, lines, strict=True) if line.strip()]
            records = [_load(file, number, lines[number - first]) for number in numbers]
        if set(map(type, records)) - {dict}:
            at = next(i for i, record in enumerate(records) if not isinstance(record, dict))
            raise file.error(numbers[at], "not a JSON object; each line must hold one {...} record")
        yield numbers, records


def records(file: TextFile) -> Iterator[tuple[int, Record]]:
    """Yields records one by one, with their line numbers."""
    for numbers, batch in batches(file):
        yield from zip(numbers, batch, strict=True)


def checked(file: TextFile) -> Iterator[tuple[int, Record]]:
    """Yields records as `records` does, but rejects duplicate keys; this is slower."""
    for number, line in file.raw_lines():
        record = _load(file, number, line)
        if (name := doubled_key(line, record)) is not None:
            raise file.error(number, f"duplicate field {name!r}; keep one")
        if not isinstance(record, dict):
            raise file.error(number, "not a JSON object; each line must hold one {...} record")
        yield number, record


def strings(
    file: TextFile, numbers: Sequence[int], records: Sequence[Record], key: str
) -> list[str]:
    """Returns the string under `key` of each record.

    Raises UsageError for the first record without such a string.
    """
    try:
        values = list(map(itemgetter(key), records))
        if set(map(type, values)) <= {str}:
            return values
    except KeyError:
        pass
    return [string(file, line, record, key) for line, record in zip(numbers, records, strict=True)]


def string(file: TextFile, line: int, record: Record, key: str) -> str:
    """Returns the string under `key`; converts an integer to its digits. Raises UsageError."""
    if key not in record:
        raise file.error(line, f"the record has no field {key!r}; it has {', '.join(record)}")
    value = record[key]
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise file.error(
            line,
            f"the field {key!r} holds {_kind(value)} where a string is needed; mend the record",
        )
    return value


def optional_string(file: TextFile, line: int, record: Record, key: str) -> str | None:
    """Returns the string under `key`, or None if it is missing or empty."""
    return string(file, line, record, key) or None if record.get(key) is not None else None


def _load(file: TextFile, number: int, line: bytes) -> Any:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError as error:
        if line.startswith(BYTE_ORDER_MARK):
            raise file.error(number, f"the line {MARKED}") from None
        file.decode(number, line)  # raises the error if the bytes are not UTF-8
        raise _broken(file, number, error) from None


def _broken(file: TextFile, number: int, error: orjson.JSONDecodeError) -> UsageError:
    return file.error(
        number, f"not valid JSON ({error}); truncated or damaged, download the file again"
    )


def _kind(value: Any) -> str:
    names = {type(None): "null", bool: "true or false", float: "a fraction", list: "a list"}
    return names.get(type(value), "an object")
