"""Run any retriever or memory system over public benchmarks and score it by ability.

    from harness import open_dataset, run, score_run

    dataset = open_dataset("sample")
    folder = run(dataset, "bm25")
    score_run(folder, dataset)["recall@10", "temporal"]

This module exports the whole public API. Each name is imported on first use, so that importing the
package is fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    # data
    "open_dataset": "harness.datasets.registry",
    "register_adapter": "harness.datasets.registry",
    "read_rankings": "harness.runfiles.readers",
    "register_run_format": "harness.runfiles.run_formats",
    "Ability": "harness.schema",
    # what is under test
    "Retriever": "harness.retrievers.contract",
    "Result": "harness.retrievers.contract",
    "Hit": "harness.retrievers.contract",
    "register_retriever": "harness.io.plugins",
    "with_retries": "harness.retrievers.retry",
    "RetrieverSpec": "harness.retrievers.registry",
    # and given to other harnesses
    "as_beir": "harness.extensions.integrations.frameworks.export",
    "as_mteb": "harness.extensions.integrations.frameworks.export",
    # runs and their scores
    "run": "harness.runs.run",
    "Settings": "harness.runs.settings",
    "Mode": "harness.runs.folder.run_state",
    "score_run": "harness.runs.folder.score_folder",
    "score": "harness.scoring.score",
    "Scores": "harness.scoring.scores",
    "Choices": "harness.scoring.protocols",
    "Metric": "harness.scoring.metrics",
    "MetricDefinition": "harness.scoring.metrics",
    "evaluate": "harness.scoring.evaluate",
    "semantic_accuracy": "harness.extensions.answers.semantic_folder",
    # analysis
    "compare": "harness.analysis.compare.compare",
    # practice
    "assert_quality": "harness.testing.quality",
    "Monitor": "harness.extensions.online.monitor.monitor",
    "ABTest": "harness.extensions.online.abtest.ab_test",
}
"""Maps each public name to its module, in the order of a typical workflow."""

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
    "with_retries",
]

if TYPE_CHECKING:
    from harness.analysis.compare.compare import compare
    from harness.datasets.registry import open_dataset, register_adapter
    from harness.extensions.answers.semantic_folder import semantic_accuracy
    from harness.extensions.integrations.frameworks.export import as_beir, as_mteb
    from harness.extensions.online.abtest.ab_test import ABTest
    from harness.extensions.online.monitor.monitor import Monitor
    from harness.io.plugins import register_retriever
    from harness.retrievers.contract import Hit, Result, Retriever
    from harness.retrievers.registry import RetrieverSpec
    from harness.retrievers.retry import with_retries
    from harness.runfiles.readers import read_rankings
    from harness.runfiles.run_formats import register_run_format
    from harness.runs.folder.run_state import Mode
    from harness.runs.folder.score_folder import score_run
    from harness.runs.run import run
    from harness.runs.settings import Settings
    from harness.schema import Ability
    from harness.scoring.evaluate import evaluate
    from harness.scoring.metrics import Metric, MetricDefinition
    from harness.scoring.protocols import Choices
    from harness.scoring.score import score
    from harness.scoring.scores import Scores
    from harness.testing.quality import assert_quality


def __getattr__(name: str) -> Any:
    """Imports a public name on first use."""
    if name not in _HOME:
        raise AttributeError(f"module 'harness' has no attribute {name!r}")
    from importlib import import_module

    try:
        value = getattr(import_module(_HOME[name]), name)
    except ModuleNotFoundError as error:
        missing = str(error.name)
        if not missing.startswith("harness.extensions"):
            raise
        why = f"harness.{name} needs {missing}, which is not installed"
        raise ImportError(f"{why}: reinstall memory-retrieval-harness", name=missing) from None
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Returns all public names, including those not yet imported, for completion and `help()`."""
    return [*__all__, "__all__", "__doc__", "__file__", "__name__", "__path__", "__version__"]
