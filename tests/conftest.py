"""What tests share: where the real data is, and a cache folder of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

DATA = Path(os.environ.get("HARNESS_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder with the real data; the test is skipped, and says so, where it is not there."""
    if not DATA.is_dir():
        pytest.skip(f"real data not found at {DATA}; set HARNESS_TEST_DATA to its folder")
    return DATA


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder for one test."""
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    return tmp_path / "home"
