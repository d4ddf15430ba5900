"""Maps the fields of log lines to those of a `RetrievalEvent`: a TOML file, and default names.

[log]
format = "jsonl"                # or "otel"; detected from the lines if missing
duration = "ms"                 # unit of `seconds` below: s, ms, us, ns
time = "ms"                     # of numeric times; detected from their size if missing

[log.fields]                    # dotted paths; [] is each item of a list
query_id = "request.qid"
query = "request.text"
returned = "results[].id"
seconds = "timing.total"

[log.where]                     # other lines are skipped, and counted
event = "retrieval"
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from harness.records.base import Record, read_toml_record, to_plain

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

FORMATS = ("jsonl", "otel")


class LogFields(Record):
    """Paths of the fields of a `RetrievalEvent`; None: its default paths, `FIELDS`."""

    query_id: str | None = None
    query: str | None = None
    returned: str | None = None
    scores: str | None = None
    texts: str | None = None
    time: str | None = None
    seconds: str | None = None
    abstained: str | None = None
    confidence: str | None = None
    failed: str | None = None
    system: str | None = None
    session_id: str | None = None
    user_id: str | None = None
    ability: str | None = None
    clicked: str | None = None
    rating: str | None = None
    request_id: str | None = None


class FieldMapping(Record):
    """How the lines of a log are read: the table [log] of a TOML file.

    `fields` replaces default paths. `where` has the values, or lists of values, that the line of a
    request has at these paths. `duration` is the unit of `seconds`, `time` that of numeric times.

    Raises ValueError for unknown formats and units, and for what is no path.
    """

    format: str | None = None
    fields: LogFields = LogFields()
    where: dict[str, object] = msgspec.field(default_factory=dict)
    duration: str | None = None
    time: str | None = None

    def __post_init__(self) -> None:
        if self.format not in (None, *FORMATS):
            raise ValueError(f"format must be {' or '.join(FORMATS)}, not {self.format!r}")
        for name, unit in (("duration", self.duration), ("time", self.time)):
            if unit not in (None, *UNITS):
                raise ValueError(f"{name} must be a unit, one of {', '.join(UNITS)}, not {unit!r}")
        for path in (*self.paths.values(), *self.conditions):
            compile_path(path)
        if self.fields.seconds is not None:
            self.seconds_unit(self.fields.seconds)

    @property
    def paths(self) -> dict[str, str]:
        """The path of each field that has one."""
        paths: dict[str, str] = to_plain(self.fields)
        return paths

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
"""What a path gives that leads nowhere; None is a null that stands there."""

Get = Callable[[Any], Any]

_STEP = re.compile(r"([^\[\]]*)((?:\[\d*\])*)", re.ASCII)


def compile_path(text: str) -> Get:
    """A function from a JSON value to what stands at the path, or MISSING.

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
