"""Queries from a language model: what is asked, what is refused, and that nothing is paid twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from generated_notes import NOTES, lines, write
from openai_endpoint import CHAT, Chat, Failure, OpenAIEndpoint
from polling import HANGS

from harness.datasets.registry import home
from harness.errors import RunError, UsageError
from harness.extensions.answers.answering.client import ModelClient, RequestOptions
from harness.extensions.labelling.generate.generate import GenerateOptions, generate
from harness.extensions.labelling.generate.leakage import MIN_QUOTE
from harness.extensions.labelling.generate.write_project import DEFAULT_SPLITS, parse_splits

pytestmark = pytest.mark.usefixtures("home")


def document_of(chat: Chat) -> str:
    return str(chat.messages[-1]["content"]).partition("Document:\n")[2]


def answer(chat: Chat) -> str:
    """A question about the document's first and ninth word, as the asked JSON."""
    words = document_of(chat).split()
    question = {"query": f"Which {words[8]} has to do with {words[0]}?", "answer": f"x{words[3]}"}
    return json.dumps({"questions": [question]})


@pytest.fixture
def server() -> Iterator[OpenAIEndpoint]:
    with OpenAIEndpoint(answer) as running:
        yield running


def choices(url: str, **way: Any) -> GenerateOptions:
    settings = {"concurrency": 2, "retries": 3, "timeout": HANGS, **way}
    client = ModelClient(RequestOptions("tiny", url, **settings), home(), "harness label generate")
    return GenerateOptions([], parse_splits(DEFAULT_SPLITS), client=client)


def test_each_document_is_asked_about_once_and_the_cost_is_counted(
    tmp_path: Path, server: OpenAIEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    docs, out = write(tmp_path / "docs", NOTES), tmp_path / "out"
    server.fail(CHAT, Failure(429), Failure(503))
    found = generate(docs, out, choices(server.url))
    counted = server.counted()
    assert counted["calls"] == len(NOTES) - 2 == found.queries
    usage = found.endpoint
    assert usage is not None
    assert {
        name: getattr(usage, name) for name in ("calls", "prompt_tokens", "completion_tokens")
    } == {name: counted[name] for name in ("calls", "prompt_tokens", "completion_tokens")}
    (query,) = (q for q in lines(out / "queries.jsonl") if "bees.md" in q["generated"]["documents"])
    assert query["ability"] == "lookup"
    assert len(query["answers"]) == 1
    assert query["generated"] == {
        "method": "model",
        "documents": ["bees.md"],
        "model": "tiny",
    }
    again = generate(docs, out, choices(server.url))
    assert server.counted() == counted
    assert again.new_queries == 0
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
    assert found.excluded == {
        "documents with fewer than 8 words": 1,
        "documents with the text of another": 1,
        # `[]` of both breads with bees and boiler
        "documents whose answer is not the JSON that was asked for": 4,
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


def test_a_question_with_its_answer_is_excluded_and_the_prompt_says_so(tmp_path: Path) -> None:
    question = {"query": "Is a rye starter fed in the evening?", "answer": "The rye starter"}

    def answering(chat: Chat) -> str:
        prompt = str(chat.messages[-1]["content"])
        assert f"Never copy {MIN_QUOTE} or more words in a row" in prompt
        assert "Never put the answer" in prompt
        return json.dumps({"questions": [question]})

    docs = write(tmp_path / "d", {"rye.md": NOTES["recipes/rye.md"]})
    with OpenAIEndpoint(answering) as server:
        with pytest.raises(UsageError, match="queries that contain their answer: 1"):
            generate(docs, tmp_path / "out", choices(server.url))
        assert server.counted()["calls"] == 1


def test_a_call_that_was_stopped_goes_on_and_pays_nothing_twice(
    tmp_path: Path, server: OpenAIEndpoint, capsys: pytest.CaptureFixture[str]
) -> None:
    docs, out = write(tmp_path / "docs", NOTES), tmp_path / "out"
    server.fail(CHAT, *[Failure(200)] * 4, Failure(503))
    with pytest.raises(RunError, match="4 of 11 documents are answered and cached"):
        generate(docs, out, choices(server.url, retries=0, concurrency=1))
    assert not (out / "label.json").exists()
    before = server.counted()["calls"]
    found = generate(docs, out, choices(server.url))
    assert server.counted()["calls"] - before == 7
    assert found.queries == 11
    assert found.endpoint is not None
    assert found.endpoint.cached_answers == 4
    generate(docs, tmp_path / "whole", choices(server.url))  # what is kept is of no one folder
    assert server.counted()["calls"] - before == 7
    for name in ("queries.jsonl", "pool.jsonl", "documents.jsonl"):
        assert (out / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_spending_has_a_limit(tmp_path: Path, server: OpenAIEndpoint) -> None:
    docs = write(tmp_path / "docs", NOTES)
    prices = {"tiny": {"prompt_tokens": 1000.0, "completion_tokens": 1000.0}}
    with pytest.raises(RunError, match="documents are answered and cached"):
        generate(docs, tmp_path / "out", choices(server.url, max_usd=0.01, prices=prices))
    assert server.counted()["calls"] == 0


def test_a_refused_key_stops_at_once_and_a_refused_document_does_not(
    tmp_path: Path, server: OpenAIEndpoint
) -> None:
    docs = write(tmp_path / "docs", NOTES)
    one = choices(server.url, concurrency=1)
    server.fail(CHAT, Failure(401))
    with pytest.raises(UsageError, match=r"status 401: .*the key in OPENAI_API_KEY"):
        generate(docs, tmp_path / "a", one)
    server.fail(CHAT, Failure(200), Failure(400, code="content_filter"))
    found = generate(docs, tmp_path / "b", one)
    assert found.excluded["documents that the endpoint refused"] == 1
    assert found.endpoint is not None
    assert len(found.endpoint.refused) == 1
    # What was refused is asked again another time.
    before = server.counted()["calls"]
    assert generate(docs, tmp_path / "b", one).new_queries == 1
    assert server.counted()["calls"] == before + 1
