"""Refuses fields of JSON records whose names are nearly those that are read."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from harness.errors import UsageError
from harness.runfiles.fields import mistaken

_DIGITS = re.compile(r"\d")
_SESSION = re.compile(r"session_(\d{1,9})")


def refuse_near(
    record: Mapping[str, object], name: str, where: str, known: Collection[str] = ()
) -> None:
    """Raises UsageError for a misspelled optional field; `known` are the record's other fields."""
    if name in record or record.keys() <= set(known):
        return
    if (meant := mistaken(name, record.keys() - set(known))) is not None:
        raise UsageError(f"{where}: unknown field {meant!r}; did you mean {name}?")


def session_numbers(conversation: Any, where: str) -> list[int]:
    """Returns the numbers of the fields `session_N`, in order. Raises UsageError."""
    if not isinstance(conversation, dict):
        raise UsageError(f"{where}: not an object; the file is damaged or in another format")
    numbers = [int(found[1]) for name in conversation if (found := _SESSION.fullmatch(name))]
    for name in conversation:
        if not name.startswith("session_") and mistaken("session", [_DIGITS.sub("", name)]):
            raise UsageError(f"{where}: unknown field {name!r}; did you mean session_N?")
    if not numbers:
        raise UsageError(f"{where}: no field session_1; the file is in another format")
    return sorted(numbers)
