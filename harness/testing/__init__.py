"""Tests of retrieval quality in a user's test suite: `assert_quality` and `evaluate`.

`evaluate(retrieve, cases, k)` measures a function on cases; `assert_quality(run, recall_at_10=0.7)`
compares the result, or any scored run, with thresholds. The pytest plug-in
(`harness.testing.plugin`) adds a fixture and a summary. Do not confuse this `evaluate` with
`harness.evaluate`, which scores a run with qrels, as trec_eval does.

Names are imported on first use, since pytest loads this package at every start.
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
"""Lists to which `assert_quality` appends every check (`Checked.plain`).

The pytest plug-in adds its list here without importing heavy modules.
"""


def __getattr__(name: str) -> Any:
    """Imports a public name on first use."""
    if name not in _HOME:
        raise AttributeError(f"module 'harness.testing' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
