"""`with_retries` repeats the calls of authors' clients, plain and asynchronous."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import urllib3
from serving import Message, Reply, serving

from harness import with_retries
from harness.retrievers.timing import Clock, timed

BUSY: Reply = (429, {}, {"Retry-After": "0.2"})


class RefusedError(Exception):
    def __init__(self, response: Any) -> None:
        super().__init__(f"status {response.status}")
        self.response = response


def post(url: str) -> int:
    with urllib3.PoolManager(retries=False) as pool:
        response = pool.request("POST", url, json={})
    if response.status != 200:
        raise RefusedError(response)
    return response.status


def plain(url: str, **options: Any) -> Callable[[], int]:
    return lambda: with_retries(**options)(post)(url)


def asynchronous(url: str, **options: Any) -> Callable[[], int]:
    @with_retries(**options)
    async def call() -> int:
        return await asyncio.to_thread(post, url)

    return lambda: asyncio.run(call())


def in_order(*replies: Reply) -> Callable[[Message], Reply]:
    queue = [*replies]
    return lambda message: queue.pop(0)


@pytest.mark.parametrize("client", [plain, asynchronous])
def test_rate_limits_and_temporary_failures_are_repeated_and_waits_are_not_measured(
    client: Callable[..., Callable[[], int]],
) -> None:
    dead: Reply = (0, {})
    with serving(in_order(BUSY, BUSY, (503, {}), dead, (200, {}))) as (url, asked):
        with timed(Clock()) as clock:
            assert client(url)() == 200
        assert len(asked) == 5
    assert clock.waited >= 0.4 + 0.25 + 0.25


@pytest.mark.parametrize("client", [plain, asynchronous])
def test_rate_limits_do_not_count_as_retries_and_other_errors_are_raised(
    client: Callable[..., Callable[[], int]],
) -> None:
    with serving(in_order(BUSY, (400, {}))) as (url, asked):
        with pytest.raises(RefusedError, match="400"):
            client(url, retries=0)()
        assert len(asked) == 2
    with serving(in_order((502, {}), (502, {}))) as (url, asked):
        with pytest.raises(RefusedError, match="502"):
            client(url, retries=1)()
        assert len(asked) == 2


def test_of_tasks_that_wait_at_once_each_second_counts_once() -> None:
    @with_retries
    async def once(state: list[int]) -> None:
        if not state:
            state.append(1)
            raise TimeoutError

    async def together() -> None:
        await asyncio.gather(*(once([]) for _ in range(8)))

    with timed(Clock()) as clock:
        asyncio.run(together())
    assert 0.25 <= clock.stop().waited <= 0.5 * 8
    assert clock.seconds > 0
