"""Queries from a language model: what is asked, what is refused, and that nothing is paid twice."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from generated_notes import NOTES, lines, write
from openai_endpoint import CHAT, Chat, Failure, OpenAIEndpoint

from harness.errors import RunError, UsageError
from harness.labelling.generate import endpoint
from harness.labelling.generate.from_model import Journal
from harness.labelling.generate.generate import Choices, generate
from harness.labelling.generate.splits import DEFAULT, parse

pytestmark = pytest.mark.usefixtures("home")


def document_of(chat: Chat) -> str:
    return str(chat.messages[-1]["content"]).partition("Document:\n")[2]


def answer(chat: Chat) -> str:
    """A question about the document's first and ninth word, as the asked JSON."""
    words = document_of(chat).split()
    question = {"query": f"Which {words[8]} has to do with {words[0]}?", "answer": words[3]}
    return json.dumps({"questions": [question]})


@pytest.fixture
def server() -> Iterator[OpenAIEndpoint]:
    with OpenAIEndpoint(answer) as running:
        yield running


def choices(url: str, retries: int = 3) -> Choices:
    chat = endpoint.Chat(url, "tiny", concurrency=2, retries=retries, timeout=5)
    return Choices([], parse(DEFAULT), similarity=None, chat=chat, concurrency=2)


