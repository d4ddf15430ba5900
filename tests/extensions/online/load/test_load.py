"""`harness load`: requests are counted, waits in a queue are latency, and limits hold."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from polling import wait_until
from serving import Message, Reply, serving

from harness.datasets.registry import open_dataset
from harness.extensions.online.load.generator import percentiles
from harness.runs.folder.score_folder import score_run
from harness.runs.run import run

Harness = Callable[..., Any]

SLEEP = 0.02

SYSTEMS = """
import asyncio
import time
from harness.retrievers.bm25 import BM25

class Threads(BM25):
    thread_safe = True

class Broken(Threads):
    "Every second search fails."
    n = 0
    def search(self, queries, k):
        Broken.n += 1
        if Broken.n % 2:
            raise ValueError("it is broken")
        return super().search(queries, k)

class Paid(Threads):
    spent = 0.0
    def search(self, queries, k):
        Paid.spent += 0.01
        return super().search(queries, k)
    def report(self):
        return {"usd": Paid.spent}

class Hangs(Threads):
    n = 0
    def search(self, queries, k):
        Hangs.n += 1
        if Hangs.n > 3:
            time.sleep(3600)
        return super().search(queries, k)

class Asynchronous:
    now = most = 0
    def index(self, corpus):
        pass
    async def search(self, queries, k):
        Asynchronous.now += 1
        Asynchronous.most = max(Asynchronous.most, Asynchronous.now)
        await asyncio.sleep(0.02)
        Asynchronous.now -= 1
        return [[0] for _ in queries]
    def report(self):
        return {"calls": Asynchronous.most}
