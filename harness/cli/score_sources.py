"""What `harness score` can score besides run files and run folders, from `harness.score_sources`.

An entry point names a module with five functions:

- `add_arguments(parser)` adds its options to the command;
- `asked_for(options)` tells whether an option of its own asks for it;
- `accepts(options, path)` tells whether it scores this file or folder, and raises UsageError for
  options that do not fit;
- `score(options, path)` scores and prints, and returns the exit status;
- `suggest(options, path)` says of a file that is no run what it is and what to type, or "".
"""

from __future__ import annotations

import argparse
from functools import cache
from pathlib import Path
from typing import Protocol

from harness.io import plugins

GROUP = "harness.score_sources"


class ScoreSource(Protocol):
    """The functions of such a module."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add its options."""

    def asked_for(self, options: argparse.Namespace) -> bool:
        """Return whether an option of its own asks for it."""
        ...

    def accepts(self, options: argparse.Namespace, path: Path) -> bool:
        """Return whether it scores this path. Raises UsageError for options that do not fit."""
        ...

    def score(self, options: argparse.Namespace, path: Path) -> int:
        """Score and print; returns the exit status."""
        ...

    def suggest(self, options: argparse.Namespace, path: Path) -> str:
        """Return what the file is and the command for it; empty for a file of another kind."""
        ...


@cache
def score_sources() -> tuple[ScoreSource, ...]:
    """Return the installed sources, by name. Raises PluginError for one that cannot be imported."""
    return tuple(plugins.load_all(GROUP, "score source"))
