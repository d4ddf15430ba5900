"""Retrieval quality in a test suite of one's own: `assert_quality` and `evaluate`.

`evaluate(retrieve, cases, k)` measures a function on cases; `assert_quality(run, recall_at_10=0.7)`
holds that, or any scored run, against thresholds. The pytest plug-in (`harness.testing.plugin`)
adds a fixture and a summary. Not to be taken for `harness.evaluate`, which is trec_eval's job on
qrels and a run.

Names are imported when they are first used: pytest loads this package at its start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.testing.quality import assert_quality
    from harness.testing.report import Report, evaluate
    from harness.testing.thresholds import Checked


_HOME = {
    "Checked": "harness.testing.thresholds",
    "Report": "harness.testing.report",
    "assert_quality": "harness.testing.quality",
    "evaluate": "harness.testing.report",
}

__all__ = ["Checked", "Report", "assert_quality", "evaluate"]


LISTENING: list[list[dict[str, Any]]] = []
"""Lists that `assert_quality` appends every check to (`Checked.plain`).

The pytest plug-in puts one here, and imports nothing heavy for it.
"""


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in _HOME:
        raise AttributeError(f"module 'harness.testing' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
