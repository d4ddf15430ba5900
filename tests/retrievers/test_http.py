"""A service is put under test over HTTP; what goes wrong there costs what it concerns only."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from notes import SharedWords, ask, corpus
from places import EXAMPLES
from polling import HANGS, Watched, listens, wait_until
from serving import Message, Reply, serving

from harness.datasets.registry import open_dataset
from harness.errors import RunError, UsageError
from harness.io.records import json_schema
from harness.records.run import Usage
from harness.retrievers import calls
from harness.retrievers.contract import Question, Result
from harness.retrievers.http import TOKEN, Http
from harness.retrievers.hybrid import Hybrid
from harness.retrievers.registry import RetrieverSpec
from harness.retrievers.wire import Reply as WireReply
from harness.retrievers.wire import Request
from harness.runfiles.readers import read_rankings
from harness.runs.folder.run_folder import RunFolder
from harness.runs.run import run
from harness.runs.settings import Settings


def first(message: Message) -> Reply:
    """A service that finds document d1, always."""
    if message["type"] != "search":
        return 200, {}
    return 200, {"results": [{"hits": [{"id": "d1", "score": 2.5}]} for _ in message["queries"]]}


@pytest.fixture
def example() -> Iterator[str]:
    """The example server as a process of its own."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as free:
        port = free.server_address[1]
    process = subprocess.Popen([sys.executable, str(EXAMPLES / "http_server.py"), str(port)])
    try:
        wait_until(lambda: listens(port), process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def test_the_example_service_ranks_as_the_same_code_in_this_process(
    example: str, home: Path, tmp_path: Path
) -> None:
    dataset = open_dataset("sample")
    there = run(dataset, RetrieverSpec("http", {"url": example}), out=tmp_path / "there")
    here = run(dataset, SharedWords(), out=tmp_path / "here")  # type: ignore[arg-type]
    served, local = (read_rankings(RunFolder(f).rankings) for f in (there, here))
    assert served.document.equals(local.document)
    assert served.score is not None
    assert served.score.tolist() == local.score.tolist()  # type: ignore[union-attr]


def test_every_message_fits_the_published_schema_and_documents_come_in_their_order() -> None:
    requests = Draft202012Validator(json_schema(Request, "requests"))
    replies_ = Draft202012Validator(json_schema(WireReply, "replies"))
    late = iter([False, False, True])

    def held(message: Message) -> Reply:
        replies: dict[str, Message] = {
            "reset": {"concurrent_haystacks": True},
            "index": {"ready": False},
        }
        if message["type"] == "ready":
            return 200, {"ready": next(late)}
        return (200, replies[message["type"]]) if message["type"] in replies else first(message)

    with serving(held) as (url, told):
        service = Http(url, documents=2)
        calls.index(service, corpus(["a", "b", "c"], said=[10, 20, 30]))
        assert service.search([Question("which?", 40)], 5) == [Result(["d1"], [2.5])]
        service.close()
    paths = ["/reset", "/index", "/index", "/ready", "/ready", "/ready", "/search", "/close"]
    assert [m["path"] for m in told] == paths
    assert len({(m["client"], m["haystack"]) for m in told}) == 1
    for message in told:
        requests.validate({k: v for k, v in message.items() if k not in ("path", "token")})
        replies_.validate(first(message)[1])
    for reply in ({"concurrent_haystacks": True}, {"ready": False}):
        replies_.validate(reply)
    sent = [d for m in told if m["type"] == "index" for d in m["documents"]]
    assert [(d["id"], d["timestamp"]) for d in sent] == [
        ("d2", "1970-01-01T00:00:10"),
        ("d1", "1970-01-01T00:00:20"),
        ("d0", "1970-01-01T00:00:30"),
    ]
    assert [m["last"] for m in told if m["type"] == "index"] == [False, True]


@pytest.mark.parametrize("trouble", [503, 429, 0])
def test_a_busy_service_and_a_lost_connection_are_tried_again(trouble: int) -> None:
    troubles = iter([trouble, trouble])

    def busy(message: Message) -> Reply:
        status = next(troubles, 200) if message["type"] == "search" else 200
        return (status, {}) if status != 200 else first(message)

    with serving(busy) as (url, told):
        service = Http(url)
        service.index(corpus(["a", "b"]))
        assert service.search([Question("which?")], 5) == [Result(["d1"], [2.5])]
    assert sum(m["type"] == "search" for m in told) == 3


def test_an_error_of_the_service_is_told_in_its_words_and_not_tried_again() -> None:
    def broken(message: Message) -> Reply:
        return (500, {"error": "the disk is full"}) if message["type"] == "index" else (200, {})

    with serving(broken) as (url, told), pytest.raises(ValueError, match="the disk is full"):
        Http(url).index(corpus(["a"]))
    assert [m["type"] for m in told] == ["reset", "index"]


def test_a_service_that_hangs_costs_one_message(home: Path) -> None:
    over = threading.Event()

    def slow(message: Message) -> Reply:
        if message["type"] == "search" and message["queries"][0]["text"] == "hang":
            over.wait()
        return first(message)

    with serving(slow) as (url, _):
        service = Http(url, retries=0)
        service.index(corpus(["a", "b"]))
        service.timeout, patient = 0.2, service.timeout
        with pytest.raises(Exception, match="timed out"):
            service.search([Question("hang")], 5)
        service.timeout = patient
        assert service.search([Question("go on")], 5) == [Result(["d1"], [2.5])]
        over.set()


def test_messages_are_sent_side_by_side_but_no_more_than_were_allowed() -> None:
    lock, now, most = threading.Lock(), 0, 0
    three = threading.Barrier(3, timeout=HANGS)

    def counting(message: Message) -> Reply:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        if message["type"] == "search":
            three.wait()
        with lock:
            now -= 1
        return first(message)

    with serving(counting) as (url, _):
        service = Http(url, concurrency=3)
        service.index(corpus(["a", "b"]))
        found = service.search([Question(str(i)) for i in range(12)], 5)
    assert (len(found), most) == (12, 3)


def test_a_service_that_is_not_there_ends_the_run_in_one_line(home: Path, tmp_path: Path) -> None:
    spec = RetrieverSpec("http", {"url": "http://127.0.0.1:9", "retries": 0})
    with pytest.raises(RunError, match=r"nothing answers at .* start the service") as error:
        run(open_dataset("sample"), spec, out=tmp_path)
    assert "\n" not in str(error.value)


def test_the_token_is_sent_and_never_written_down(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TOKEN, "s3cret")
    with serving(first) as (url, told):
        folder = run(open_dataset("sample"), RetrieverSpec("http", {"url": url}), out=tmp_path)
    assert {m["token"] for m in told} == {"Bearer s3cret"}
    written = [path.read_bytes() for path in folder.iterdir()]
    assert not any(b"s3cret" in content for content in written)


def test_what_a_service_says_its_replies_cost_is_in_the_record(home: Path, tmp_path: Path) -> None:
    def costly(message: Message) -> Reply:
        status, reply = first(message)
        n = len(message.get("documents", [])) if message["type"] == "index" else 0
        return status, {**reply, "usage": {"calls": n, "prompt_tokens": 7 * n}}

    with serving(costly) as (url, _):
        folder = run(open_dataset("sample"), RetrieverSpec("http", {"url": url}), out=tmp_path)
    record = RunFolder(folder).record
    taken_in = record.measured.index.documents
    assert record.measured.ingestion == Usage(calls=taken_in, prompt_tokens=7 * taken_in)


def test_a_reply_that_is_an_error_costs_what_it_says() -> None:
    def fails(message: Message) -> Reply:
        status, reply = first(message)
        wrong = {"error": "no"} if message["type"] == "search" else {}
        return status, {**reply, **wrong, "usage": {"calls": 1}}

    with serving(fails) as (url, _):
        service = Http(url)
        service.index(corpus(["a"]))
        with pytest.raises(ValueError, match="no"):
            service.search([Question("a")], 1)
        assert service.report()["calls"] == 3  # reset and index too


@pytest.mark.parametrize("url", ["http://me:secret@127.0.0.1:9", "http://127.0.0.1:9/?key=secret"])
def test_an_address_that_may_hold_a_secret_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match=TOKEN) as error:
        RetrieverSpec("http", {"url": url}).build()
    assert "secret@" not in str(error.value)


