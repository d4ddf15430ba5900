"""Parses fields of a labelled dataset that are not plain strings, and its judgements."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson

from harness import schema
from harness.datasets.adapters.formats.jsonl import optional_string, string
from harness.datasets.adapters.formats.text import TextFile
from harness.datasets.adapters.labelled_files import ACCEPTED, opened, records
from harness.errors import UsageError
from harness.runfiles.fields import QRELS, FieldError, are_numbers, grade_of
from harness.schema import Ability

_WHOLE = re.compile(r"[+-]?[0-9]+(\.0*)?")
_TRUTH = {"true": True, "false": False}
_LATEST = 100_000_000_000
"""Largest number read as seconds (year 5138); more is assumed to be milliseconds."""


@dataclass(frozen=True)
class LabelledQrel:
    """One judgement and its location; `split` is the name of its file in qrels/."""

    file: TextFile
    line: int
    query: str
    document: str
    grade: int
    evidence_id: str | None = None
    qrels_set: str = "default"
    missing: bool = False
    split: str = ""


def qrels(
    files: Mapping[str, Path], unread: set[str] | None = None, *, needed: bool = True
) -> Iterator[LabelledQrel]:
    """Yields all judgements of a folder: those in qrels files, then those in queries.

    `unread` collects the names of unknown fields. Raises UsageError for an unreadable judgement, an
    empty file, and no judgements at all if they are `needed`.
    """
    n = 0
    for role, path in files.items():
        if role.startswith("qrels"):
            before = n
            for one in _of_file(path, role.partition("/")[2], unread):
                n += 1
                yield one
            if n == before:
                raise UsageError(f"{path}: contains no qrels")
    file = opened(files["queries"])
    for line, record in records("queries", files["queries"]):
        held = relevant(file, line, record)
        for document, grade in held.items():
            n += 1
            query = string(file, line, record, "id")
            yield LabelledQrel(file, line, query, document, grade)
    if needed and not n:
        folder = files["queries"].parent
        raise UsageError(f"{folder}: no qrels file; accepted are {ACCEPTED}")


def _of_file(path: Path, split: str, unread: set[str] | None) -> Iterator[LabelledQrel]:
    file = opened(path)
    for line, record in records("qrels", path, unread):
        try:
            if "grade" not in record:
                unknown = QRELS.unread(record)
                QRELS.refuse_numbers(record, (one for one in unknown if are_numbers([record[one]])))
        except FieldError as error:
            raise file.error(line, str(error)) from None
        yield LabelledQrel(
            file,
            line,
            string(file, line, record, "query"),
            string(file, line, record, "document"),
            grade(file, line, record["grade"]) if "grade" in record else 1,
            optional_string(file, line, record, "evidence_id"),
            optional_string(file, line, record, "qrels_set") or "default",
            _flag(file, line, record, "missing"),
            split,
        )


def grade(file: TextFile, line: int, value: object) -> int:
    """Parses a grade as `grade_of` does. Raises UsageError with the line."""
    try:
        return grade_of(value)
    except FieldError as error:
        raise file.error(line, str(error)) from None


def relevant(file: TextFile, line: int, record: Mapping[str, object]) -> dict[str, int]:
    """Parses the judgements in a query: documents and grades (1 for listed documents).

    The value is an id, a list of ids, or an object {id: grade}; in a table cell it is written as
    JSON or as a Python literal. Raises UsageError for anything else.
    """
    value = record.get("relevant")
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        value = _parsed(file, line, value)
    if value is None or value == "":
        return {}
    if isinstance(value, dict):
        return {id_: grade(file, line, held) for id_, held in value.items()}
    ids = value if isinstance(value, list) else [value]
    if not all(type(id_) in (str, int) and id_ != "" for id_ in ids):
        raise file.error(
            line, f"relevant is {value!r:.60}: an id, a list of ids or {{id: grade}} is needed"
        )
    return dict.fromkeys(map(str, ids), 1)


def _parsed(file: TextFile, line: int, text: str, name: str = "relevant") -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        pass
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise file.error(
            line, f'{name} is {text!r:.60}, which is not a list; write it as ["d1", "d2"]'
        ) from None


def _flag(file: TextFile, line: int, record: Mapping[str, object], name: str) -> bool:
    value = record.get(name)
    if value in (None, "", True, False):
        return value is True
    if isinstance(value, str) and value.lower() in _TRUTH:
        return _TRUTH[value.lower()]
    raise file.error(line, f"{name} is {value!r:.60}; true or false is needed")


def haystacks(
    file: TextFile, line: int, record: Mapping[str, object]
) -> Mapping[str, int | None] | None:
    """Parses the haystacks of a document, with its time in each; None if it names none.

    The value is a name, a list of names, or an object of names and times (null: the document's
    own). Raises UsageError for anything else.
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


def ability(file: TextFile, line: int, record: Mapping[str, object]) -> Ability:
    """Parses the ability of a query; the default is lookup. Raises UsageError if it is unknown."""
    value = record.get("ability")
    if value is None or value == "":
        return Ability.LOOKUP
    try:
        return Ability(str(value))
    except ValueError:
        raise file.error(
            line, f"unknown ability {value!r}; choose one of {', '.join(Ability)}"
        ) from None


def texts(file: TextFile, line: int, record: Mapping[str, object], name: str) -> list[str]:
    """Parses a field that is a string or a list of strings. Raises UsageError."""
    value = record.get(name)
    if value is None or value == "":
        return []
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise file.error(line, f"the {name} {value!r:.60} are not a string or list of strings")
    return found


def groups(file: TextFile, line: int, record: Mapping[str, object]) -> list[str]:
    """Parses the groups of a query: a name or a list, in a table cell as `["a", "b"]`.

    Raises UsageError.
    """
    value = record.get("groups")
    if isinstance(value, str) and value.lstrip()[:1] == "[":
        record = {"groups": _parsed(file, line, value, "groups")}
    return texts(file, line, record, "groups")


def timestamp(file: TextFile, line: int, value: object) -> int | None:
    """Converts ISO 8601 or whole seconds since 1970 to a schema timestamp. Raises UsageError."""
    if value is None:
        return value
    text = str(value).strip()
    digits = text.removeprefix("-")
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if is_number or (digits.isdecimal() and len(text) > 8):  # 8 digits are a date: 20230508
        if len(digits) > 19 or abs(int(text)) >= _LATEST:
            raise file.error(
                line, f"the timestamp {text:.40} is too large for seconds; are they milliseconds?"
            )
        return int(text)
    try:
        return schema.timestamp(datetime.fromisoformat(text))
    except ValueError:
        raise file.error(
            line,
            f"the timestamp {value!r} is neither ISO 8601 (2023-05-08T13:56:00) nor whole seconds "
            "since 1970; correct it",
        ) from None


def position(file: TextFile, line: int, value: object) -> int | None:
    """Parses the position of a document in its session, from 0. Raises UsageError."""
    if value is None:
        return None
    text = str(value).strip()
    if not _WHOLE.fullmatch(text) or len(text) > 9:
        raise file.error(line, f"the position {text!r:.60} is not an integer; correct it")
    return int(text.partition(".")[0])
