"""A run's options from a TOML file; what stands on the command line wins."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.errors import UsageError, near
from harness.files import read_toml

_NUMBERS = {"k", "cut", "limit", "seed", "workers", "batch_size", "concurrency", "retries"}
_FRACTIONS = {"match_f1", "match_semantic", "max_usd"}
_FLAGS = {
    "allow_empty",
    "as_of",
    "answers",
    "isolate",
    "rebuild",
    "require_cached_index",
    "strict",
    "quiet",
}
_TIMES = {"timeout", "query_timeout", "index_timeout"}
_LISTS = {"protocol", "plugin", "ray_options"}
_SEVERAL = {"ks", "metrics"}
_CHOICES = {"missing": ("zero", "skip"), "repeats": ("latest", "first", "refuse")}


def apply_config(options: argparse.Namespace, path: str, known: set[str]) -> None:
    """Fill options that the command line left open from the file.

    Keys are the long options (`batch-size` or `batch_size`); `params` is a table. Relative paths of
    `source`, `plugin` and a retriever's file are taken from the file's folder; `$NAME` in them is a
    variable of the environment, and what it holds is taken from where the command is given. Raises
    UsageError for a missing or broken file, unknown keys, an option that stands in both spellings,
    and values of the wrong kind.
    """
    apply_table(options, Path(path), read_config(Path(path)), known)


def apply_table(
    options: argparse.Namespace, file: Path, values: Mapping[str, object], known: set[str]
) -> None:
    """Fill options that are open yet from one table of the file; raises as `apply_config`."""
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
        if name not in known:
            raise UsageError(f"--config {file}: unknown key {key!r}{near(key, sorted(known))}")
        tables = isinstance(value, list) and all(isinstance(one, dict) for one in value)
        if name in ("dataset", "retriever") and tables:
            raise UsageError(f"--config {file}: a list of them is [[{name}s]], not [[{name}]]")
        value = _value(file, name, value)
        given = getattr(options, name)
        if given is None or given is False:
            setattr(options, name, value)


def read_config(file: Path) -> dict[str, object]:
    """What the file holds. Raises UsageError where it is missing or broken."""
    return read_toml(file, "--config")


def _value(file: Path, name: str, value: Any) -> Any:
    """What the command line would have made of it."""

    def check(fits: bool, wanted: str) -> None:
        if not fits:
            raise UsageError(f"--config {file}: {name} must be {wanted}, not {value!r}")

    if name in _NUMBERS:
        check(isinstance(value, int) and not isinstance(value, bool), "a whole number")
        return value
    if name in _FRACTIONS:
        check(isinstance(value, int | float) and not isinstance(value, bool), "a number")
        return float(value)
    if name in _FLAGS:
        check(isinstance(value, bool), "true or false")
        return value
    if name in _SEVERAL:
        parts = value if isinstance(value, list) else [value]
        check(all(isinstance(part, int | str) for part in parts), "a text or a list")
        return ",".join(map(str, parts))
    if name in _LISTS:
        parts = value if isinstance(value, list) else [value]
        check(all(isinstance(part, str) for part in parts), "a text or a list of texts")
        return [_path(file, part) for part in parts] if name == "plugin" else parts
    if name in _TIMES:
        check(isinstance(value, int | float | str) and not isinstance(value, bool), "seconds")
        return str(value)
    if name == "prices" and isinstance(value, dict):
        return value
    check(isinstance(value, str), "a text")
    if name in _CHOICES:
        check(value in _CHOICES[name], " or ".join(_CHOICES[name]))
    if name in ("source", "prices", "file", "claims") or (name == "retriever" and ".py:" in value):
        return _path(file, value)
    return value


def _nested(file: Path, value: Any) -> Any:
    """Parameters with the paths of `file.py:name` taken from the file's folder, at any depth."""
    if isinstance(value, dict):
        return {key: _nested(file, one) for key, one in value.items()}
    if isinstance(value, list):
        return [_nested(file, one) for one in value]
    return _path(file, value) if isinstance(value, str) and ".py:" in value else value


def _path(file: Path, value: str) -> str:
    """A path as the file means it: from its own folder, variables of the environment filled in.

    What a variable at its beginning holds was written where the command is given, and is meant
    from there.
    """
    filled = os.path.expandvars(value)
    if "$" in filled:
        raise UsageError(f"--config {file}: set the variable of the environment in {value!r}")
    place = Path(filled).expanduser()
    return str(place if value.startswith("$") else file.parent / place)
