"""A JSON file of records as Columns, and what a whole JSON file holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from harness.errors import UsageError
from harness.runfiles.fields import FieldError, Fields
from harness.runfiles.jsonl import count_keys, doubled_key
from harness.runfiles.raw import read_bytes
from harness.runfiles.tables import Columns

_PLAIN = {"query": (int,), "document": (int,), "grade": (int, float, bool)}


def load_json(path: Path, *, lines: bool = False) -> tuple[Any, str]:
    """What a JSON file holds, and what its records are counted as: `record`, or `line`.

    JSON lines are taken as a list (`lines`: the file is nothing else); blank ones are None. Raises
    UsageError for what is not valid JSON, and for a key that stands twice in one object.
    """
    data = read_bytes(path)
    broken: object = None
    if not lines:
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            broken = error
        else:
            if (name := doubled_key(data, count_keys(value))) is not None:
                raise UsageError(f"{path}: {name!r} stands twice in one object; keep one")
            return value, "record"
    records: list[Any] = []
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            records.append(orjson.loads(line) if line.strip() else None)
        except orjson.JSONDecodeError as error:
            if broken is not None and not any(isinstance(one, dict) for one in records):
                raise UsageError(f"{path}: not valid JSON ({broken})") from None
            raise UsageError(f"{path}, line {number}: not valid JSON ({error})") from None
        if (name := doubled_key(line, count_keys(records[-1]))) is not None:
            raise UsageError(f"{path}, line {number}: {name!r} stands twice; keep one")
    return records, "line"


def of_json(path: Path, fields: Fields, *, lines: bool) -> Columns:
    """Judgements: a list (or lines) of records, {query: {document: grade}}, {query: [document]}.

    Raises UsageError, naming the record, for anything else.
    """
    value, unit = load_json(path, lines=lines)
    rows: dict[str, list[Any]] = {}
    places: list[int] = []
    if isinstance(value, dict):
        value = [
            {"query": query, **one}
            for query, judged in value.items()
            for one in _of_query(path, query, judged)
        ]
    elif not isinstance(value, list):
        raise UsageError(f"{path}: holds neither a list of records nor an object of queries")
    shapes: dict[tuple[str, ...], dict[str, str]] = {}
    for number, record in enumerate(value, 1):
        if record is None and unit == "line":
            continue
        try:
            if not isinstance(record, dict):
                raise FieldError("not an object")
            shape = tuple(record)
            if shape not in shapes:
                shapes[shape] = fields.read(shape)
        except FieldError as error:
            raise UsageError(f"{path}, {unit} {number}: {error}") from None
        for field in (*fields.needed, *shapes[shape]):
            rows.setdefault(field, [None] * len(places))
        for field, values in rows.items():
            values.append(record[shapes[shape][field]] if field in shapes[shape] else None)
        places.append(number)
    if not places:
        raise UsageError(f"{path}: holds no records")
    return Columns(
        pa.table({field: _column(path, field, values) for field, values in rows.items()}),
        str(path),
        lambda row: f"{unit} {places[row]}",
    )


def _of_query(path: Path, query: str, judged: Any) -> list[dict[str, object]]:
    if isinstance(judged, dict):
        return [{"document": document, "grade": grade} for document, grade in judged.items()]
    if isinstance(judged, list):
        return [{"document": document} for document in judged]
    raise UsageError(
        f"{path}, query {query!r}: expected {{document: grade}} or a list of documents"
    )


def _column(path: Path, field: str, values: list[Any]) -> pa.Array:
    plain = _PLAIN.get(field, ())  # of which numbers and texts mean the same
    values = [str(one) if type(one) in plain else one for one in values]
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError) as error:
        said = " ".join(str(error).split())
        raise UsageError(
            f"{path}: the field {field} holds values of several kinds ({said})"
        ) from None
