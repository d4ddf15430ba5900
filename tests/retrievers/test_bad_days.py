"""What services do on bad days: no wrong number in silence, and no one else's answer."""

from __future__ import annotations

import gzip
import json
import os
import socket
import socketserver
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from notes import corpus
from polling import HANGS, listens, wait_until
from serving import Message, Reply, serving
from urllib3.util import connection

from harness.datasets.registry import open_dataset
from harness.retrievers.contract import Question
from harness.retrievers.http import Http
from harness.retrievers.registry import RetrieverSpec
from harness.retrievers.wire import NotTheReplyError
from harness.runfiles.readers import read_rankings
from harness.runs.folder.run_folder import RunFolder
from harness.runs.folder.run_state import Mode
from harness.runs.run import run
from harness.runs.settings import Settings

SERVICE = """
import json, os, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

told, haystacks, asked = sys.argv[2] == "tells", {}, 0

class Service(BaseHTTPRequestHandler):
    protocol_version, wbufsize = "HTTP/1.1", 1 << 16
    disable_nagle_algorithm = True
    def do_POST(self):
        global asked
        m = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        reply = {"instance": os.getpid()} if told else {}
        held = haystacks.setdefault(m["haystack"], {})
        if m["type"] == "reset":
            held.clear()
            reply["concurrent_haystacks"] = True
        if m["type"] == "index":
            held.update((d["id"], set(d["text"].lower().split())) for d in m["documents"])
        if m["type"] == "search":
            asked += 1
            if asked == 60 and os.environ.get("DIES"):
                os._exit(1)
            reply["results"] = []
            for q in m["queries"]:
                words = set(q["text"].lower().split())
                best = sorted(held, key=lambda id_: (-len(words & held[id_]), id_))
                reply["results"].append({"hits": [{"id": id_} for id_ in best[: m["k"]]]})
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass

sys.stdin.readline()
ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Service).serve_forever()
"""


@contextmanager
def restarting(script: Path, port: int, tells: str, until: Callable[[], object]) -> Iterator[None]:
    """A service that dies once, at its sixtieth question, and listens anew after `until()`."""

    def start(**more: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, str(script), str(port), tells]
        return subprocess.Popen(command, stdin=subprocess.PIPE, env={**os.environ, **more})

    first, second = start(DIES="1"), start()

    def watch() -> None:
        if first.wait() == 1:
            until()
            second.stdin.close()

    threading.Thread(target=watch, daemon=True).start()
    first.stdin.close()
    wait_until(lambda: listens(port), first)
    try:
        yield
    finally:
        for one in (first, second):
            one.kill()
            one.wait()


@pytest.mark.slow
@pytest.mark.parametrize("tells", ["silent", "tells"])
def test_a_service_that_dies_and_comes_back_is_not_asked_for_what_it_lost(
    tmp_path: Path, tells: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = threading.Event()

    def connect(*given: Any, **named: Any) -> socket.socket:
        try:
            return connected(*given, **named)
        except ConnectionRefusedError:
            refused.set()
            raise

    connected = connection.create_connection
    monkeypatch.setattr(connection, "create_connection", connect)
    with socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler) as free:
        port = free.server_address[1]
    script = tmp_path / "service.py"
    script.write_text(SERVICE)
    dataset, spec = (
        open_dataset("sample"),
        RetrieverSpec("http", {"url": f"http://127.0.0.1:{port}"}),
    )
    # A silent one is away for long enough that it is missed.
    with restarting(script, port, tells, refused.wait if tells == "silent" else lambda: None):
        folder = run(dataset, spec, Settings(k=5), out=tmp_path / "out")
        first = RunFolder(folder).record.queries
        folder = run(dataset, spec, Settings(k=5), out=tmp_path / "out", mode=Mode.RESUME)
        again = RunFolder(folder).record.queries
        whole = run(dataset, spec, Settings(k=5), out=tmp_path / "whole")
    assert 0 < first.failed < 60  # what was left of one haystack
    assert again.failed == 0
    resumed, right = (read_rankings(RunFolder(one).rankings) for one in (folder, whole))
    assert resumed.document.equals(right.document)


class Twice(BaseHTTPRequestHandler):
    """Sends each reply to a search twice, the second one a little later."""

    protocol_version = "HTTP/1.1"
    numbers = True

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        hits = [[{"id": "d0" if q["text"] == "a" else "d1"}] for q in message.get("queries", ())]
        reply = {"concurrent_haystacks": True, "results": [{"hits": one} for one in hits]}
        if self.numbers:
            reply["number"] = message["number"]
        body = json.dumps(reply).encode()
        whole = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
        self.wfile.write(whole)
        self.wfile.flush()
        if message["type"] == "search":
            time.sleep(0.2)
            self.wfile.write(whole)

    def log_message(self, *_: Any) -> None:
        pass


def test_a_reply_that_comes_twice_is_no_answer_to_the_next_question() -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), Twice) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        service = Http(f"http://127.0.0.1:{server.server_address[1]}", retries=0)
        service.index(corpus(["a", "b"]))
        assert service.search([Question("a")], 1)[0].ids == ["d0"]
        # A connection with something left in it may be seen, and not be used again.
        with suppress(NotTheReplyError):
            assert service.search([Question("b")], 1)[0].ids == ["d1"]
        server.shutdown()


