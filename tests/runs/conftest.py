"""One cache folder for all tests of runs, so that each dataset is prepared once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """In place of the cache folder a test that other tests have."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HARNESS_HOME", str(folder))
        yield folder
