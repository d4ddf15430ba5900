"""Waits for rate limits are no part of a call's latency, in threads and in asynchronous code."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from openai_endpoint import CHAT, Failure, OpenAIEndpoint

from harness.extensions.answers.endpoint import Endpoint
from harness.retrievers.timing import Clock, timed

WAIT = 0.3  # seconds that the server asks for
QUESTION: Any = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}


async def _ask_together(endpoint: Endpoint, n: int) -> None:
    async with endpoint.async_client() as client:
        await asyncio.gather(*(client.chat.completions.create(**QUESTION) for _ in range(n)))


@pytest.mark.parametrize("tasks", [0, 1, 3])
def test_the_wait_after_a_429_is_excluded_from_the_latency(
    monkeypatch: pytest.MonkeyPatch, tasks: int
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with OpenAIEndpoint(lambda chat: "hi") as server:
        server.fail(CHAT, *[Failure(429, retry_after=WAIT)] * max(tasks, 1))
        endpoint = Endpoint(server.url, 10.0, 3)
        clock = Clock()
        with timed(clock):
            if tasks:
                asyncio.run(_ask_together(endpoint, tasks))
            else:
                endpoint.client().chat.completions.create(**QUESTION)
        clock.stop()
        # Waits at the same time are excluded once: some time is left for the calls themselves.
        assert clock.waited >= WAIT
        assert clock.seconds > 0
