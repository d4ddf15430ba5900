"""Converts log lines to a `RetrievalEvent`, with default field names or those of a TOML file.

docs/reference/toml/log.md describes the file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from harness.errors import suggest
from harness.extensions.online.logs.events import Feedback, RetrievalEvent
from harness.io.records import Record, read_toml_record

FIELDS: dict[str, tuple[str, ...]] = {
    "query_id": ("query_id", "qid", "question_id", "query.id", "request.query_id"),
    "query": (
        *("query", "query_text", "question", "text", "input", "query.text"),
        *("request.query", "request.text", "request.question"),
    ),
    "returned": (
        *("returned", "returned_ids", "document_ids", "doc_ids", "ids", "results", "documents"),
        *("hits", "retrieved", "memories", "matches", "contexts"),
        *("response.results", "response.documents", "response.hits", "response.returned"),
    ),
    "scores": ("scores", "response.scores"),
    "texts": ("texts", "response.texts"),
    "time": ("time", "timestamp", "ts", "@timestamp", "datetime", "created_at"),
    "seconds": (
        *("seconds", "latency_seconds", "latency_s", "duration_seconds", "duration_s", "elapsed_s"),
        *("latency_ms", "duration_ms", "elapsed_ms", "took_ms", "latency_us", "duration_us"),
        *("latency_ns", "duration_ns"),
    ),
    "abstained": ("abstained", "abstain", "no_answer"),
    "confidence": ("confidence",),
    "failed": ("failed", "error", "exception"),
    "system": ("system", "retriever", "service"),
    "session_id": ("session_id", "session", "conversation_id", "thread_id"),
    "user_id": ("user_id", "user"),
    "ability": ("ability",),
    "clicked": ("clicked", "clicks", "feedback.clicked", "feedback.clicks"),
    "rating": ("rating", "feedback.rating", "feedback.score"),
    "request_id": ("request_id", "recall_id", "event_id", "trace_id"),
}
"""The default paths of each field of a RetrievalEvent; the first one with a value is used."""

IN_DOCUMENT = {
    "id": ("id", "document_id", "doc_id", "_id", "memory_id", "document.id", "metadata.id"),
    "score": ("score", "similarity", "_score", "relevance"),
    "text": ("text", "content", "memory", "page_content"),
}
"""The default paths in the items of `returned`, if they are objects."""

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Units of durations and of epoch times, in seconds."""

SUFFIXES = {"seconds": "s", "secs": "s", "millis": "ms", **dict(zip(UNITS, UNITS, strict=True))}
"""The unit of a duration, by the last part of its field name after `_`, or the whole name."""

Unit = Literal["s", "ms", "us", "ns"]


class FieldMapping(Record):
    """How to read the lines of a log: the table [log] of a TOML file.

    `fields` replaces default paths, by the names in `FIELDS`. `where` maps paths to the value, or
    the list of values, that a request's line must have there. `duration` is the unit of `seconds`,
    `time` that of numeric times.

    Raises ValueError for unknown fields and units, and for an invalid path.
    """

    format: Literal["jsonl", "otel"] | None = None
    fields: dict[str, str] = msgspec.field(default_factory=dict)
    where: dict[str, object] = msgspec.field(default_factory=dict)
    duration: Unit | None = None
    time: Unit | None = None

    def __post_init__(self) -> None:
        for name in self.fields:
            if name not in FIELDS:
                known = suggest(name, list(FIELDS))
                raise ValueError(f"fields: unknown field {name!r}{known}")
        for path in (*self.fields.values(), *self.conditions):
            compile_path(path)
        if "seconds" in self.fields:
            self.seconds_unit(self.fields["seconds"])

    @property
    def conditions(self) -> dict[str, tuple[object, ...]]:
        """The allowed values at each path of `where`."""
        return {
            path: tuple(values) if isinstance(values, list) else (values,)
            for path, values in _flat(self.where).items()
        }

    def seconds_unit(self, path: str) -> float:
        """Returns the unit of a duration at a path, in seconds. Raises ValueError if unknown."""
        last = path.rsplit(".", 1)[-1]
        unit = self.duration or SUFFIXES.get(last.rsplit("_", 1)[-1])
        if unit is None:
            raise ValueError(
                f'the unit of seconds = {path!r} is unknown; set [log] duration = "s", "ms", "us" '
                'or "ns"'
            )
        return UNITS[unit]

    @classmethod
    def read(cls, path: Path) -> FieldMapping:
        """Reads the table [log] of a TOML file. Raises UsageError that names the file."""
        return read_toml_record(path, _LogConfig, "--log-config").log