"""


@pytest.fixture
def load(harness: Harness, tmp_path: Path) -> Callable[..., Any]:
    """Runs `harness load` on the sample."""
    (tmp_path / "systems.py").write_text(SYSTEMS)

    def measure(retriever: str, *more: object) -> Any:
        given = f"{tmp_path / 'systems.py'}:{retriever}" if retriever[0].isupper() else retriever
        out = ("--out", tmp_path / "out")
        said = harness("load", "--retriever", given, "--dataset", "sample", *out, *more, "--json")
        return json.loads(said.out) | {"status": said.status, "err": said.err}

    return measure


class Service:
    """A service with a known service time and one worker, that counts the requests in flight."""

    def __init__(self, workers: int = 1) -> None:
        self._workers, self._lock = threading.Semaphore(workers), threading.Lock()
        self.now = self.most = self.asked = 0

    def __call__(self, message: Message) -> Reply:
        if message["type"] != "search":
            return 200, {}
        with self._lock:
            self.now, self.asked = self.now + 1, self.asked + 1
            self.most = max(self.most, self.now)
        with self._workers:
            time.sleep(SLEEP)
        with self._lock:
            self.now -= 1
        return 200, {"results": [{"hits": []} for _ in message["queries"]]}


def counts(level: dict[str, Any]) -> int:
    kinds = ("answered", "failed", "timed_out", "unanswered", "unsent")
    return sum(level[kind] for kind in kinds)


def test_a_closed_loop_has_no_more_requests_in_flight_than_clients(load: Harness) -> None:
    service = Service(workers=2)
    with serving(service) as (url, _):
        found = load("http", "--param", f"url={url}", "--clients", "1,3", "--max-calls", 41)
    assert service.asked == 41  # one before the levels
    assert service.most <= 3
    assert [level["requests"] for level in found["levels"]] == [20, 20]
    for level, n in zip(found["levels"], (1, 3), strict=True):
        assert counts(level) == level["requests"] == level["answered"]
        assert 1 <= level["most_in_flight"] <= n
        # Two workers answer at most two requests per service time.
        assert level["per_second"] <= min(n, 2) / SLEEP
        assert level["latency"] == level["service"]
        assert level["latency"]["p50"] >= SLEEP


def test_latency_at_a_fixed_rate_includes_the_wait_for_a_free_client(load: Harness) -> None:
    n, rate = 20, 500
    with serving(Service()) as (url, _):
        options = ("--rate", rate, "--clients", 1, "--max-calls", n + 1, "--seconds", 3600)
        (level,) = load("http", "--param", f"url={url}", *options)["levels"]
    assert counts(level) == level["requests"] == level["answered"] == n
    for name, value in level["latency"].items():
        assert value >= level["service"][name] >= SLEEP
    # The last request was due at (n - 1) / rate, and all those before it were served first.
    assert level["latency"]["max"] >= n * SLEEP - (n - 1) / rate


def test_requests_that_a_rate_is_too_high_for_count_with_the_time_waited(load: Harness) -> None:
    with serving(Service()) as (url, _):
        options = ("--rate", 500, "--clients", 2, "--seconds", 1)
        (level,) = load("http", "--param", f"url={url}", *options)["levels"]
    assert level["requests"] == 500
    assert counts(level) == 500
    assert level["unsent"] >= 500 - 1 / SLEEP - 2  # one worker
    assert level["lower_bounds"] == level["unsent"]
    assert level["latency"]["max"] >= level["service"]["max"]


def test_recall_under_load_is_that_of_a_run(load: Harness, tmp_path: Path) -> None:
    dataset = open_dataset("sample")
    folder = run(dataset, "bm25", out=tmp_path)
    table = score_run(folder, dataset).per_query
    found = load("Threads", "--clients", "4", "--max-calls", 1 + 3 * 28)  # each query three times
    rows = [
        row["recall@10"]
        for row in table.to_pylist()
        if row["protocol"] == "memory" and row["level"] == "turn"
        if dataset.haystack_ids[dataset.query_haystack[dataset.query_ids.index(row["query"])]]
        == found["haystack"]
        and row["recall@10"] is not None
    ]
    assert found["queries"] == 28
    (level,) = found["levels"]
    assert level["recall"] == pytest.approx(np.mean(rows), abs=1e-12)


def test_errors_are_counted_and_count_zero_in_recall(load: Harness) -> None:
    (level,) = load("Broken", "--clients", "1", "--max-calls", 57)["levels"]
    assert level["failed"] == level["answered"] == 28
    assert counts(level) == level["requests"] == 56
    assert "it is broken" in level["first_error"]
    assert level["lower_bounds"] == 0
    (whole,) = load("Threads", "--clients", "1", "--max-calls", 57)["levels"]
    assert 0 < level["recall"] < whole["recall"]


def test_a_spending_limit_stops_the_measurement_and_the_results_so_far_are_stored(
    harness: Harness, load: Harness, tmp_path: Path
) -> None:
    load("Threads", "--clients", "1", "--max-calls", 2)  # writes systems.py
    system = ("--retriever", tmp_path / "systems.py:Paid", "--dataset", "sample")
    limits = ("--clients", 2, "--max-usd", 0.2, "--out", tmp_path / "paid")
    said = harness("load", *system, *limits)
    assert said.status == 1
    assert "--max-usd 0.2" in said.err
    assert "0.0 answers" not in said.out
    (file,) = (tmp_path / "paid").iterdir()
    stored = json.loads(file.read_text())
    assert stored["usage"]["usd"] <= 0.2
    assert stored["levels"][0]["answered"] <= 20
    assert stored["stopped"].startswith("--max-usd 0.2")


def test_a_retriever_that_is_not_thread_safe_has_one_client(load: Harness) -> None:
    found = load("bm25", "--clients", "1,4", "--max-calls", 10)
    assert [level["clients"] for level in found["levels"]] == [1]
    assert "bm25 is neither thread_safe nor asynchronous" in found["err"]


def test_calls_of_an_asynchronous_class_overlap_in_its_event_loop(load: Harness) -> None:
    found = load("Asynchronous", "--clients", "4", "--max-calls", 41)
    (level,) = found["levels"]
    assert level["answered"] == 40
    assert 1 < found["usage"]["calls"] <= 4  # it reports the most calls at once


def test_a_query_timeout_is_counted_and_its_time_is_a_lower_bound(load: Harness) -> None:
    options = ("--clients", 2, "--seconds", 0.5, "--query-timeout", "0.3")
    (level,) = load("Hangs", *options)["levels"]
    assert level["timed_out"] >= 1
    assert level["lower_bounds"] == level["timed_out"]
    assert counts(level) == level["requests"]
    assert level["latency"]["max"] >= 0.3


def test_ctrl_c_prints_and_stores_what_was_measured(cache: Path, tmp_path: Path) -> None:
    asked = Service()
    with serving(asked) as (url, _):
        command = ("load", "--retriever", "http", "--param", f"url={url}", "--dataset", "sample")
        process = subprocess.Popen(
            [sys.executable, "-m", "harness", *command, "--seconds", "3600", "--clients", "2"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        )
        wait_until(lambda: asked.asked > 20, process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert process.returncode == 130
    assert err == "harness: stopped\n"
    assert "closed loop" in out
    (file,) = (tmp_path / "results" / "load").iterdir()
    (level,) = json.loads(file.read_text())["levels"]
    assert level["answered"] >= 18  # of 21, one precedes and two are in flight
    assert counts(level) == level["requests"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--clients", "0"), "--clients takes numbers from 1 to 1000"),
        (("--seconds", "0"), "--seconds must be above 0"),
        (("--rate", "-1"), "--rate must be above 0"),
        (("--max-calls", "3"), "--max-calls must be 4 or more"),
    ],
)
def test_wrong_options_are_refused(
    harness: Harness, options: tuple[str, str], message: str
) -> None:
    said = harness("load", "--retriever", "bm25", "--dataset", "sample", *options)
    assert said.status == 2
    assert message in said.err


def test_percentiles_are_values_that_were_measured() -> None:
    found = percentiles(np.arange(1, 101) / 100)
    assert found is not None
    assert (found.p50, found.p90, found.p99, found.max) == (0.5, 0.9, 0.99, 1.0)
    assert percentiles(np.array([3.0, 1.0])).p50 == 1.0  # type: ignore[union-attr]