def answered(
    change: Callable[[Message, Message], Any], tmp_path: Path, timeout: float = HANGS
) -> tuple[Path, list[str]]:
    """A run with a service whose answers to some questions are changed; the texts of those."""
    changed: list[str] = []

    def answer(message: Message) -> Reply:
        if message["type"] != "search":
            return 200, {"concurrent_haystacks": True}
        (query,) = message["queries"]
        reply: Message = {"results": [{"hits": [{"text": "nothing of this", "score": 1}]}]}
        if "boat" in query["text"]:
            changed.append(query["text"])
            reply = change(message, reply)
        return 200, reply

    with serving(answer) as (url, _):
        spec = RetrieverSpec("http", {"url": url, "timeout": timeout, "retries": 0})
        folder = run(open_dataset("sample"), spec, Settings(k=5), out=tmp_path)
    return folder, changed


@pytest.mark.parametrize(
    "change",
    [
        lambda m, r: {**r, "number": m["number"] + 1},
        lambda m, r: {"results": r["results"] * 2},
        lambda m, r: {"results": [{"hits": "none"}]},
        lambda m, r: [1, 2],
    ],
    ids=["of another message", "two for one", "no list", "no object"],
)
def test_a_wrong_answer_costs_its_question_or_haystack_and_is_no_zero(
    tmp_path: Path, change: Callable[[Message, Message], Any]
) -> None:
    _costs_what_it_concerns(*answered(change, tmp_path))


@pytest.mark.slow
def test_an_answer_that_comes_too_late_costs_its_question_or_haystack_and_is_no_zero(
    tmp_path: Path,
) -> None:
    over = threading.Event()
    folder, changed = answered(lambda m, r: over.wait() and r, tmp_path, timeout=1.0)
    over.set()
    _costs_what_it_concerns(folder, changed)


def _costs_what_it_concerns(folder: Path, changed: list[str]) -> None:
    record = RunFolder(folder).record.queries
    assert changed
    assert len(changed) <= record.failed < record.asked


@pytest.mark.slow
def test_ten_megabytes_in_a_hit_are_borne_and_kept(tmp_path: Path) -> None:
    large = "a long memory of boats " * 450_000

    def change(_: Message, reply: Message) -> Message:
        return {"results": [{"hits": [{"text": large, "score": 2}, *reply["results"][0]["hits"]]}]}

    import pyarrow.parquet as pq

    folder, changed = answered(change, tmp_path)
    hits = pq.read_table(folder / "hits.parquet").column("text").to_pylist()
    assert sum(text == large for text in hits) == len(changed)
    assert RunFolder(folder).record.queries.failed == 0


def test_a_reply_that_unpacks_to_gigabytes_is_an_error_and_fills_no_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("harness.retrievers.wire.LONGEST_REPLY", 1 << 20)
    packed, empty = gzip.compress(bytes(1 << 26), 9), gzip.compress(b'{"results": [{"hits": []}]}')
    asked = []

    class Bomb(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            text = message["queries"][0]["text"] if message["type"] == "search" else ""
            asked.append(text)
            body = packed if text == "bomb" else empty
            self.send_response(200)
            self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Bomb) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        service = Http(f"http://127.0.0.1:{server.server_address[1]}")
        service.index(corpus(["a", "b"]))
        tracemalloc.start()
        try:
            with pytest.raises(ValueError, match="goes on for more than 1 MB, unpacked"):
                service.search([Question("bomb")], 1)
            assert tracemalloc.get_traced_memory()[1] < 1 << 25
        finally:
            tracemalloc.stop()
        assert asked.count("bomb") == 1  # it would be no shorter
        assert service.search([Question("fine")], 1)[0].ids == []
        server.shutdown()


def test_half_a_json_and_a_cut_reply_are_errors_of_their_question(tmp_path: Path) -> None:
    class Half(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            text = message["queries"][0]["text"] if message["type"] == "search" else ""
            reply: Message = {"concurrent_haystacks": True, "results": [{"hits": []}]}
            body = json.dumps(reply).encode()
            sent = body[:-5] if text in ("half", "cut") else body
            self.send_response(200)
            self.send_header("Content-Length", str(len(body if text == "cut" else sent)))
            self.end_headers()
            self.wfile.write(sent)
            self.close_connection = text == "cut"

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Half) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        service = Http(f"http://127.0.0.1:{server.server_address[1]}", retries=1)
        service.index(corpus(["a", "b"]))
        for text, said in (("half", "the reply is not JSON"), ("cut", "IncompleteRead")):
            with pytest.raises(Exception, match=said):
                service.search([Question(text)], 1)
            assert service.search([Question("whole")], 1)[0].ids == []
        server.shutdown()


def test_a_wall_clock_that_jumps_changes_no_time_and_no_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jumps = iter(range(10**9))
    monkeypatch.setattr(time, "time", lambda: 4e9 if next(jumps) % 2 else 1.0)
    limits = Settings(k=5, limit=40, query_timeout=60.0, index_timeout=60.0, retries=1)
    folder = run(open_dataset("sample"), RetrieverSpec("bm25"), limits, out=tmp_path)
    record = RunFolder(folder).record
    assert record.queries.failed == 0
    times = [record.measured.seconds.run, record.measured.index.seconds]
    assert all(0 < seconds < 3600 for seconds in times)
