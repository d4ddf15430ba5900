"""The tests of runs share one cache folder, so that each dataset is prepared once."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def home(cache: Path) -> Path:
    """In place of the empty cache folder that other tests have."""
    return cache
