"""Maps the fields of log lines to those of a `RetrievalEvent`: default names, and a TOML file.

docs/reference/toml/log.md describes the file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import msgspec

from harness.errors import near
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
"""The default paths of each field of a RetrievalEvent; the first one in a line counts."""

IN_DOCUMENT = {
    "id": ("id", "document_id", "doc_id", "_id", "memory_id", "document.id", "metadata.id"),
    "score": ("score", "similarity", "_score", "relevance"),
    "text": ("text", "content", "memory", "page_content"),
}
"""The default paths in the objects of `returned`, where it is a list of objects."""

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Units of durations and of epoch times, in seconds."""

SUFFIXES = {
    "seconds": "s",
    "s": "s",
    "secs": "s",
    "ms": "ms",
    "millis": "ms",
    "us": "us",
    "ns": "ns",
}
"""The unit of a duration, by the end of its field's name: behind its last `_`, or all of it."""

Unit = Literal["s", "ms", "us", "ns"]


class FieldMapping(Record):
    """How the lines of a log are read: the table [log] of a TOML file.

    `fields` replaces default paths, by the names in `FIELDS`. `where` has the values, or lists of
    values, that the line of a request has at these paths. `duration` is the unit of `seconds`,
    `time` that of numeric times.

    Raises ValueError for unknown fields and units, and for what is no path.
    """

    format: Literal["jsonl", "otel"] | None = None
    fields: dict[str, str] = msgspec.field(default_factory=dict)
    where: dict[str, object] = msgspec.field(default_factory=dict)
    duration: Unit | None = None
    time: Unit | None = None

    def __post_init__(self) -> None:
        for name in self.fields:
            if name not in FIELDS:
                known = near(name, list(FIELDS))
                raise ValueError(f"fields: unknown field {name!r}{known}")
        for path in (*self.fields.values(), *self.conditions):
            compile_path(path)
        if "seconds" in self.fields:
            self.seconds_unit(self.fields["seconds"])

    @property
    def conditions(self) -> dict[str, tuple[object, ...]]:
        """The values that the line of a request has at each path of `where`."""
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
    """Joins the keys of inner tables by points: TOML reads `a.b = 1` as nested."""
    flat: dict[str, object] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{before}{key}.")
        else:
            flat[before + key] = value
    return flat


# -- Dotted paths into JSON: `request.text`, `results[].id`, `choices[0].text` ---------------------

MISSING: Any = object()
"""The value of a path that leads nowhere; None is a null in the line."""

Get = Callable[[Any], Any]

_STEP = re.compile(r"([^\[\]]*)((?:\[\d*\])*)", re.ASCII)


def compile_path(text: str) -> Get:
    """Returns a function from a JSON value to the value at the path, or MISSING.

    `a.b` is a field of a field; where an object has a key `a.b`, with the point in it, that is
    taken first (OpenTelemetry names attributes so). `[]` takes each item of a list and gives a list
    (MISSING for items without the rest), `[0]` the first. Raises ValueError for what is no path.
    JMESPath, which no dependency brings, takes `a.b` for two keys unless it is quoted.
    """
    steps: list[str | int | None] = []
    rest = text
    while rest:
        found = _STEP.match(rest)
        if found is None or not found[0]:
            raise ValueError(f"{text!r} is no path; write a.b, a[].b or a[0].b")
        name, brackets = found[1].strip("."), found[2]
        if name:
            steps.append(name)
        steps += [int(i) if i else None for i in re.findall(r"\[(\d*)\]", brackets)]
        rest = rest[found.end() :]
        if rest and not rest.startswith("."):
            raise ValueError(f"{text!r} is no path; write a.b, a[].b or a[0].b")
    if not steps:
        raise ValueError("a path is empty; write the name of a field")
    if len(steps) == 1 and isinstance(name := steps[0], str):
        return lambda value: _field(value, name)
    return lambda value: _at(value, steps)


def first_name(text: str) -> str:
    """The field of the record itself that a path begins with."""
    return re.split(r"[.\[]", text, maxsplit=1)[0]


def _at(value: Any, steps: list[str | int | None]) -> Any:
    for at, step in enumerate(steps):
        if step is None:
            rest = steps[at + 1 :]
            if not isinstance(value, list):
                return [] if value is None else MISSING
            return [_at(one, rest) for one in value] if rest else value
        if isinstance(step, str):
            value = _field(value, step)
        else:
            value = value[step] if isinstance(value, list) and step < len(value) else MISSING
        if value is MISSING:
            break
    return value


def _field(value: Any, name: str) -> Any:
    if not isinstance(value, dict):
        return MISSING
    found = value.get(name, MISSING)
    if found is MISSING and "." in name:
        head, _, tail = name.rpartition(".")
        while head:
            inner = value.get(head, MISSING)
            if inner is not MISSING:
                found = _field(inner, tail)
                break
            head, _, more = head.rpartition(".")
            tail = f"{more}.{tail}"
    return found
