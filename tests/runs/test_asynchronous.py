"""Systems whose methods are asynchronous, and those whose index is ready late."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
from corpora import ranked

from harness.datasets.registry import open_dataset
from harness.errors import RunError, UsageError
from harness.records.run import RunRecord
from harness.retrievers.registry import RetrieverSpec
from harness.runs.folder.run_folder import RunFolder
from harness.runs.run import run
from harness.runs.settings import Settings
from harness.testing.conformance import check

SYSTEMS = """
import asyncio, time
from harness.retrievers.bm25 import BM25

class Plain(BM25):
    pass

class Client:
    "Serves in the loop only in which it was opened, as the clients of httpx and asyncpg."
    def __init__(self):
        self.loop = asyncio.get_running_loop()
    async def turn(self):
        assert asyncio.get_running_loop() is self.loop, "another loop"
        await asyncio.sleep(0)

class Async(BM25):
    batch_size = 8
    async def index(self, corpus):
        self.client = Client()
        await self.client.turn()
        super().index(corpus)
    async def search(self, queries, k):
        await self.client.turn()
        return super().search(queries, k)
    async def report(self):
        return {"calls": 7}
    async def close(self):
        await self.client.turn()

class AQuestionEach(Async):
    "Gives one awaitable a question."
    def search(self, queries, k):
        return [self.one(query, k) for query in queries]
    async def one(self, query, k):
        (found,) = await super().search([query], k)
        return found

class Cancels(BM25):
    async def search(self, queries, k):
        asyncio.current_task().cancel()
        await asyncio.sleep(1)

class Late(BM25):
    "Finds nothing until some time after `index` has returned."
    wait, ready_timeout = 0.2, 30
    def index(self, corpus):
        super().index(corpus)
        self.at = time.monotonic() + self.wait
    def ready(self):
        return time.monotonic() >= self.at
    def search(self, queries, k):
        return super().search(queries, k) if self.ready() else [[] for _ in queries]

class LateAsync(Late):
    async def ready(self):
        return super().ready()
    def search(self, queries, k):
        return BM25.search(self, queries, k) if Late.ready(self) else [[] for _ in queries]

class Exits(Async):
    async def search(self, queries, k):
        if queries[0].text.startswith("When"):
            raise SystemExit(3)
        return await super().search(queries, k)

class Within(Async):
    "Uses a retriever of the harness inside, in an asynchronous method."
    async def search(self, queries, k):
        from harness.retrievers.calls import await_result
        return await_result(Async.search(self, queries, k))

class SomeFail(AQuestionEach):
    asked = 0
    async def one(self, query, k):
        SomeFail.asked += 1
        if query.text.startswith("When"):
            raise ConnectionError("busy")
        return await super().one(query, k)
    async def report(self):
        return {"calls": SomeFail.asked}

class AsyncAlone(Async):
    thread_safe = False

class Slow(BM25):
    "A service that takes its time, and counts how many ask at once."
    now = most = 0
    def search(self, queries, k):
        self.enter()
        time.sleep(0.02)
        self.leave()
        return super().search(queries, k)
    def enter(self):
        Slow.now += 1
        Slow.most = max(Slow.most, Slow.now)
    def leave(self):
        Slow.now -= 1
    def report(self):
        return {"most": self.most}

class SlowInThreads(Slow):
    thread_safe = True

class SlowAsync(Slow):
    async def search(self, queries, k):
        self.enter()
        await asyncio.sleep(0.02)
        self.leave()
        if any("boat" in q.text for q in queries):
            raise ConnectionError("no boats")
        return BM25.search(self, queries, k)

class TooLate(Late):
    wait, ready_timeout = 1e9, 0.05

async def function(text, k, corpus):
    words = set(text.split())
    found = [len(words & set(content.split())) for content in corpus.contents]
    await asyncio.sleep(0)
    return sorted(range(len(found)), key=lambda i: -found[i])[:k]