def test_each_document_is_asked_about_once_and_the_cost_is_counted(
    tmp_path: Path, server: OpenAIEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    docs, out = write(tmp_path / "docs", NOTES), tmp_path / "out"
    server.fail(CHAT, Failure(429), Failure(503))
    found = generate(docs, out, choices(server.url))
    counted = server.counted()
    assert counted["calls"] == len(NOTES) - 2 == found["queries"]
    cost = found["endpoint"]
    assert {name: cost[name] for name in ("calls", "prompt_tokens", "completion_tokens")} == {
        name: counted[name] for name in ("calls", "prompt_tokens", "completion_tokens")
    }
    (query,) = (q for q in lines(out / "queries.jsonl") if "bees.md" in q["generated"]["documents"])
    assert query["ability"] == "lookup"
    assert len(query["answers"]) == 1
    assert query["generated"] == {"by": "model", "model": "tiny", "documents": ["bees.md"]}
    again = generate(docs, out, choices(server.url))
    assert server.counted() == counted
    assert again["new_queries"] == 0
    every = b"".join(path.read_bytes() for path in out.rglob("*") if path.is_file())
    assert b"sk-secret" not in every


def test_answers_that_are_not_what_was_asked_for_are_counted_and_not_guessed(
    tmp_path: Path,
) -> None:
    said = {
        "bees": "Certainly! Here is your question: what is a bee?",
        "boiler": '{"questions": "none"}',
        "choir": '{"questions": [{"query": "Does this document name Marit?", "answer": "yes"}]}',
        "garden": '{"questions": [{"query": "What is sown?"}, 3]}',
        "harbour": '{"questions": [{"query": "Why?", "answer": "x", "ability": "magic"}]}',
        "router": '{"questions": []}',
        "tax": '```json\n{"questions": [{"query": "How many euros?", "answer": 1260}]}\n```',
        "trip": '{"questions": [{"query": "Who took the night train from Vienna to Venice?", '
        '"answer": "we"}]}',
        "vet": '{"questions": [{"query": "What weighs little?", "answer": "cat", "ability": '
        '"temporal"}, {"query": "And beyond what was asked for?", "answer": "x"}]}',
    }
    marks = {"bees": "Varroa", "boiler": "F28", "choir": "Marit", "garden": "raspberry"}
    marks |= {"harbour": "Skarholm", "router": "mesh", "tax": "euros", "trip": "Venice"}
    marks["vet"] = "feline"

    def broken(chat: Chat) -> str:
        document = document_of(chat)
        return next((said[name] for name, mark in marks.items() if mark in document), "[]")

    with OpenAIEndpoint(broken) as server:
        found = generate(write(tmp_path / "d", NOTES), tmp_path / "out", choices(server.url))
    assert found["left_out"] == {
        "documents with fewer than 8 words": 1,
        "documents with the text of another": 1,
        # `[]` of both breads with bees and boiler
        "documents answered with something else than the JSON that was asked for": 4,
        'questions that speak of "this document"': 1,
        "questions without a query and an answer": 1,  # one was asked for: no second is read
        "questions with an unknown ability": 1,
        "documents answered with no question": 1,
        "queries that quote 5 words and more of their document": 1,
    }
    queries = {q["text"]: q for q in lines(tmp_path / "out" / "queries.jsonl")}
    assert set(queries) == {"How many euros?", "What weighs little?"}
    assert queries["How many euros?"]["answers"] == ["1260"]
    assert queries["What weighs little?"]["ability"] == "temporal"


class _Dying(BaseHTTPRequestHandler):
    """Answers a few requests; then every connection is cut."""

    protocol_version = "HTTP/1.1"
    left = 4

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        type(self).left -= 1
        if type(self).left < 0:
            self.close_connection = True
            return
        text = answer(Chat(body["messages"], ""))
        reply = json.dumps({"choices": [{"message": {"content": text}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: object) -> None:
        pass


def test_a_call_that_was_stopped_goes_on_and_pays_nothing_twice(
    tmp_path: Path, server: OpenAIEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    docs, out = write(tmp_path / "docs", NOTES), tmp_path / "out"
    dying = ThreadingHTTPServer(("127.0.0.1", 0), _Dying)
    threading.Thread(target=dying.serve_forever, args=(0.01,), daemon=True).start()
    with pytest.raises(RunError, match="4 of 11 documents are answered and kept"):
        generate(docs, out, choices(f"http://127.0.0.1:{dying.server_port}/v1", retries=0))
    dying.shutdown()
    dying.server_close()
    assert len(lines(out / "answers.jsonl")) == 4
    assert not (out / "label.json").exists()
    with open(out / "answers.jsonl", "ab") as file:
        file.write(b'{"asked": "cut o')  # as kill -9 leaves it
    found = generate(docs, out, choices(server.url))
    assert "its last line was cut off and is dropped" in capsys.readouterr().err
    assert server.counted()["calls"] == 7
    assert found["queries"] == 11
    assert found["endpoint"]["answers_from_before"] == 4
    generate(docs, tmp_path / "whole", choices(server.url))
    for name in ("queries.jsonl", "pool.jsonl", "documents.jsonl"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_refused_key_stops_at_once_and_a_refused_document_does_not(
    tmp_path: Path, server: OpenAIEndpoint
) -> None:
    docs = write(tmp_path / "docs", NOTES)
    one = replace(choices(server.url), concurrency=1)
    server.fail(CHAT, Failure(401))
    with pytest.raises(UsageError, match=r"status 401: .*the key in OPENAI_API_KEY"):
        generate(docs, tmp_path / "a", one)
    server.fail(CHAT, Failure(200), Failure(400))
    found = generate(docs, tmp_path / "b", one)
    assert found["left_out"]["documents that the endpoint refused"] == 1
    assert len(found["endpoint"]["refused"]) == 1
    # What was refused is asked again another time.
    before = server.counted()["calls"]
    assert generate(docs, tmp_path / "b", one)["new_queries"] == 1
    assert server.counted()["calls"] == before + 1


@pytest.mark.parametrize("url", ["localhost:8000", "http://", "http://u:p@host/v1", "ftp://x/v1"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(UsageError, match="--endpoint"):
        endpoint.Chat(url, "tiny")


def test_a_journal_with_a_broken_line_inside_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text('{"asked": "a", "answer": "b"}\n[]\n')
    with pytest.raises(UsageError, match=r"answers\.jsonl, line 2"):
        Journal(path)
