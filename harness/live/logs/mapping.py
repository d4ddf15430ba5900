"""Which field of a log line says what: a TOML file, and names that are understood without one.

[log]
format = "jsonl"                # or "otel"; told from the lines where it is not given
duration = "ms"                 # unit of `seconds` below: s, ms, us, ns
time = "ms"                     # of numeric times; told from their size where it is not given

[log.fields]                    # dotted paths; [] is each item of a list
query_id = "request.qid"
query = "request.text"
returned = "results[].id"
seconds = "timing.total"

[log.where]                     # other lines are passed over, and counted
event = "recall"
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Mapping as MappingType
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import UsageError, near
from harness.files import read_toml

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
    "session": ("session_id", "session", "conversation_id", "thread_id"),
    "user": ("user_id", "user"),
    "ability": ("ability",),
    "clicked": ("clicked", "clicks", "feedback.clicked", "feedback.clicks"),
    "rating": ("rating", "feedback.rating", "feedback.score"),
    "request": ("request_id", "recall_id", "event_id", "trace_id"),
}
"""Field of a Recall -> the paths that logs commonly have it at; the first that is there counts."""

IN_DOCUMENT = {
    "id": ("id", "document_id", "doc_id", "_id", "memory_id", "document.id", "metadata.id"),
    "score": ("score", "similarity", "_score", "relevance"),
    "text": ("text", "content", "memory", "page_content"),
}
"""Where `returned` is a list of objects: what each says, and by which names."""

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
"""How the name of a field tells its unit: what stands behind its last `_`, or all of it."""

FORMATS = ("jsonl", "otel")


@dataclass(frozen=True)
class Mapping:
    """How lines are read.

    `fields` maps fields of a Recall to paths, and replaces the names that are understood without
    it; `where` maps paths to the values that a recall's line has there.

    Raises UsageError for unknown fields, formats and units, and for what is no path.
    """

    format: str | None = None
    fields: MappingType[str, str] = field(default_factory=dict)
    where: MappingType[str, tuple[Any, ...]] = field(default_factory=dict)
    duration: str | None = None
    time: str | None = None

    def __post_init__(self) -> None:
        if self.format not in (None, *FORMATS):
            raise UsageError(f"[log] format must be {' or '.join(FORMATS)}, not {self.format!r}")
        for name, unit in (("duration", self.duration), ("time", self.time)):
            if unit not in (None, *UNITS):
                known = ", ".join(UNITS)
                raise UsageError(f"[log] {name} must be a unit, one of {known}, not {unit!r}")
        for name, path in self.fields.items():
            if name not in FIELDS:
                raise UsageError(f"[log.fields]: unknown field {name!r}{near(name, list(FIELDS))}")
            compile_path(path)
        for path in self.where:
            compile_path(path)
        if "seconds" in self.fields:
            self.seconds_unit(self.fields["seconds"])

    def seconds_unit(self, path: str) -> float:
        """The unit of a duration at a path, in seconds. Raises UsageError where nobody tells."""
        last = path.rsplit(".", 1)[-1]
        unit = self.duration or SUFFIXES.get(last.rsplit("_", 1)[-1])
        if unit is None:
            raise UsageError(
                f"[log.fields]: seconds = {path!r} does not tell its unit; say [log] duration = "
                '"s", "ms", "us" or "ns"'
            )
        return UNITS[unit]

    @classmethod
    def read(cls, path: Path) -> Mapping:
        """The table [log] of a TOML file. Raises UsageError that names the file."""
        values = read_toml(path)
        if "log" not in values:
            raise UsageError(f"{path}: no table [log] in it, which says how lines are read")
        try:
            return cls.parse(values["log"])
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from None

    @classmethod
    def parse(cls, table: Any) -> Mapping:
        """The mapping of a table [log]. Raises UsageError."""
        if not isinstance(table, dict):
            raise UsageError("[log] must be a table")
        known = ["format", "duration", "time", "fields", "where"]
        for key in table:
            if key not in known:
                raise UsageError(f"[log]: unknown key {key!r}{near(key, known)}")
        for key in ("format", "duration", "time"):
            if not isinstance(table.get(key), str | None):
                raise UsageError(f"[log] {key} must be a text, not {table[key]!r}")
        for key in ("fields", "where"):
            if not isinstance(table.get(key, {}), dict):
                raise UsageError(f"[log.{key}] must be a table")
        fields = table.get("fields", {})
        for key, path in fields.items():
            if not isinstance(path, str):
                raise UsageError(f"[log.fields] {key} must be a path in quotes, not {path!r}")
        where = {
            path: tuple(wanted) if isinstance(wanted, list) else (wanted,)
            for path, wanted in _flat(table.get("where", {})).items()
        }
        return cls(table.get("format"), fields, where, table.get("duration"), table.get("time"))

    def as_json(self) -> dict[str, Any]:
        """What run.json keeps."""
        return {
            "format": self.format,
            "fields": dict(self.fields),
            "where": {path: list(values) for path, values in self.where.items()},
            "duration": self.duration,
            "time": self.time,
        }


def _flat(table: dict[str, Any], before: str = "") -> dict[str, Any]:
    """A table with its inner tables' keys joined by points: TOML reads `a.b = 1` as nested."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            found |= _flat(value, f"{before}{key}.")
        else:
            found[before + key] = value
    return found


