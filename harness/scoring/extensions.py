"""The one doorway from the core of scoring to its extensions, which are imported when needed.

An extension scores something beside rankings, where a run has it: `answers` scores returned texts
against reference answers. What is called here is all that the core needs of one.
"""

from __future__ import annotations

from typing import Any

from harness.io.entry_points import provided, provided_or_none


def is_installed(name: str) -> bool:
    """Returns whether an installed package provides an extension."""
    return provided_or_none(f"scoring_{name}") is not None


def load_extension(name: str) -> Any:
    """Imports an extension; scoring/score.py says when each is needed.

    Raises UsageError where no installed package provides it.
    """
    return provided(f"scoring_{name}")
