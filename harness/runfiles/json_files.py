"""Reads runs and qrels from JSON and JSON Lines: records, or one object of queries.

A run has records {query, document, score?}, {query, documents, scores?} or
{query, hits: [{document, score?}, ...]}, or is one object {query: {document: score}} or
{query: [document, ...]}.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa

from harness.errors import UsageError
from harness.io.files import doubled_key
from harness.runfiles.fields import (
    HIT_LISTS,
    HITS,
    RUN,
    RUN_LISTS,
    FieldError,
    Fields,
    are_numbers,
    note_unread,
)
from harness.runfiles.raw import BYTE_ORDER_MARK, MARKED, read_bytes, read_lines
from harness.runfiles.tables import LOOKED_AT, Columns, holds_numbers

_LINE = '{"query": id, "document": id, "score": number}'
_OBJECT = '{"query": {"document": score, ...}, ...} or {"query": ["document", ...], ...}'
_NUMBERS = {int, float}
_HEAD = 1 << 16
_OBJECT_OF = re.compile(rb'\s*\{\s*"((?:[^"\\]|\\.)*)"\s*:\s*[\[{]')
_PLAIN = {"query": (int,), "document": (int,), "grade": (int, float, bool)}


def load_json(path: Path, *, lines: bool = False) -> tuple[Any, str]:
    """Returns the value of a JSON file and the unit of its records: `record` or `line`.

    JSON Lines become a list with None for blank lines; with `lines`, the file must be JSON Lines.
    Raises UsageError for invalid JSON, and for a repeated key in an object.
    """
    broken: object = None
    texts: Iterable[bytes] = read_lines(path) if lines else ()
    if not lines:
        data = read_bytes(path)
        texts = data.split(b"\n")
        try:
            value = orjson.loads(data)
        except orjson.JSONDecodeError as error:
            broken = error
        else:
            if (name := doubled_key(data, value)) is not None:
                raise UsageError(f"{path}: {name!r} occurs twice in one object; keep one")
            return value, "record"
    records: list[Any] = []
    for number, line in enumerate(texts, 1):
        try:
            records.append(orjson.loads(line) if line.strip() else None)
        except orjson.JSONDecodeError as error:
            if broken is not None and not any(isinstance(one, dict) for one in records):
                raise UsageError(f"{path}: not valid JSON ({broken})") from None
            marked = line.startswith(BYTE_ORDER_MARK)
            what = f"the line {MARKED}" if marked else f"not valid JSON ({error})"
            raise UsageError(f"{path}, line {number}: {what}") from None
        if records[-1] is None and line.strip():
            raise UsageError(f"{path}, line {number}: null is not a record; remove the line")
        if (name := doubled_key(line, records[-1])) is not None:
            raise UsageError(f"{path}, line {number}: {name!r} occurs twice; keep one")
    return records, "line"


# -- runs ------------------------------------------------------------------------------------------


@dataclass
class Answers:
    """Returned documents of all queries, one row per document, in the order of the file.

    `ids` maps each query id to its index, and `query` holds the index of each row. `scores` and
    `ranks` are empty if the file has none.
    """

    ids: dict[str, int] = field(default_factory=dict)
    query: list[int] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)
    scores: list[float] = field(default_factory=list)
    ranks: list[float] = field(default_factory=list)

    def add(self, query: str, documents: list[str]) -> None:
        """Adds a query's documents, possibly none; the caller adds their scores."""
        self.query += [self.ids.setdefault(query, len(self.ids))] * len(documents)
        self.documents += documents


def read_run(path: Path, *, lines: bool, score_column: str = "") -> Answers:
    """Reads a JSON run file. A query with an empty list of documents has an empty ranking.

    Raises UsageError, naming file and record, for unreadable records, and if only some records have
    scores.
    """
    value, unit = load_json(path, lines=lines)
    if (
        not score_column
        and isinstance(value, dict)
        and {*map(type, value.values())} in ({dict}, {list}, {dict, list})
    ):
        return _of_object(path, value)
    found = _Records(path, unit, score_column)
    for number, record in enumerate(value if isinstance(value, list) else [value], 1):
        if record is None and unit == "line":
            continue
        try:
            found.take(number, record)
        except (FieldError, TypeError, ValueError) as error:
            raise UsageError(f"{path}, {unit} {number}: expected {_LINE} ({error})") from None
    return found.whole()


def holds_queries(path: Path) -> bool:
    """Tests whether a .json file is one object of queries, which may have empty rankings."""
    if not {".json"} & {ending.lower() for ending in path.suffixes}:
        return False
    head = _OBJECT_OF.match(read_bytes(path, _HEAD))
    return bool(head and RUN_LISTS.field(head[1].decode(errors="replace")) is None)