"""


@pytest.fixture
def systems(tmp_path: Path) -> str:
    path = tmp_path / "systems.py"
    path.write_text(SYSTEMS)
    return str(path)


def ran(name: str, out: Path, **settings: Any) -> Path:
    return run(open_dataset("sample"), RetrieverSpec(name), Settings(k=10, **settings), out=out)


def record(folder: Path) -> RunRecord:
    return RunFolder(folder).record


@pytest.mark.slow
@pytest.mark.extensions
def test_asynchronous_systems_are_awaited_in_one_loop_and_rank_as_others(
    systems: str, tmp_path: Path
) -> None:
    plain = ranked(ran(f"{systems}:Plain", tmp_path / "plain"))
    assert any(plain.values())
    for name, settings in (
        ("Async", {}),
        ("Async", {"workers": 2}),
        ("Async", {"isolate": True}),
        ("AQuestionEach", {}),
        ("AQuestionEach", {"batch_size": 8}),
        ("Late", {}),
        ("LateAsync", {}),
    ):
        out = tmp_path / f"{name}{settings}"
        found = ran(f"{systems}:{name}", out, **settings)
        assert ranked(found) == plain, (name, settings)
        if name == "Async":
            assert record(found).reported[0] == {"calls": 7}


def test_an_asynchronous_function_is_a_retriever_too(systems: str, tmp_path: Path) -> None:
    found = ran(f"{systems}:function", tmp_path)
    assert record(found).queries.failed == 0
    assert all(len(ids) == 10 for ids in ranked(found).values())


def test_a_run_may_be_started_where_a_loop_is_running_as_in_a_notebook(
    systems: str, tmp_path: Path
) -> None:
    async def cell() -> Path:
        return ran(f"{systems}:Async", tmp_path)

    assert record(asyncio.run(cell())).queries.failed == 0


@pytest.mark.slow
def test_an_asynchronous_retriever_can_stand_inside_another(systems: str, tmp_path: Path) -> None:
    def fused(*names: str) -> dict[str, list[str]]:
        spec = RetrieverSpec("hybrid", {"retrievers": [*names]})
        out = tmp_path / names[0].rpartition(":")[2]
        return ranked(run(open_dataset("sample"), spec, Settings(k=10), out=out))

    expected = fused(f"{systems}:Plain", "tfidf")
    assert fused(f"{systems}:Async", "tfidf") == fused(f"{systems}:Late", "tfidf") == expected


def test_the_conformance_checks_await_too(systems: str) -> None:
    found = check(RetrieverSpec(f"{systems}:Async"))
    assert [one for one in found if one.state == "FAIL"] == []


@pytest.mark.parametrize("name", ["SlowInThreads", "SlowAsync"])
def test_so_many_searches_at_once_as_were_asked_for_and_each_has_its_own_time(
    systems: str, tmp_path: Path, name: str
) -> None:
    alone, folder = (
        ran(f"{systems}:{name}", tmp_path / str(n), batch_size=1, limit=60, concurrency=n)
        for n in (1, 8)
    )
    assert ranked(folder) == ranked(alone)
    one, eight = record(alone), record(folder)
    assert one.queries == eight.queries
    reported = [max(part["most"] for part in r.reported) for r in (one, eight)]
    assert reported[0] == 1
    assert 2 <= reported[1] <= 8
    assert eight.measured.search_ms.p50 >= 20


@pytest.mark.parametrize("name", ["Plain", "AsyncAlone"])
def test_concurrency_is_refused_for_what_does_not_say_that_it_can(
    systems: str, tmp_path: Path, name: str
) -> None:
    with pytest.raises(UsageError, match="--concurrency 2: the retriever does not say"):
        ran(f"{systems}:{name}", tmp_path, concurrency=2)


def test_a_task_that_cancels_itself_is_a_failure_of_that_query(
    systems: str, tmp_path: Path
) -> None:
    with pytest.raises(RunError, match="the retriever cancelled its own task"):
        ran(f"{systems}:Cancels", tmp_path)


def test_one_of_several_awaitables_that_fails_costs_its_own_query_and_is_asked_once(
    systems: str, tmp_path: Path
) -> None:
    about = record(ran(f"{systems}:SomeFail", tmp_path, batch_size=8))
    asked = about.queries.asked
    assert 0 < about.queries.failed < asked
    assert about.reported == [{"calls": asked}]


def test_to_exit_in_an_asynchronous_method_is_a_failure_too(systems: str, tmp_path: Path) -> None:
    about = record(ran(f"{systems}:Exits", tmp_path, batch_size=1))
    assert 0 < about.queries.failed < about.queries.asked


def test_what_would_wait_for_itself_is_told_so(systems: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="called within an asynchronous method: await"):
        ran(f"{systems}:Within", tmp_path)


def test_what_is_never_ready_fails_with_its_limit(systems: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"ready\(\) was not true within 0.05 s of indexing"):
        ran(f"{systems}:TooLate", tmp_path)


@pytest.mark.slow
def test_to_wait_until_it_is_ready_counts_as_indexing(systems: str, tmp_path: Path) -> None:
    began = time.perf_counter()
    measured = record(ran(f"{systems}:Late", tmp_path)).measured
    haystacks = measured.index.haystacks
    assert 0.2 * haystacks <= measured.index.seconds <= time.perf_counter() - began
