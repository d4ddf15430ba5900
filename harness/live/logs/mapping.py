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

from collections.abc import Mapping as MappingType
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.errors import UsageError, near
from harness.files import read_toml
from harness.live.logs.names import FIELDS, SUFFIXES, UNITS
from harness.live.logs.paths import compile_path

FORMATS = ("jsonl", "otel")


@dataclass(frozen=True)
class Mapping:
    """How lines are read. `fields` maps fields of a Recall to paths, and replaces the names that
    are understood without it; `where` maps paths to the values that a recall's line has there.

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