class _LogConfig(Record, forbid_unknown_fields=False):
    """A TOML file with a table [log]; a monitor's configuration has other keys too."""

    log: FieldMapping


def _flat(table: dict[str, object], before: str = "") -> dict[str, object]:
    """Joins the keys of nested tables by dots: TOML reads `a.b = 1` as nested."""
    flat: dict[str, object] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{before}{key}.")
        else:
            flat[before + key] = value
    return flat


# -- Dotted paths into JSON: `request.text`, `results[].id` ----------------------------------------

MISSING: Any = object()
"""The value of a path that does not exist; None is a JSON null."""

Get = Callable[[Any], Any]

_PATH = re.compile(r"[^.\[\]]+(\[\])?(\.[^.\[\]]+(\[\])?)*")


def compile_path(text: str) -> Get:
    """Returns a function from a JSON value to the value at the path, or MISSING.

    `a.b` is a field of a field; if an object has a key `a.b`, with the dot in it, that key takes
    precedence (OpenTelemetry names attributes so). `[]` maps over a list and returns a list
    (MISSING for items without the rest). Raises ValueError for an invalid path. JMESPath, which
    would be a new dependency, reads `a.b` as two keys unless it is quoted.
    """
    if not text:
        raise ValueError("a path is empty; write the name of a field")
    if not _PATH.fullmatch(text):
        raise ValueError(f"{text!r} is not a path; write a.b or a[].b")
    name, *rest = re.split(r"\[\]\.?", text)
    return (lambda value: _each(value, name, rest)) if rest else lambda value: _field(value, name)


def _each(value: Any, name: str, rest: list[str]) -> Any:
    value = _field(value, name) if name else value
    if not rest or value is MISSING:
        return value
    if not isinstance(value, list):
        return [] if value is None else MISSING
    return value if rest == [""] else [_each(one, rest[0], rest[1:]) for one in value]


def _field(value: Any, name: str) -> Any:
    if not isinstance(value, dict):
        return MISSING
    if name in value:
        return value[name]
    head = name.rpartition(".")[0]
    while head and head not in value:  # the longest matching key counts
        head = head.rpartition(".")[0]
    return _field(value[head], name[len(head) + 1 :]) if head else MISSING


# -- Conversion of records. Invalid values raise errors --------------------------------------------

_RARE = {"clicked", "rating", "failed", "abstained", "confidence", "request_id"}
_PLANS = 256  # kinds of lines (by their keys) with a cached plan
_WORDS = {"up": 1.0, "down": 0.0, "thumbs_up": 1.0, "thumbs_down": 0.0}

Plan = dict[str, list[tuple[str, Get]]]
"""The candidate paths by field of a RetrievalEvent, for lines of one kind."""


class LineError(ValueError):
    """Raised for an unreadable line; the message is the reason."""


