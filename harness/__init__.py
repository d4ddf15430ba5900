"""Run any retriever or memory system over public benchmarks and score it by ability.

    from harness import open_dataset, run, score_run

    dataset = open_dataset("sample")
    folder = run(dataset, "bm25")
    score_run(folder, dataset)["recall@10", "temporal"]

Everything a program needs is here, on one page; each name is imported when it is first used, so
that importing the package costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    # data
    "open_dataset": "harness.dataset.prepare",
    "register_adapter": "harness.dataset.registry",
    "read_rankings": "harness.rankings.rankings",
    "register_run_format": "harness.rankings.published.form",
    "Ability": "harness.schema",
    # what is under test
    "Retriever": "harness.retrievers.contract",
    "Result": "harness.retrievers.contract",
    "Hit": "harness.retrievers.contract",
    "register_retriever": "harness.retrievers.plugins",
    "RetrieverSpec": "harness.retrievers.registry",
    # and given to other harnesses
    "as_beir": "harness.retrievers.frameworks.export",
    "as_mteb": "harness.retrievers.frameworks.export",
    # runs and their scores
    "run": "harness.runs.run",
    "Settings": "harness.runs.settings",
    "Mode": "harness.runs.folder.store",
    "score_run": "harness.runs.folder.scored",
    "score": "harness.scoring.score",
    "Scores": "harness.scoring.scores",
    "Choices": "harness.scoring.protocols",
    "Metric": "harness.scoring.metrics",
    "MetricDefinition": "harness.scoring.metrics",
    "evaluate": "harness.scoring.evaluate",
    "semantic_accuracy": "harness.runs.folder.semantic",
    # verdicts
    "compare": "harness.verdicts.compare.compare",
    # practice
    "assert_quality": "harness.testing.quality",
    "Monitor": "harness.online.monitor.monitor",
    "ABTest": "harness.online.abtest.ab_test",
}
"""Public names, in the order in which work goes, and the module that each is imported from."""

__all__ = [
    "ABTest",
    "Ability",
    "Choices",
    "Hit",
    "Metric",
    "MetricDefinition",
    "Mode",
    "Monitor",
    "Result",
    "Retriever",
    "RetrieverSpec",
    "Scores",
    "Settings",
    "as_beir",
    "as_mteb",
    "assert_quality",
    "compare",
    "evaluate",
    "open_dataset",
    "read_rankings",
    "register_adapter",
    "register_retriever",
    "register_run_format",
    "run",
    "score",
    "score_run",
    "semantic_accuracy",
]

if TYPE_CHECKING:
    from harness.dataset.prepare import open_dataset
    from harness.dataset.registry import register_adapter
    from harness.online.abtest.ab_test import ABTest
    from harness.online.monitor.monitor import Monitor
    from harness.rankings.published.form import register_run_format
    from harness.rankings.rankings import read_rankings
    from harness.retrievers.contract import Hit, Result, Retriever
    from harness.retrievers.frameworks.export import as_beir, as_mteb
    from harness.retrievers.plugins import register_retriever
    from harness.retrievers.registry import RetrieverSpec
    from harness.runs.folder.scored import score_run
    from harness.runs.folder.semantic import semantic_accuracy
    from harness.runs.folder.store import Mode
    from harness.runs.run import run
    from harness.runs.settings import Settings
    from harness.schema import Ability
    from harness.scoring.evaluate import evaluate
    from harness.scoring.metrics import Metric, MetricDefinition
    from harness.scoring.protocols import Choices
    from harness.scoring.score import score
    from harness.scoring.scores import Scores
    from harness.testing.quality import assert_quality
    from harness.verdicts.compare.compare import compare


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for."""
    if name not in _HOME:
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, for completion and `help(harness)`, whether imported yet or not."""
    return [*__all__, "__all__", "__doc__", "__file__", "__name__", "__path__", "__version__"]