def test_a_service_that_went_away_is_not_asked_again_for_every_question() -> None:
    with serving(first) as (url, _):
        service = Http(url, retries=0)
        service.index(corpus(["a", "b"]))
        service._pool.clear()  # the connection; the service goes with this block
    with pytest.raises(Exception, match="refused"):
        service.search([Question("which?")], 5)
    with pytest.raises(ConnectionError, match="was gone before"):
        service.search([Question("which?")], 5)


class Memory:
    """A service that keeps documents by their words: of every client, or of the last one alone."""

    def __init__(self, *, several: bool) -> None:
        self.several = several
        self.haystacks: dict[Any, dict[str, set[str]]] = {}
        self.most = 0

    def __call__(self, message: Message) -> Reply:
        asked = (message["client"], message["haystack"]) if self.several else "the one"
        if message["type"] == "reset":
            self.haystacks[asked] = {}
            self.most = max(self.most, len(self.haystacks))
            return 200, {"concurrent_haystacks": True} if self.several else {}
        if message["type"] == "close":
            del self.haystacks[asked]
            return 200, {}
        documents = self.haystacks[asked]
        if message["type"] == "index":
            for d in message["documents"]:
                documents[d["id"]] = set(f"{d.get('title', '')} {d['text']}".lower().split())
            return 200, {}
        return 200, {"results": [self.best(documents, q, message["k"]) for q in message["queries"]]}

    def best(self, documents: dict[str, set[str]], query: Message, k: int) -> Message:
        asked = set(query["text"].lower().split())
        hits = [{"id": id_, "score": len(asked & words)} for id_, words in documents.items()]
        return {"hits": sorted(hits, key=lambda hit: -hit["score"])[:k]}