def rows_of_lines(path: Path, fields: Fields) -> pa.Table | None:
    """Reads a JSONL run file of one row per line by Arrow's reader, under the fields' names.

    Returns None for any other form and for irregular files; `read_run` then reports the problem.
    """
    from pyarrow import json as arrow_json

    data = read_bytes(path)
    try:
        record = orjson.loads(data[: data.find(b"\n") + 1] or data)
        names = fields.read([*record]) if isinstance(record, dict) else {}
        types = {"query": pa.string(), "document": pa.string()}
        types |= {"score": pa.float64(), "rank": pa.float64()}
        schema = pa.schema([(name, types[field]) for field, name in names.items()])
        if not names:
            return None
        table = arrow_json.read_json(
            pa.py_buffer(data), parse_options=arrow_json.ParseOptions(explicit_schema=schema)
        )
        unread = fields.unread(table.column_names)
        if fields.read(table.column_names) != names:
            return None
        fields.refuse_numbers(names, (one for one in unread if holds_numbers(table[one])))
        table = table.select(list(names.values())).rename_columns(list(names))
        table.validate(full=True)
    except (FieldError, ValueError, pa.ArrowException):
        return None
    lines = data.count(b"\n") + (not data.endswith(b"\n"))
    if len(table) != lines or any(column.null_count for column in table.columns):
        return None
    note_unread(str(path), unread)
    return table


class Shapes:
    """Fields of a file's records, resolved once for each set of names.

    `forms`: the possible fields of a record; the first that matches is used.
    """

    def __init__(self, *forms: Fields) -> None:
        self._forms = forms
        self._known: dict[tuple[str, ...], tuple[Fields, dict[str, str], list[str]]] = {}
        self._said: dict[str, tuple[Fields, list[Any]]] = {}

    def read(self, record: Any) -> tuple[Fields, dict[str, str]]:
        """Returns a record's form and the record's name of each field. Raises FieldError."""
        if not isinstance(record, dict):
            raise FieldError("not an object")
        shape = tuple(record)
        if shape not in self._known:
            form = next((one for one in self._forms if one.heads(shape)), self._forms[-1])
            self._known[shape] = form, form.read(shape), form.unread(shape)
        form, names, unread = self._known[shape]
        counted = any(one in names and record[names[one]] is not None for one in form.numbers)
        for name in () if counted else unread:
            values = self._said.setdefault(name, (form, []))[1]
            if len(values) < LOOKED_AT and record[name] is not None:
                values.append(record[name])
        return form, names

    def end(self, where: str) -> None:
        """Logs unread fields. Raises UsageError for unread numbers in records without scores."""
        try:
            for name, (form, values) in self._said.items():
                form.refuse_numbers((), [name] if are_numbers(values) else ())
        except FieldError as error:
            raise UsageError(f"{where}: {error}") from None
        note_unread(
            where, dict.fromkeys(one for *_, unread in self._known.values() for one in unread)
        )


class _Records:
    """Collects the records of a file; `unit` names them in errors: line or record."""

    def __init__(self, path: Path, unit: str, score_column: str = "") -> None:
        self._path, self._unit = path, unit
        forms: tuple[Fields, ...] = (RUN_LISTS, HIT_LISTS, RUN)
        if score_column:
            forms = (RUN_LISTS.scored_by(score_column), HIT_LISTS, RUN.scored_by(score_column))
        self._named = score_column
        self._answers = Answers()
        self._first: dict[str, dict[bool, int]] = {"score": {}, "rank": {}}
        self._shapes, self._hits = Shapes(*forms), Shapes(HITS)

    def take(self, number: int, record: Any) -> None:
        """Adds a record. Raises FieldError, TypeError and ValueError."""
        form, names = self._shapes.read(record)
        query, scores, ranks = record[names["query"]], None, None
        if form is HIT_LISTS:
            if self._named:
                raise FieldError("--score-column is not for hits: call their field score")
            query, hits = hits_of(record, self._hits)
            if not all("id" in hit for hit in hits):
                raise TypeError("a hit names no document; texts are scored on a --dataset")
            found = [hit["id"] for hit in hits]
            scores, ranks = (_all(hits, name) for name in ("score", "rank"))
        elif "documents" in names:
            found = record[names["documents"]]
            scores = record[names["scores"]] if "scores" in names else scores
        else:
            found = [record[names["document"]]]
            scores, ranks = (_alone(record, names, name) for name in ("score", "rank"))
        if not isinstance(found, list) or not isinstance(scores, list | None):
            raise TypeError("documents and scores must be lists")
        if scores is not None and len(scores) != len(found):
            raise ValueError(f"{len(found)} documents, {len(scores)} scores")
        answers = self._answers
        answers.add(_id(query), _ids(found))
        for name, given, values in (
            ("score", scores, answers.scores),
            ("rank", ranks, answers.ranks),
        ):
            if given is not None and not set(map(type, given)) <= _NUMBERS:
                raise TypeError(f"{name}s must be numbers")
            values += given or []
            if found:
                self._first[name].setdefault(given is not None, number)

    def whole(self) -> Answers:
        """Returns all records. Raises UsageError if only some have scores, or if there are none."""
        for name, first in self._first.items():
            if len(first) == 2 and not (name == "rank" and self._answers.scores):
                raise UsageError(
                    f"{self._path}, {self._unit} {first[False]}: no {name}, but {self._unit} "
                    f"{first[True]} has one; give all or none"
                )
        for shapes in (self._shapes, self._hits):
            shapes.end(str(self._path))
        if not self._answers.ids:
            raise UsageError(f"{self._path}: empty; a run has {self._unit}s {_LINE}")
        return self._answers


