"""Systems that hang, fail now and then, or are refused for their rate."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from corpora import labelled, ranked
from serving import Message, Reply, serving

from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.retrievers.registry import RetrieverSpec
from harness.retrievers.timing import Clock, current
from harness.runs.folder.run_folder import RunFolder
from harness.runs.run import run
from harness.runs.settings import Settings

SYSTEMS = """
import asyncio, sqlite3, threading, time, urllib.request
from time import perf_counter
from harness.retrievers.bm25 import BM25
from harness.retrievers.timing import current

class Plain(BM25):
    batch_size = 1

class Counts(Plain):
    "Counts the corpora that all objects of its kind index, and times their slowest call."
    taken, slowest = [], 0.0
    def index(self, corpus):
        Counts.taken.append(corpus.key.hex())
        began = perf_counter()
        super().index(corpus)
        Counts.slowest = max(Counts.slowest, perf_counter() - began)
    def search(self, queries, k):
        began = perf_counter()
        found = super().search(queries, k)
        Counts.slowest = max(Counts.slowest, perf_counter() - began)
        return found
    def report(self):
        twice = len(self.taken) - len({*self.taken})
        return {"taken": len(self.taken), "twice": twice, "slowest": self.slowest}

class Hangs(Counts):
    "Never answers one of its questions."
    def search(self, queries, k):
        if "boat" in queries[0].text:
            threading.Event().wait()
        return super().search(queries, k)

class HangsAsync(Counts):
    async def search(self, queries, k):
        if "boat" in queries[0].text:
            await asyncio.Event().wait()
        return super().search(queries, k)

class HangsBesideOthers(Hangs):
    thread_safe = True

class Slow(Counts):
    "Answers a question once that is given up, and is in no state to be asked another before."
    busy = False
    def search(self, queries, k):
        assert not self.busy, "asked while it was busy"
        self.busy = True
        while "boat" in queries[0].text and not current().given_up:
            time.sleep(0.005)
        self.busy = False
        return super().search(queries, k)

class HangsAtIndex(Counts):
    n = 0
    def index(self, corpus):
        super().index(corpus)
        HangsAtIndex.n += 1
        if HangsAtIndex.n == 2:
            threading.Event().wait()

class HangsAtReport(Plain):
    n = 0
    def report(self):
        HangsAtReport.n += 1
        if HangsAtReport.n == 4:
            threading.Event().wait()
        return {"calls": HangsAtReport.n}

class OfOneThread(Counts):
    "What SQLite opens in a thread serves in that thread alone."
    def __init__(self):
        super().__init__()
        self.db = sqlite3.connect(":memory:")
    def index(self, corpus):
        self.db.execute("select 1")
        super().index(corpus)
    def search(self, queries, k):
        self.db.execute("select 1")
        return super().search(queries, k)
    def report(self):
        self.db.execute("select 1")
        return super().report()
    def close(self):
        self.db.close()

class Fails(Plain):
    "Fails twice at every question."
    def __init__(self, times=2):
        super().__init__()
        self.times, self.asked = times, {}
    def search(self, queries, k):
        n = self.asked[queries[0].text] = self.asked.get(queries[0].text, 0) + 1
        if n <= self.times:
            raise ConnectionError("lost")
        return super().search(queries, k)

class Beside(Plain):
    thread_safe = True
    def search(self, queries, k):
        time.sleep(0.005)
        return super().search(queries, k)

class LateBatch(Counts):
    "Answers its first batch late: by twice the limit of a question, and half that of the batch."
    batch_size, n = 4, 0
    def search(self, queries, k):
        LateBatch.n += 1
        if LateBatch.n == 1:
            while not current().given_up:
                time.sleep(0.005)
            time.sleep(current().seconds / 2)
        return super().search(queries, k)

class AddHangs:
    "Of a second object of its kind nothing is asked of the first one's haystack."
    def __init__(self, log):
        self.log = log
    def reset(self):
        open(self.log, "a").write("reset ")
        self.known = []
    def add(self, documents):
        if len(self.known) > 14:
            threading.Event().wait()
        self.known += [d.id for d in documents]
    def search(self, queries, k):
        return [self.known[:k] for _ in queries]

class TooMany(Exception):
    status_code, headers = 429, {"Retry-After": "0.1"}

class RefusedHere(Plain):
    n = 0
    def search(self, queries, k):
        self.n += 1
        if self.n % 2:
            raise TooMany("slow down")
        return super().search(queries, k)