@pytest.mark.slow
@pytest.mark.parametrize("several", [True, False])
def test_two_runs_at_once_and_two_workers_get_the_answers_of_one_alone(
    several: bool, home: Path, tmp_path: Path
) -> None:
    here = run(open_dataset("sample"), SharedWords(), out=tmp_path / "here")  # type: ignore[arg-type]
    expected = read_rankings(RunFolder(here).rankings)
    memory, two = Memory(several=several), threading.Event()

    def both(message: Message) -> Reply:
        reply = memory(message)
        if memory.most > 1:
            two.set()
        elif several and message["type"] == "index":  # the first client waits for a second one
            two.wait(HANGS)
        return reply

    with serving(both) as (url, _):
        arguments = [sys.executable, "-m", "harness", "run", "--dataset", "sample"]
        arguments += ["--retriever", "http", "--param", f"url={url}"]
        runs = [
            subprocess.Popen(
                [*arguments, "--workers", str(workers), "--out", str(tmp_path / str(workers))],
                stderr=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
            )
            for workers in (1, 2)
        ]
        said = [one.communicate(timeout=HANGS)[1].decode() for one in runs]
    assert [one.returncode for one in runs] == [0, 0], said
    for workers in (1, 2):
        (folder,) = (tmp_path / str(workers)).iterdir()
        found = read_rankings(RunFolder(folder).rankings)
        assert found.document.equals(expected.document)
        assert RunFolder(folder).record.queries.failed == 0
    assert memory.most == 1 if not several else 2 <= memory.most <= 3
    assert not memory.haystacks or not several  # each was closed when it was done with


