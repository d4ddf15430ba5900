"""What a user's own project says: `[tool.harness]` of pyproject.toml, or harness.toml."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from harness.errors import UsageError, near
from harness.files import read_toml

_KEYS = ("plugins",)


def plugins() -> list[str]:
    """Files that register retrievers and datasets for every command given in a project.

    They stand as `plugins = ["mine.py"]` in the nearest harness.toml, or below [tool.harness] of
    the nearest pyproject.toml that has one, looked for from this folder upwards; their paths are
    taken from that file's folder. Raises UsageError for a broken file and an unknown key.
    """
    for folder in (Path.cwd(), *Path.cwd().parents):
        for file in (folder / "harness.toml", folder / "pyproject.toml"):
            if (values := _settings(file)) is not None:
                return [os.path.relpath(folder / plugin) for plugin in _plugins(file, values)]
    return []


def _settings(file: Path) -> dict[str, Any] | None:
    """The file's settings; None where there are none."""
    if not file.is_file():
        return None
    if file.name == "harness.toml":
        return read_toml(file)
    if b"harness" not in file.read_bytes():  # others' files need not be read, nor be right
        return None
    values = read_toml(file)
    found = values.get("tool", {}).get("harness")
    if found is not None and not isinstance(found, dict):
        raise UsageError(f"{file}: tool.harness must be a table: [tool.harness]")
    return found


def _plugins(file: Path, values: dict[str, Any]) -> list[str]:
    for key in values:
        if key not in _KEYS:
            raise UsageError(f"{file}: unknown key {key!r}{near(key, [*_KEYS])}")
    found = values.get("plugins", [])
    if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
        raise UsageError(f'{file}: plugins must be a list of files: plugins = ["mine.py"]')
    for one in found:
        if not (file.parent / one).is_file():
            raise UsageError(f"{file}: plugins names {one}, which is not there")
    return found
