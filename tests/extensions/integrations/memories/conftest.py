"""A loopback endpoint for the memories under test, and nothing of this machine's own settings."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from openai_endpoint import OpenAIEndpoint


@pytest.fixture
def endpoint(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIEndpoint]:
    """What OPENAI_BASE_URL points to; a test sets its `answer`."""
    for name in ("OPENAI_API_KEY", "OPENAI_API_BASE", "OPENROUTER_API_KEY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    with OpenAIEndpoint() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        yield server
