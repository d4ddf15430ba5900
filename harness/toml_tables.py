"""Lists of tables in a TOML file (`[[at_least]]`) as dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import UsageError, near

_KINDS: dict[str, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "float | None": (int, float),
    "str | float": (str, int, float),
}
"""What a field may be, by its annotation: TOML writes 1 for 1.0, and has no null."""


def tables(path: Path, values: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """The tables `[[name]]`; none where there are none. Raises UsageError for anything else."""
    found = values.get(name, [])
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise UsageError(f"--config {path}: {name} must be tables: [[{name}]]")
    return found


def fields_of(path: Path, kind: Any, row: Mapping[str, Any], **given: Any) -> dict[str, Any]:
    """The fields of a dataclass `kind` from its table, with those `given`, which no table may set.

    Raises UsageError, naming the file, for unknown keys, values of the wrong kind, and fields
    without a default that the table lacks.
    """
    kinds = {name: _KINDS[said] for name, said in kind.__annotations__.items() if name not in given}
    for key, value in row.items():
        if key not in kinds:
            raise UsageError(f"--config {path}: unknown key {key!r}{near(key, list(kinds))}")
        if not isinstance(value, kinds[key]) or isinstance(value, bool):
            what = "a text" if kinds[key] == (str,) else "a number"
            raise UsageError(f"--config {path}: {key} must be {what}, not {value!r}")
    missing = [name for name in kinds if name not in row and not hasattr(kind, name)]
    if missing:
        raise UsageError(f"--config {path}: {row or 'a table'} lacks {missing[0]!r}")
    return {**row, **given}
