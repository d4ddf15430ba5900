"""The one doorway from the core of scoring to its extensions, which are imported when needed.

An extension scores something beside rankings, where a run has it: `answers` scores returned texts
against reference answers. What is called here is all that the core needs of one.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

EXTENSIONS = {"answers": "harness.scoring.answered.returned_texts"}
"""The module of each extension."""


def load_extension(name: str) -> ModuleType:
    """Imports an extension; scoring/score.py says when each is needed."""
    return import_module(EXTENSIONS[name])