class Refused(Plain):
    "Asks an endpoint that has a rate limit, by the standard library."
    def __init__(self, url):
        super().__init__()
        self.url = url
    def search(self, queries, k):
        try:
            urllib.request.urlopen(self.url, data=b'{"type": "search"}').read()
        except OSError as error:
            raise RuntimeError("the model did not answer") from error
        return super().search(queries, k)
"""


@pytest.fixture
def systems(tmp_path: Path) -> str:
    path = tmp_path / "systems.py"
    path.write_text(SYSTEMS)
    return str(path)


def ran(
    spec: str | RetrieverSpec, out: Path, dataset: Dataset | None = None, **settings: Any
) -> Path:
    retriever = RetrieverSpec(spec) if isinstance(spec, str) else spec
    return run(dataset or open_dataset("sample"), retriever, Settings(k=10, **settings), out=out)


def ran_in_time(spec: str, out: Path, limit: str, **settings: Any) -> tuple[Path, str]:
    """Runs with a limit that only calls that hang exceed; returns the folder and the limit.

    A busy machine needs a longer limit: it grows until the slowest of the other calls takes less
    than half of it. Each attempt loads a copy of the plug-in, because its classes count.
    """
    file, _, name = spec.rpartition(":")
    for seconds in (1.0, 10.0, 100.0):
        copy = Path(file).with_stem(f"{name}{seconds:g}")
        copy.write_text(Path(file).read_text())
        folder = ran(f"{copy}:{name}", out / f"{seconds:g}", **{limit: seconds}, **settings)
        if reported(folder).get("slowest", seconds) < seconds / 2:
            break
    return folder, f"{seconds:g} s"


def reported(folder: Path) -> dict[str, Any]:
    """Returns the last report of the system."""
    reports: list[dict[str, Any]] = RunFolder(folder).record.reported
    return reports[-1] if reports else {}


def errors(folder: Path) -> list[str]:
    import orjson

    lines = (folder / "errors.jsonl").read_bytes().splitlines()
    return [orjson.loads(line)["error"] for line in lines]


def texts(folder: Path, failed: bool) -> list[str]:
    """Texts of the questions that failed, or of the others."""
    import pyarrow.parquet as pq

    table = open_dataset("sample").query_table
    asked = dict(zip(table["id"].to_pylist(), table["text"].to_pylist(), strict=True))
    rows = pq.read_table(folder / "queries.parquet").to_pylist()
    return [asked[row["query"]] for row in rows if row["failed"] == failed]


@pytest.mark.slow
def test_a_call_that_never_comes_back_costs_its_haystack_at_most_and_no_other(
    systems: str, tmp_path: Path
) -> None:
    plain = ranked(ran(f"{systems}:Plain", tmp_path / "plain"))
    folder, limit = ran_in_time(f"{systems}:Hangs", tmp_path / "hangs", "query_timeout")
    dataset, found = open_dataset("sample"), ranked(folder)
    hung = {dataset.query_haystack[i] for i, t in enumerate(text_of(dataset)) if "boat" in t}
    lost = {q for i, q in enumerate(dataset.query_ids) if dataset.query_haystack[i] in hung}
    assert 0 < len(hung) < 12
    assert {q: ids for q, ids in found.items() if q not in lost} == {
        q: ids for q, ids in plain.items() if q not in lost
    }
    assert all(plain[q] == ids for q, ids in found.items())
    said = errors(folder)
    assert f"Hangs: search: it took longer than {limit} (--query-timeout)" in said
    assert all("is still running" in one or "longer than" in one for one in said)
    assert reported(folder)["twice"] == 0
    assert f"--query-timeout {limit[:-2]}" in RunFolder(folder).record.command


def text_of(dataset: Any) -> list[str]:
    return list(dataset.query_table["text"].to_pylist())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Slow", "HangsAsync", "HangsBesideOthers"])
def test_what_comes_back_or_can_be_cancelled_costs_its_own_question_alone(
    systems: str, tmp_path: Path, name: str
) -> None:
    plain = ranked(ran(f"{systems}:Plain", tmp_path / "plain"))
    folder, _ = ran_in_time(f"{systems}:{name}", tmp_path / name, "query_timeout")
    assert all("boat" in text for text in texts(folder, failed=True))
    assert not any("boat" in text for text in texts(folder, failed=False))
    found = ranked(folder)
    assert found == {query: plain[query] for query in found}
    assert len(RunFolder(folder).record.reported) == 1
    assert (reported(folder)["taken"], reported(folder)["twice"]) == (12, 0)


def test_an_index_that_takes_too_long_costs_its_haystack_and_is_not_called_again_for_it(
    systems: str, tmp_path: Path
) -> None:
    folder, limit = ran_in_time(f"{systems}:HangsAtIndex", tmp_path, "index_timeout")
    about = RunFolder(folder).record
    assert 0 < about.queries.failed < about.queries.asked / 2
    late = f"HangsAtIndex: index: it took longer than {limit} (--index-timeout)"
    assert {*errors(folder)} == {late}
    assert (reported(folder)["taken"], reported(folder)["twice"]) == (12, 0)


def test_a_report_that_hangs_costs_at_most_its_haystack(
    systems: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = ran(f"{systems}:HangsAtReport", tmp_path, query_timeout=1.0)
    assert RunFolder(folder).record.queries.failed < 321 / 2
    assert "HangsAtReport: report: it took longer than 1 s (--query-timeout)" in caplog.text


@pytest.mark.slow
@pytest.mark.extensions
@pytest.mark.parametrize("settings", [{}, {"workers": 2}, {"isolate": True}, {"batch_size": 7}])
def test_limits_that_are_met_change_nothing(
    systems: str, tmp_path: Path, settings: dict[str, Any]
) -> None:
    plain = ranked(ran(f"{systems}:Plain", tmp_path / "plain"))
    limits = {"query_timeout": 60.0, "index_timeout": 60.0}
    folder = ran(f"{systems}:OfOneThread", tmp_path / "limits", **limits, **settings)
    assert ranked(folder) == plain


@pytest.mark.slow
@pytest.mark.extensions
def test_an_isolated_process_that_hangs_is_ended(systems: str, tmp_path: Path) -> None:
    texts = ["the red boat", "the blue house"]
    documents = [{"id": t, "text": t, "haystack": t} for t in texts]
    queries = [{"id": f"q {t}", "text": t, "haystack": t} for t in texts]
    dataset = labelled(tmp_path / "data", documents, queries, {f"q {t}": [t] for t in texts})
    settings = {"dataset": dataset, "isolate": True}
    folder, limit = ran_in_time(f"{systems}:Hangs", tmp_path / "out", "query_timeout", **settings)
    assert errors(folder) == [f"Hangs: search: it took longer than {limit} (--query-timeout)"]
    assert ranked(folder) == {"q the blue house": ["the blue house"]}


def test_a_search_that_fails_is_made_again_as_often_as_was_asked_for(
    systems: str, tmp_path: Path
) -> None:
    plain = ranked(ran(f"{systems}:Plain", tmp_path / "plain", limit=4))
    spec = RetrieverSpec(f"{systems}:Fails", {"times": 1})
    assert ranked(ran(spec, tmp_path / "once", limit=4, retries=1)) == plain
    mixed = ran(RetrieverSpec(f"{systems}:Fails", {"times": 0}), tmp_path / "never", limit=4)
    assert RunFolder(mixed).record.settings.retries is None


@pytest.mark.slow
def test_a_rate_limit_is_waited_for_without_being_asked_to_and_is_nobodys_time(
    systems: str, tmp_path: Path
) -> None:
    plain = ranked(ran(f"{systems}:Plain", tmp_path / "plain", limit=5))
    refusals = iter([True, False, False, True, True])

    def limited(_: Message) -> Reply:
        return (429, {}, {"Retry-After": "1"}) if next(refusals, False) else (200, {})

    with serving(limited) as (url, told):
        spec = RetrieverSpec(f"{systems}:Refused", {"url": url})
        began = time.monotonic()
        folder = ran(spec, tmp_path / "limited", limit=5)
        took = time.monotonic() - began
    assert ranked(folder) == plain
    assert len(told) == 8
    assert took >= 3
    about = RunFolder(folder).record
    assert about.queries.failed == 0
    assert about.measured.search_ms.mean * 5 <= (took - 3) * 1000


@pytest.mark.slow
def test_a_service_with_a_rate_limit_is_asked_when_it_says_and_not_charged(tmp_path: Path) -> None:
    # Three waits in a row for one question, and below one wait for each of three at once.
    waits = iter([""] * 3 + ["1"] * 3)

    def limited(message: Message) -> Reply:
        if message["type"] != "search":
            return 200, {"concurrent_haystacks": True}
        if wait := next(waits, ""):
            return 503, {}, {"Retry-After": wait}
        return 200, {"results": [{"hits": []} for _ in message["queries"]]}

    with serving(limited) as (url, _):
        for params in ({}, {"concurrency": 3}):
            spec = RetrieverSpec("http", {"url": url, **params})
            began = time.monotonic()
            # Shorter than the wait: what is waited is no part of what the service may take.
            folder = ran(spec, tmp_path, limit=9, query_timeout=2.5, allow_empty=True)
            took = time.monotonic() - began
            about = RunFolder(folder).record
            assert about.queries.failed == 0
            if not params:
                assert about.measured.search_ms.mean * 9 <= (took - 3) * 1000
                waits = iter(["3"] * 3)


def test_documents_that_a_service_is_slow_to_take_in_are_not_sent_again(tmp_path: Path) -> None:
    taken: list[str] = []
    over = threading.Event()

    def slow(message: Message) -> Reply:
        if message["type"] == "index":
            taken.append(message["haystack"])
            if len(taken) % 4 == 0:
                over.wait()
        results = [{"hits": []} for _ in message.get("queries", ())]
        return 200, {"results": results, "concurrent_haystacks": True}

    with serving(slow) as (url, _):
        params = {"url": url, "index_timeout": 1.0, "documents": 10_000}
        folder = ran(RetrieverSpec("http", params), tmp_path, allow_empty=True, limit=24)
        over.set()
    assert len(taken) == len({*taken})
    assert any("Read timed out" in one for one in errors(folder))


def test_of_threads_that_wait_at_once_the_one_counts_that_waits_longest() -> None:
    clock, both = Clock(), threading.Barrier(2)

    def work(seconds: float) -> None:
        with clock.in_parallel():
            current().exclude(seconds)
        both.wait()

    for together in ([3.0, 5.0], [2.0, 1.0]):
        threads = [threading.Thread(target=work, args=(s,)) for s in together]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        clock.join()
    clock.exclude(1.5)
    assert clock.waited == 5.0 + 2.0 + 1.5


def test_an_object_that_hangs_for_ever_ends_the_questions_of_the_run_and_not_its_process(
    systems: str, tmp_path: Path
) -> None:
    """It was built by the program, so that no other can be built in its place."""
    hangs = RetrieverSpec(f"{systems}:Hangs").build()
    folder = run(open_dataset("sample"), hangs, Settings(k=10, query_timeout=0.2), out=tmp_path)
    about = RunFolder(folder).record.queries
    assert 0 < about.failed < about.asked
    said = {*errors(folder)}
    assert "Hangs: search: it took longer than 0.2 s (--query-timeout)" in said
    assert all("is still running" in one or "longer than" in one for one in said)


def test_a_limit_on_indexing_alone_leaves_searches_beside_others_as_they_are(
    systems: str, tmp_path: Path
) -> None:
    plain = ranked(ran(f"{systems}:Plain", tmp_path / "plain"))
    for limits in ({"index_timeout": 60.0}, {"query_timeout": 60.0}):
        folder = ran(f"{systems}:Beside", tmp_path / str(limits), concurrency=8, **limits)
        assert RunFolder(folder).record.queries.failed == 0
        assert ranked(folder) == plain


@pytest.mark.slow
def test_a_late_batch_is_waited_for_as_long_as_it_might_have_taken(
    systems: str, tmp_path: Path
) -> None:
    folder, _ = ran_in_time(f"{systems}:LateBatch", tmp_path, "query_timeout")
    about = RunFolder(folder).record.queries
    assert about.failed <= 4


@pytest.mark.slow
def test_a_memory_whose_add_hangs_is_not_told_its_haystack_again(
    systems: str, tmp_path: Path
) -> None:
    dataset, log = open_dataset("changes", split="test-as-of"), tmp_path / "log"
    spec = RetrieverSpec(f"{systems}:AddHangs", {"log": str(log)})
    run(dataset, spec, Settings(k=5, index_timeout=0.3), out=tmp_path)
    assert log.read_text().count("reset") == 12


@pytest.mark.slow
@pytest.mark.extensions
def test_a_rate_limit_in_a_sandbox_is_waited_for_too(systems: str, tmp_path: Path) -> None:
    folder = ran(f"{systems}:RefusedHere", tmp_path / "out", isolate=True, limit=14)
    assert RunFolder(folder).record.queries.failed == 0
