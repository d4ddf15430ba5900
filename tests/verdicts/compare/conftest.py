"""Scored runs on the shipped sample, made once for all tests of comparisons."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from scored_runs import Bench

from harness import open_dataset


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """The sample, prepared in a cache of its own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_HOME", str(tmp_path_factory.mktemp("home")))
        yield Bench(tmp_path_factory.mktemp("results"), open_dataset("sample"))


@pytest.fixture(scope="session")
def pair(bench: Bench) -> tuple[Path, Path]:
    """Two runs that compare: bm25 and a random order."""
    return bench.bm25(), bench.run("random")
