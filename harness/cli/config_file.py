"""Keys of TOML files (`--config`), made of the settings of dataclasses.

An option that is given on the command line overrides the file.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import UsageError, suggest
from harness.records.settings import Setting, settings_of


def keys_of(*groups: type) -> dict[str, Setting]:
    """Returns the settings of these dataclasses that a TOML file may hold, by name."""
    return {name: one for name, one in settings_of(*groups).items() if one.in_file}


def apply_table(
    options: argparse.Namespace,
    file: Path,
    values: Mapping[str, object],
    keys: Mapping[str, Setting],
) -> None:
    """Sets options that are not set yet from a table of a TOML file.

    Keys are the long options (`batch-size` or `batch_size`); `params` is a table. Relative paths
    are relative to the file's folder; `$NAME` in them is an environment variable, and a path that
    starts with one is relative to the working folder. Raises UsageError for unknown keys, an option
    in both spellings, and values of the wrong kind.
    """
    spelled: dict[str, str] = {}
    for key, value in values.items():
        name = key.replace("-", "_")
        if name in spelled:
            raise UsageError(
                f"--config {file}: {spelled[name]!r} and {key!r} are one option; keep one"
            )
        spelled[name] = key
        if name == "params":
            if not isinstance(value, dict):
                raise UsageError(f"--config {file}: params must be a table: [params]")
            options.params = options.params or _nested(file, value)
            continue
        if name not in keys:
            raise UsageError(f"--config {file}: unknown key {key!r}{suggest(key, sorted(keys))}")
        tables = isinstance(value, list) and all(isinstance(one, dict) for one in value)
        if name in ("dataset", "retriever") and tables:
            raise UsageError(f"--config {file}: a list of them is [[{name}s]], not [[{name}]]")
        read = _value(file, keys[name], value)
        given = getattr(options, name)
        if given is None or given is False:
            setattr(options, name, read)


def _value(file: Path, one: Setting, value: Any) -> Any:
    """Returns the value of a key as the command line would parse it."""

    def check(fits: bool, wanted: str) -> None:
        if not fits:
            raise UsageError(f"--config {file}: {one.name} must be {wanted}, not {value!r}")

    def texts(kinds: type | tuple[type, ...], wanted: str) -> list[Any]:
        parts = value if isinstance(value, list) else [value]
        check(all(isinstance(part, kinds) for part in parts), wanted)
        return parts

    if one.type == "bool":
        check(isinstance(value, bool), "true or false")
        return value
    if one.kind == "time":
        check(isinstance(value, int | float | str) and not isinstance(value, bool), "seconds")
        return str(value)
    if one.kind == "names":
        return ",".join(map(str, texts((int, str), "a text or a list")))
    if one.type == "list[str]" or one.kind == "pairs":
        parts = texts(str, "a text or a list of texts")
        return [_path(file, part) for part in parts] if one.kind == "path" else parts
    if one.type == "int":
        check(isinstance(value, int) and not isinstance(value, bool), "a whole number")
        return value
    if one.type == "float":
        check(isinstance(value, int | float) and not isinstance(value, bool), "a number")
        return float(value)
    if one.kind == "prices" and isinstance(value, dict):
        return value
    check(isinstance(value, str), "a text")
    if one.choices:
        check(value in one.choices, " or ".join(one.choices))
    is_file = one.kind in ("path", "prices") or (one.kind == "retriever" and ".py:" in value)
    return _path(file, value) if is_file else value


def _nested(file: Path, value: Any) -> Any:
    """Returns parameters with paths of `file.py:name` relative to the file's folder, at any
    depth."""
    if isinstance(value, dict):
        return {key: _nested(file, one) for key, one in value.items()}
    if isinstance(value, list):
        return [_nested(file, one) for one in value]
    return _path(file, value) if isinstance(value, str) and ".py:" in value else value


def _path(file: Path, value: str) -> str:
    """Resolves a path relative to the file's folder, with environment variables filled in.

    A path that starts with a variable is relative to the working folder instead.
    """
    filled = os.path.expandvars(value)
    if "$" in filled:
        raise UsageError(f"--config {file}: set the variable of the environment in {value!r}")
    place = Path(filled).expanduser()
    return str(place if value.startswith("$") else file.parent / place)


_KINDS = {
    "time": "number or text",
    "names": "text or list",
    "pairs": "list of texts",
    "prices": "table, or text",
}
_TYPES_OF_TOML = {
    "bool": "true or false",
    "int": "whole number",
    "float": "number",
    "list[str]": "text or list",
}


def reference(keys: Mapping[str, Setting]) -> str:
    """Returns the Markdown table of the keys of a TOML file."""
    rows = ["| key | value | what |", "|---|---|---|"]
    for one in keys.values():
        kind = " or ".join(f"`{choice}`" for choice in one.choices)
        kind = kind or _KINDS.get(one.kind) or _TYPES_OF_TOML.get(one.type, "text")
        rows.append(f"| `{one.name}` | {kind} | {one.reference or one.help} |")
    return "\n".join(rows)
