"""Makes scored runs for the tests of comparisons."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import RetrieverSpec, Settings, run, score_run
from harness.datasets.reader import Dataset


@dataclass(frozen=True)
class Bench:
    """Makes scored runs of the sample below one folder."""

    results: Path
    dataset: Dataset

    def bm25(self, settings: Settings | None = None, **params: Any) -> Path:
        """A scored run of bm25."""
        return self.run(RetrieverSpec("bm25", params=params), settings)

    def run(self, retriever: Any, settings: Settings | None = None) -> Path:
        """A scored run."""
        folder = run(self.dataset, retriever, settings, out=self.results)
        score_run(folder, self.dataset)
        return folder
