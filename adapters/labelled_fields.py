"""The fields of a user's records that are more than a string: what each may look like."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from harness import schema
from harness.dataset.adapters.formats.text import TextFile
from harness.schema import Ability


def haystacks(
    file: TextFile, line: int, record: Mapping[str, Any]
) -> Mapping[str, int | None] | None:
    """Haystacks of a document, each with its own time there; None where it names none.

    A name, a list of names, or an object of names and times (null: the document's own). Raises
    UsageError for anything else.
    """
    value = record.get("haystack")
    if value is None or value == "":
        return None
    if isinstance(value, dict):
        return {name: timestamp(file, line, said) for name, said in value.items()}
    names = value if isinstance(value, list) else [value]
    if not all(isinstance(name, str) and name for name in names):
        raise file.error(line, f"the haystack {value!r} is neither a name nor a list of names")
    return dict.fromkeys(names)


def ability(file: TextFile, line: int, record: Mapping[str, Any]) -> Ability:
    """What a query asks; lookup where it does not say. Raises UsageError for an unknown one."""
    value = record.get("ability") or Ability.LOOKUP
    try:
        return Ability(value)
    except ValueError:
        raise file.error(
            line, f"the ability {value!r} is none of {', '.join(Ability)}; choose one"
        ) from None


def answers(file: TextFile, line: int, record: Mapping[str, Any]) -> list[str]:
    """Reference answers: a string, or a list of them. Raises UsageError for anything else."""
    value = record.get("answers") or []
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(answer, str) for answer in found):
        raise file.error(line, f"the answers {value!r:.60} are neither a string nor a list of them")
    return found


def timestamp(file: TextFile, line: int, value: object) -> int | None:
    """ISO 8601, or whole seconds since 1970, as the schema's timestamp. Raises UsageError."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool)):
        return value
    text = str(value).strip()
    if text.removeprefix("-").isdecimal() and len(text) > 8:  # 8 digits are a date: 20230508
        return int(text)
    try:
        return schema.timestamp(datetime.fromisoformat(text))
    except ValueError:
        raise file.error(
            line,
            f"the timestamp {value!r} is neither ISO 8601 (2023-05-08T13:56:00) nor whole seconds "
            "since 1970; mend it",
        ) from None
