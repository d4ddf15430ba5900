"""Runs to report on, made once: two on the sample that compare."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.datasets.reader import Dataset
from harness.retrievers.contract import Retriever
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run
from harness.runs.settings import Settings

Ran = Callable[..., Path]


@pytest.fixture(scope="session")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Runs and scores: `ran(dataset, "bm25", k=20)`; gives the folder."""
    out = tmp_path_factory.mktemp("ran") / "results"

    def call(dataset: Dataset, retriever: str | Retriever, **settings: Any) -> Path:
        folder = run(dataset, retriever, Settings(**settings), out=out)
        score_run(folder, dataset)
        return folder

    return call


@pytest.fixture(scope="session")
def bm25(sample: Dataset, ran: Ran) -> Path:
    """A run of the sample."""
    return ran(sample, "bm25")


@pytest.fixture(scope="session")
def tfidf(sample: Dataset, ran: Ran) -> Path:
    """Another, which compares with it."""
    return ran(sample, "tfidf")
