"""Options that name real data."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def locomo(data: Path) -> list[str]:
    """The options that name the true LoCoMo file."""
    return ["--dataset", "locomo", "--source", str(data / "locomo" / "locomo10.json")]


@pytest.fixture
def longmemeval(data: Path) -> list[str]:
    """The options that name four real questions of LongMemEval."""
    source = data / "longmemeval" / "longmemeval_s_sample.json"
    return ["--dataset", "longmemeval", "--source", str(source)]
