"""Runs to report on, made once: two on the sample that compare."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.dataset.prepare import open_dataset
from harness.dataset.reader import Dataset
from harness.retrievers.contract import Retriever
from harness.runs.folder.scored import score_run
from harness.runs.plan import Settings
from harness.runs.runner import run

Ran = Callable[..., Path]


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache folder that these tests share, so that each dataset is prepared once."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_HOME", str(folder))
        yield folder


@pytest.fixture(scope="session")
def sample(cache: Path) -> Dataset:
    """The shipped dataset, which has every ability."""
    return open_dataset("sample")


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
