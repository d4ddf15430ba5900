"""Scored runs on the shipped sample, made once for all tests of comparisons."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from scored_runs import Bench

from harness.datasets.reader import Dataset


@pytest.fixture(scope="session")
def bench(sample: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Makes runs with other settings."""
    return Bench(tmp_path_factory.mktemp("results"), sample)


@pytest.fixture(scope="session")
def pair(sample_run: Callable[..., Path]) -> tuple[Path, Path]:
    """Two runs that compare: bm25 and a random order."""
    return sample_run("bm25"), sample_run("random")
