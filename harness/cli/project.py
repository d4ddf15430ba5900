"""Settings of a user's project: `[tool.harness]` of pyproject.toml, or harness.toml."""

from __future__ import annotations

import os
from pathlib import Path

from msgspec import field

from harness.errors import UsageError
from harness.io.files import read_toml
from harness.io.records import Record, convert


class ProjectFile(Record):
    """`[tool.harness]` of pyproject.toml, or harness.toml."""

    plugins: list[str] = field(default_factory=list)


class _Tools(Record, forbid_unknown_fields=False):
    harness: ProjectFile | None = None


class _PyProject(Record, forbid_unknown_fields=False):
    tool: _Tools = _Tools()


def plugins() -> list[str]:
    """Return the files that register retrievers and datasets for every command in a project.

    They are `plugins = ["mine.py"]` in the nearest harness.toml, or below [tool.harness] of
    the nearest pyproject.toml that has one, looked for from this folder upwards; their paths are
    taken from that file's folder. Raises UsageError for a broken file and an unknown key.
    """
    for folder in (Path.cwd(), *Path.cwd().parents):
        for file in (folder / "harness.toml", folder / "pyproject.toml"):
            if (settings := _settings(file)) is not None:
                for one in settings.plugins:
                    if not (folder / one).is_file():
                        raise UsageError(f"{file}: plugins names {one}, which is not there")
                return [os.path.relpath(folder / one) for one in settings.plugins]
    return []


def _settings(file: Path) -> ProjectFile | None:
    """Returns the file's settings; None where there are none."""
    if not file.is_file():
        return None
    if file.name == "harness.toml":
        return convert(read_toml(file), ProjectFile, str(file))
    if b"harness" not in file.read_bytes():  # others' files need not be read, nor be right
        return None
    return convert(read_toml(file), _PyProject, str(file)).tool.harness