def test_what_waits_for_its_turn_says_so_and_is_not_charged_for_it(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.retrievers.locks._SILENT", 0.05)
    gc.collect()  # what another test let go of in a cycle holds its service yet
    code = (
        "import sys, time; from harness.retrievers.locks import ServiceLock; "
        "lock = ServiceLock(sys.argv[1]); lock.acquire(); print('mine', flush=True); "
        "time.sleep(3600)"
    )
    with serving(Memory(several=False)) as (url, _):
        other = subprocess.Popen([sys.executable, "-c", code, url], stdout=subprocess.PIPE)
        assert other.stdout is not None
        assert other.stdout.readline() == b"mine\n"
        # What dies does not hold it for ever.
        note = f"waiting for {url}: it holds one haystack at a time"
        said = Watched(note, threading.Timer(0.5, other.kill).start)
        monkeypatch.setattr(sys, "stderr", said)
        folder = run(open_dataset("sample"), RetrieverSpec("http", {"url": url}), out=tmp_path)
    other.wait()
    assert note in said.getvalue()
    record = RunFolder(folder).record
    waited = record.reported[0]["waited_seconds"]
    assert waited >= 0.3
    assert record.measured.index.seconds < record.measured.seconds.run - 0.9 * waited


def test_two_retrievers_of_one_process_on_a_service_for_one_are_told(home: Path) -> None:
    spec = {"name": "http", "params": {}}
    for several in (True, False):
        with serving(Memory(several=several)) as (url, _):
            hybrid = Hybrid([{**spec, "params": {"url": url}}, {**spec, "params": {"url": url}}])
            hybrid.index(corpus(["tea", "a boat"]))
            if several:
                assert list(ask(hybrid, "boat").ids) == [1, 0]
            else:
                with pytest.raises(RuntimeError, match="been given another haystack since"):
                    ask(hybrid, "boat")
            hybrid.close()


def test_a_service_that_is_never_ready_costs_its_haystacks(home: Path, tmp_path: Path) -> None:
    def never(message: Message) -> Reply:
        return (200, {"ready": False}) if message["type"] in ("index", "ready") else first(message)

    with serving(never) as (url, _):
        spec = RetrieverSpec("http", {"url": url, "ready_timeout": 0.05})
        with pytest.raises(RunError, match=r"ready\(\) was not true within 0.05 s"):
            run(open_dataset("sample"), spec, out=tmp_path)


def test_titles_are_sent_and_the_examples_read_them(example: str) -> None:
    """As a class that reads `contents` has them."""
    notes = corpus(["of tea", "of tea"], titles=["", "a boat"])
    command = RetrieverSpec("command", {"run": f"{sys.executable} {EXAMPLES / 'command.py'}"})
    for retriever in (Http(example), command.build(), SharedWords()):
        retriever.index(notes)  # type: ignore[union-attr]
        (found,) = retriever.search([Question("a boat")], 2)  # type: ignore[union-attr]
        assert found.ids in (["d0", "d1"], [1, 0])  # type: ignore[union-attr]
        assert list(found.scores) == [2, 0]  # type: ignore[union-attr]


@pytest.mark.slow
def test_workers_of_a_hybrid_of_two_services_for_one_do_not_wait_for_each_other_for_ever(
    home: Path, tmp_path: Path
) -> None:
    expected = None
    with serving(Memory(several=False)) as (one, _), serving(Memory(several=False)) as (two, _):
        for urls, workers in (((one, two), 1), ((one, two), 2), ((two, one), 2)):
            inside = [{"name": "http", "params": {"url": url}} for url in urls]
            spec = RetrieverSpec("hybrid", {"retrievers": inside})
            out = tmp_path / f"{workers}{urls[0][-4:]}"
            folder = run(open_dataset("sample"), spec, Settings(workers=workers), out=out)
            assert RunFolder(folder).record.queries.failed == 0
            found = read_rankings(RunFolder(folder).rankings)
            assert expected is None or found.document.equals(expected.document)
            expected = found
