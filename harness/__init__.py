"""Run any retriever or memory system over public benchmarks and score it by ability.

Everything a program needs is here; each name is imported when it is first used, so that importing
the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "ABTest": "harness.live.abtest.ab_test",
    "Ability": "harness.schema",
    "Hit": "harness.retrievers.contract",
    "Metric": "harness.scoring.metrics",
    "Monitor": "harness.live.monitor.monitor",
    "Result": "harness.retrievers.contract",
    "RetrieverSpec": "harness.retrievers.registry",
    "Settings": "harness.runs.plan",
    "evaluate": "harness.scoring.evaluate",
    "open_dataset": "harness.dataset.prepare",
    "read_rankings": "harness.rankings.rankings",
    "register_adapter": "harness.dataset.catalogue",
    "register_retriever": "harness.retrievers.registry",
    "run": "harness.runs.runner",
    "score": "harness.scoring.score",
    "score_run": "harness.runs.folder.scored",
}

__all__ = [
    "ABTest",
    "Ability",
    "Hit",
    "Metric",
    "Monitor",
    "Result",
    "RetrieverSpec",
    "Settings",
    "evaluate",
    "open_dataset",
    "read_rankings",
    "register_adapter",
    "register_retriever",
    "run",
    "score",
    "score_run",
]

if TYPE_CHECKING:
    from harness.dataset.catalogue import register_adapter
    from harness.dataset.prepare import open_dataset
    from harness.live.abtest.ab_test import ABTest
    from harness.live.monitor.monitor import Monitor
    from harness.rankings.rankings import read_rankings
    from harness.retrievers.contract import Hit, Result
    from harness.retrievers.registry import RetrieverSpec, register_retriever
    from harness.runs.folder.scored import score_run
    from harness.runs.plan import Settings
    from harness.runs.runner import run
    from harness.schema import Ability
    from harness.scoring.evaluate import evaluate
    from harness.scoring.metrics import Metric
    from harness.scoring.score import score


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in _HOME:
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value
