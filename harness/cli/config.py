"""A run's options from a TOML file; what stands on the command line wins."""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path
from typing import Any

from harness.errors import UsageError, near

_LISTS = {"protocol", "plugin"}


def apply_config(options: argparse.Namespace, path: str, known: set[str]) -> None:
    """Fill options that the command line left open from the file.

    Keys are the long options (`batch-size` or `batch_size`); `params` is a table. Relative paths of
    `source` and `plugin` are taken from the file's folder. Raises UsageError for a missing or
    broken file and for unknown keys.
    """
    file = Path(path)
    try:
        values: dict[str, Any] = tomllib.loads(file.read_text())
    except FileNotFoundError:
        raise UsageError(f"--config {path}: no such file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"--config {path}: not valid TOML ({error})") from None
    for key, value in values.items():
        name = key.replace("-", "_")
        if name == "params":
            if not isinstance(value, dict):
                raise UsageError(f"--config {path}: params must be a table: [params]")
            options.params = value
            continue
        if name not in known:
            raise UsageError(f"--config {path}: unknown key {key!r}{near(key, sorted(known))}")
        if name in _LISTS:
            value = value if isinstance(value, list) else [value]
        if name == "plugin":
            value = [str(file.parent / part) for part in value]
        if name == "source":
            value = str(file.parent / value)
        if name in ("ks", "metrics") and isinstance(value, list):
            value = ",".join(map(str, value))
        if getattr(options, name) in (None, False):
            setattr(options, name, value)