def hits_of(record: dict[str, Any], shapes: Shapes) -> tuple[str, list[dict[str, Any]]]:
    """Returns the query id of a record with hits, and the hits, each under the names of HITS.

    Hits are sorted by score, else by rank, else they keep their order. The query id may be in the
    hits, or in an object with the query's text, as in RankLLM. Raises FieldError and TypeError.
    """
    names = HIT_LISTS.read([*record])
    query, hits = record[names["query"]], record[names["hits"]]
    if not isinstance(hits, list) or not all(isinstance(one, dict) for one in hits):
        raise TypeError("hits must be a list of objects")
    for one in [query] if isinstance(query, dict) else hits[: names["query"] == "query"]:
        query = next((one[name] for name in ("qid", "query_id") if name in one), query)
    found = [{field: one[name] for field, name in shapes.read(one)[1].items()} for one in hits]
    for hit in found:
        if "id" in hit:
            hit["id"] = _id(hit["id"])
    scores, ranks = (_all(found, name) for name in ("score", "rank"))
    if scores is not None and {*map(type, scores)} <= _NUMBERS:
        found.sort(key=lambda hit: hit["score"], reverse=True)
    elif ranks is not None:
        if not {*map(type, ranks)} <= _NUMBERS or len({*ranks}) < len(ranks):
            raise TypeError("the ranks of hits must be numbers, each once")
        found.sort(key=lambda hit: hit["rank"])
    return _id(query), found


def _all(hits: list[dict[str, Any]], name: str) -> list[Any] | None:
    values = [hit.get(name) for hit in hits]
    return values if any(value is not None for value in values) else None


def _alone(record: dict[str, object], names: dict[str, str], name: str) -> list[Any] | None:
    value = record[names[name]] if name in names else None
    return None if value is None else [value]


def _ids(values: list[Any]) -> list[str]:
    return values if set(map(type, values)) == {str} else [_id(one) for one in values]


def _id(value: Any) -> str:
    if type(value) is int:
        return str(value)
    if not isinstance(value, str):
        raise TypeError("ids must be text")
    return value


def _of_object(path: Path, run: dict[str, dict[str, Any] | list[Any]]) -> Answers:
    """Reads {query: {document: score}} or {query: [document, ...]}."""
    answers = Answers()
    kinds: dict[type, str] = {}
    for query, found in run.items():
        scores = list(found.values()) if isinstance(found, dict) else []
        try:
            answers.add(query, _ids(list(found)))
        except TypeError as error:
            raise UsageError(f"{path}, query {query!r}: {error}; a run is {_OBJECT}") from None
        if found:
            kinds.setdefault(type(found), query)
        if not set(map(type, scores)) <= _NUMBERS:
            raise UsageError(f"{path}, query {query!r}: scores must be numbers; a run is {_OBJECT}")
        answers.scores += scores
    if len(kinds) == 2:
        raise UsageError(
            f"{path}, query {kinds[list]!r}: no scores, but query {kinds[dict]!r} has them; give "
            "all or none"
        )
    return answers


# -- judgements ------------------------------------------------------------------------------------


def of_json(path: Path, fields: Fields, *, lines: bool) -> Columns:
    """Reads qrels: records (list or lines), {query: {document: grade}} or {query: [document]}.

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
    shapes = Shapes(fields)
    for number, record in enumerate(value, 1):
        if record is None and unit == "line":
            continue
        try:
            _, names = shapes.read(record)
        except FieldError as error:
            raise UsageError(f"{path}, {unit} {number}: {error}") from None
        for name in (*fields.needed, *names):
            rows.setdefault(name, [None] * len(places))
        for name, values in rows.items():
            values.append(record[names[name]] if name in names else None)
        places.append(number)
    shapes.end(str(path))
    if not places:
        raise UsageError(f"{path}: holds no records")
    return Columns(
        pa.table({name: _column(path, name, values) for name, values in rows.items()}),
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
    plain = _PLAIN.get(field, ())  # types that mean the same as their text
    values = [str(one) if type(one) in plain else one for one in values]
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError) as error:
        said = " ".join(str(error).split())
        raise UsageError(
            f"{path}: the field {field} holds values of several kinds ({said})"
        ) from None