class EventReader:
    """Converts records by one mapping; caches the candidate paths of each kind of line."""

    def __init__(self, mapping: FieldMapping) -> None:
        self._mapping = mapping
        self._where = [(compile_path(p), wanted) for p, wanted in mapping.conditions.items()]
        paths = FIELDS | {name: (path,) for name, path in mapping.fields.items()}
        self._fields = {n: [(p, compile_path(p)) for p in mine] for n, mine in paths.items()}
        self._plans: dict[tuple[str, ...], Plan] = {}
        self._never = {n: p for n, p in mapping.fields.items() if n not in _RARE}
        self._example = ""
        # The mapping's unit applies only to the mapping's own path.
        units = mapping if "seconds" in mapping.fields else FieldMapping()
        self._duration = {path: units.seconds_unit(path) for path in paths["seconds"]}

    def read(self, record: dict[str, object]) -> RetrievalEvent | Feedback | None:
        """Returns the request or the feedback of a record; None for a line that `where` excludes.

        Raises LineError.
        """
        if any(get(record) not in wanted for get, wanted in self._where):
            return None
        plan = self._plan(record)
        value = {name: found for name, gets in plan.items() if (found := _look(record, gets))}
        # A null field means an empty result; a missing field means an unknown result.
        silent = "returned" not in value and "texts" not in value
        null = silent and any(get(record) is not MISSING for _, get in plan.get("returned", ()))
        if silent and not null:
            if "request_id" in value and ("clicked" in value or "rating" in value):
                return Feedback(
                    _id(*value["request_id"]),
                    _ids(*value["clicked"]) if "clicked" in value else None,
                    _rating(*value["rating"]) if "rating" in value else None,
                    self._time(value),
                )
            if "abstained" not in value and "failed" not in value and "attributes" not in record:
                path = self._mapping.fields.get("returned")
                wanted = repr(path) if path else "with the returned documents (returned, ...)"
                raise LineError(f"no field {wanted}; the line has {_field_names(record)}")
        if self._never:
            self._never = {n: path for n, path in self._never.items() if n not in value}
            self._example = self._example or _field_names(record)
        try:
            return self._event(value, null)
        except _MissingPathError as error:
            raise LineError(f"{error}; the line has {_field_names(record)}") from None

    def unused_field(self) -> str:
        """Names a field of the mapping that no request had so far; empty if all were used.

        Optional fields (clicks, errors) are not reported.
        """
        if not self._never or not self._example:
            return ""
        name, path = next(iter(self._never.items()))
        return f"[log.fields] {name} = {path!r}: no request has it; the first has {self._example}"

    def _event(self, value: dict[str, tuple[str, object]], null: bool) -> RetrievalEvent:
        event = RetrievalEvent(time=self._time(value), seconds=self._seconds(value))
        if "returned" in value:
            _documents(event, *value["returned"])
        for name, (path, given) in value.items():
            if name in _CONVERTERS:
                setattr(event, name, _CONVERTERS[name](path, given))
        if null or (event.abstained and "returned" not in value and "texts" not in value):
            event.returned = ()
        for what, known in (("scores", event.scores), ("texts", event.texts)):
            if known is not None and event.returned and len(known) != len(event.returned):
                raise LineError(f"{len(event.returned)} returned documents, {len(known)} {what}")
        return event

    def _plan(self, record: dict[str, object]) -> Plan:
        keys = tuple(record)
        plan = self._plans.get(keys)
        if plan is None:
            begin = {*keys}
            tried = {
                name: [one for one in paths if one[0] in begin or _first(one[0]) in begin]
                for name, paths in self._fields.items()
            }
            plan = {name: paths for name, paths in tried.items() if paths}
            if len(self._plans) < _PLANS:
                self._plans[keys] = plan
        return plan

    def _time(self, value: dict[str, tuple[str, object]]) -> float | None:
        if "time" not in value:
            return None
        path, given = value["time"]
        if isinstance(given, str):
            try:
                moment = datetime.fromisoformat(given)
            except ValueError:
                raise LineError(f"{path} is not an ISO time: {given!r}") from None
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        number = _number(path, given)
        if self._mapping.time is not None:
            return number * UNITS[self._mapping.time]
        # The size implies the unit: each covers the years 1973 to 5138.
        above = (("ns", 1e17), ("us", 1e14), ("ms", 1e11), ("s", 0))
        return number * UNITS[next(unit for unit, least in above if abs(number) >= least)]

    def _seconds(self, value: dict[str, tuple[str, object]]) -> float | None:
        if "seconds" not in value:
            return None
        path, given = value["seconds"]
        seconds = _number(path, given) * self._duration[path]
        if seconds < 0:
            raise LineError(f"{path} is a negative duration: {given!r}")
        return seconds


class _MissingPathError(LineError):
    """Raised for a path that does not exist in the line."""