# -- Dotted paths into JSON: `request.text`, `results[].id`, `choices[0].text` ---------------------

MISSING: Any = object()
"""What a path gives that leads nowhere; None is a null that stands there."""

Get = Callable[[Any], Any]

_STEP = re.compile(r"([^\[\]]*)((?:\[\d*\])*)", re.ASCII)


def compile_path(text: str) -> Get:
    """A function from a JSON value to what stands at the path, or MISSING.

    `a.b` is a field of a field; where an object has a key `a.b`, with the point in it, that is
    taken first (OpenTelemetry names attributes so). `[]` takes each item of a list and gives a list
    (MISSING for items without the rest), `[0]` the first. Raises UsageError for what is no path.
    JMESPath, which no dependency brings, takes `a.b` for two keys unless it is quoted.
    """
    steps: list[str | int | None] = []
    rest = text
    while rest:
        found = _STEP.match(rest)
        if found is None or not found[0]:
            raise UsageError(f"{text!r} is no path; write a.b, a[].b or a[0].b")
        name, brackets = found[1].strip("."), found[2]
        if name:
            steps.append(name)
        steps += [int(i) if i else None for i in re.findall(r"\[(\d*)\]", brackets)]
        rest = rest[found.end() :]
        if rest and not rest.startswith("."):
            raise UsageError(f"{text!r} is no path; write a.b, a[].b or a[0].b")
    if not steps:
        raise UsageError("a path is empty; write the name of a field")
    return _chain(steps)


def first_name(text: str) -> str:
    """The field of the record itself that a path begins with."""
    return re.split(r"[.\[]", text, maxsplit=1)[0]


def _chain(steps: list[str | int | None]) -> Get:
    step, rest = steps[0], steps[1:]
    then = _chain(rest) if rest else None
    if step is None:
        return lambda value: _each(value, then)
    if isinstance(step, int):
        return lambda value: _item(value, step, then)
    return lambda value: _field(value, step, then)


def _field(value: Any, name: str, then: Get | None) -> Any:
    if not isinstance(value, dict):
        return MISSING
    found = value.get(name, MISSING)
    if found is MISSING and "." in name:
        head, _, tail = name.rpartition(".")
        while head:
            inner = value.get(head, MISSING)
            if inner is not MISSING:
                found = _field(inner, tail, None)
                break
            head, _, more = head.rpartition(".")
            tail = f"{more}.{tail}"
    return found if then is None or found is MISSING else then(found)


def _item(value: Any, at: int, then: Get | None) -> Any:
    if not isinstance(value, list) or at >= len(value):
        return MISSING
    return value[at] if then is None else then(value[at])


def _each(value: Any, then: Get | None) -> Any:
    if value is None:
        return []
    if not isinstance(value, list):
        return MISSING
    return value if then is None else [then(one) for one in value]
