"""Formats errors of records as one line: the field, the expected value, similar names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin, get_type_hints

import msgspec

from harness.errors import suggest

_AT = re.compile(r"^(?P<what>.*?)(?: - at `(?:key in )?\$(?P<path>.*)`)?$", re.DOTALL)


_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<field>.*)`$", re.DOTALL)


_MISSING = re.compile(r"^Object missing required field `(?P<field>.*)`$", re.DOTALL)


def explained(error: msgspec.ValidationError, kind: Any, where: str) -> str:
    """Converts msgspec's message to one line: `FILE: FIELD: what is wrong`."""
    found = _AT.match(str(error))
    what, path = (found["what"], found["path"] or "") if found else (str(error), "")
    field = path.removeprefix(".")
    if unknown := _UNKNOWN.match(what):
        name = unknown["field"]
        known = sorted(_fields_at(kind, path))
        field = f"{field}.{name}" if field else name
        what = f"unknown field{suggest(name, known)}"
    elif missing := _MISSING.match(what):
        field = f"{field}.{missing['field']}" if field else missing["field"]
        what = "is missing"
    else:
        if what.startswith("Expected"):
            what = what.replace(" | null", "").replace("array", "list")
        what = what[:1].lower() + what[1:].replace("`", "")
        choices = _choices_at(kind, path)
        value = what.removeprefix("invalid enum value ")
        if len(choices) == 1 and value.isdigit():
            what = f"must be {choices[0]}, not {value}"
        elif choices:
            what += f"; choose one of {', '.join(choices)}"
    return f"{where}: {f'{field}: ' if field else ''}{what}"


def _fields_at(kind: Any, path: str) -> set[str]:
    """Returns the field names of the records at a path such as `.queries[0].texts`."""
    return {name for one in _kinds_at(kind, path) for name in one.__struct_encode_fields__}


def _choices_at(kind: Any, path: str) -> list[str]:
    """Returns the texts and numbers that a `Literal` field at a path allows."""
    parent, _, name = path.rpartition(".")
    hints = [get_type_hints(one).get(name) for one in _kinds_at(kind, parent)]
    return [value for hint in hints for value in _literals_in(hint)]


def _literals_in(hint: Any) -> Iterator[str]:
    for part in get_args(hint):
        if get_origin(hint) is Literal and not isinstance(part, bool):
            yield str(part)
        yield from _literals_in(part)


def _kinds_at(kind: Any, path: str) -> list[type[msgspec.Struct]]:
    """Returns the record types at a path."""
    kinds = list(_records_in(kind))
    for step in re.findall(r"\.(\w+)|\[", path):
        if step:
            hints = [get_type_hints(one).get(step) for one in kinds]
            kinds = [record for hint in hints for record in _records_in(hint)]
    return kinds


def _records_in(hint: Any) -> Iterator[type[msgspec.Struct]]:
    """Yields the record types in a type annotation."""
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        yield hint
    for part in get_args(hint):
        yield from _records_in(part)