def _first(path: str) -> str:
    """Returns the first key of a path."""
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def _look(record: dict[str, object], gets: list[tuple[str, Get]]) -> tuple[str, Any] | None:
    """Returns the first path with a non-null value, and the value."""
    for path, get in gets:
        found = get(record)
        if found is not MISSING and found is not None:
            return path, found
    return None


_DOCUMENT = {
    what: [(_first(name), compile_path(name)) for name in names]
    for what, names in IN_DOCUMENT.items()
}


def _item_field(one: dict[str, object], what: str) -> object:
    for first, get in _DOCUMENT[what]:
        if first in one and (found := get(one)) is not MISSING and found is not None:
            return found
    return None


def _documents(event: RetrievalEvent, path: str, given: object) -> None:
    """Sets `returned`, `scores` and `texts` from a list of ids, or of objects with these fields."""
    items = _list(path, given)
    if not items or not isinstance(items[0], dict):
        event.returned = tuple([_id(path, one) for one in items])
        return
    ids, scores, texts = [], [], []
    for i, one in enumerate(items):
        if not isinstance(one, dict):
            raise LineError(f"{path}[{i}] is not an object, unlike the first: {one!r}")
        ids.append(_item_field(one, "id"))
        scores.append(_item_field(one, "score"))
        texts.append(_item_field(one, "text"))
    without = [i for i, one in enumerate(ids) if one is None]
    if not without:
        event.returned = tuple(_id(f"{path}[].id", one) for one in ids)
    elif len(without) < len(ids) or None in texts:
        raise LineError(f"{path}[{without[0]}] has no id; it has {_field_names(items[without[0]])}")
    if None not in scores:
        event.scores = tuple(_number(f"{path}[].score", one) for one in scores)
    if None not in texts:
        event.texts = tuple(_id(f"{path}[].text", one) for one in texts)


def _list(path: str, given: object) -> list[Any]:
    if not isinstance(given, list):
        raise LineError(f"{path} is not a list: {given!r}"[:120])
    return given


def _ids(path: str, given: object) -> tuple[str, ...]:
    items = given if isinstance(given, list) else [given]
    return tuple(
        _id(path, _item_field(one, "id") if isinstance(one, dict) else one) for one in items
    )


def _id(path: str, given: object) -> str:
    """Converts an id to text; whole numbers are ids too."""
    if isinstance(given, str):
        return given
    if type(given) is int:
        return str(given)
    if given is MISSING:
        raise _MissingPathError(f"nothing at {path}")
    raise LineError(f"{path} is not text or a whole number: {given!r}"[:120])


def _number(path: str, given: object) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise LineError(f"{path} is not a number: {given!r}"[:120])
    number = float(given)
    if not math.isfinite(number):
        raise LineError(f"{path} is not a finite number: {given!r}")
    return number


def _flag(path: str, given: object) -> bool:
    if isinstance(given, bool):
        return given
    raise LineError(f"{path} is not true or false: {given!r}"[:120])


def _rating(path: str, given: object) -> float:
    if isinstance(given, bool):
        return float(given)
    if isinstance(given, str) and given.lower() in _WORDS:
        return _WORDS[given.lower()]
    return _number(path, given)


_TEXTS = ("query", "query_id", "system", "session_id", "user_id", "ability", "request_id")
_CONVERTERS: dict[str, Callable[[str, object], object]] = {
    **dict.fromkeys(_TEXTS, _id),
    "abstained": _flag,
    "failed": lambda _, given: bool(given),
    "confidence": _number,
    "clicked": _ids,
    "rating": _rating,
    "scores": lambda path, given: tuple(_number(path, one) for one in _list(path, given)),
    "texts": lambda path, given: tuple(_id(path, one) for one in _list(path, given)),
}
"""Field -> function from its path and value to the value in a RetrievalEvent."""


def _field_names(record: object) -> str:
    """Lists the fields of an object, for a message."""
    names = [*record] if isinstance(record, dict) else []
    more = f" and {len(names) - 12} more" if len(names) > 12 else ""
    return (", ".join(names[:12]) or "no fields") + more
