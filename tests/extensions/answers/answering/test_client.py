"""Asking an endpoint: nothing is paid twice or lost, and the limit is kept before a call."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import orjson
import pytest
from openai_endpoint import CHAT, Chat, Failure, OpenAIEndpoint
from polling import HANGS

from harness.errors import RunError, UsageError
from harness.extensions.answers.answering.call_costs import CallBudget
from harness.extensions.answers.answering.client import ModelClient, RequestOptions
from harness.extensions.answers.answering.replies import (
    FILE,
    Call,
    ChatReply,
    ModelMessage,
    without_reasoning,
)
from harness.runs.usage import BudgetExceededError

MODEL = "gpt-4o-mini"


def _call(text: str, repeat: int = 0, **params: Any) -> Call:
    return Call(
        MODEL, (ModelMessage(role="user", content=text),), {"max_tokens": 5, **params}, repeat
    )


def _client(endpoint: OpenAIEndpoint, home: Path, **options: Any) -> ModelClient:
    return ModelClient(RequestOptions(MODEL, endpoint.url, **options), home)


def _echo(chat: Chat) -> str:
    return f"to {chat.text}"


def test_what_was_asked_once_is_never_asked_again(tmp_path: Path) -> None:
    calls = [_call("a"), _call("b"), _call("a"), _call("a", repeat=1), _call("a", temperature=1)]
    with OpenAIEndpoint(_echo) as endpoint:
        first = _client(endpoint, tmp_path)
        found = first.complete(calls)
        assert [one.reply.text for one in found] == ["to a", "to b", "to a", "to a", "to a"]
        assert len(endpoint.calls) == 4  # of the five two are the same
        assert first.usage().prompt_tokens == endpoint.counted()["prompt_tokens"]
        first.close()
        again = _client(endpoint, tmp_path)
        assert [one.new for one in again.complete(calls)] == [False] * 5
        assert (len(endpoint.calls), again.usage().calls) == (4, 0)
        again.close()
    with OpenAIEndpoint(_echo) as other:  # another address may be another model
        client = _client(other, tmp_path)
        assert client.complete(calls[:1])[0].new
        client.close()


@pytest.mark.parametrize(
    "failure",
    [
        Failure(500),
        Failure(429, retry_after=0.1),
        Failure(cut=True),
        Failure(body=b"<html>no JSON</html>"),
        Failure(body=b'{"choices": []}'),
        Failure(seconds=4.0),
    ],
    ids=["500", "429", "cut", "html", "no choice", "slow"],
)
def test_a_bad_moment_is_passed_over(tmp_path: Path, failure: Failure) -> None:
    with OpenAIEndpoint(_echo) as endpoint:
        endpoint.fail(CHAT, failure)
        client = _client(endpoint, tmp_path, timeout=2.0)
        assert client.complete([_call("a")])[0].reply.text == "to a"
        client.close()
        # An endpoint that knows the key of a call bills what was sent twice once.
        assert len(set(endpoint.bills)) == 1


@pytest.mark.parametrize(("status", "sent"), [(500, 2), (502, 2), (503, 1), (504, 2)])
def test_a_call_that_the_server_may_have_processed_counts_as_sent(
    tmp_path: Path, status: int, sent: int
) -> None:
    prices = {MODEL: {"prompt_tokens": 1e6, "completion_tokens": 1e6}}  # a dollar a token
    with OpenAIEndpoint(_echo) as endpoint:
        client = _client(endpoint, tmp_path, prices=prices, max_usd=1000.0)
        [plain] = client.complete([_call("a")])
        spent = client.usage().usd
        endpoint.fail(CHAT, Failure(status))
        [found] = client.complete([_call("b")])
        assert (plain.sent, found.sent) == (1, sent)
        assert spent is not None
        usd = client.usage().usd
        assert usd is not None
        assert (usd > 2 * spent) == (sent == 2)
        client.close()


def test_what_does_not_work_is_an_error_in_a_line_and_the_rest_is_kept(tmp_path: Path) -> None:
    with OpenAIEndpoint(_echo) as endpoint:
        client = _client(endpoint, tmp_path, retries=0, concurrency=1)
        client.complete([_call("a")])
        endpoint.fail(CHAT, Failure(500))
        with pytest.raises(RunError, match="status 500: asked to fail"):
            client.complete([_call("b"), _call("c")])
        endpoint.fail(CHAT, Failure(401))
        with pytest.raises(UsageError, match="the key in OPENAI_API_KEY"):
            client.complete([_call("b")])
        assert not client.complete([_call("a")])[0].new
        client.close()


@pytest.mark.parametrize(
    ("model", "refused"), [("gpt-5-mini", 0), ("o3", 0), ("our-deployment", 2), (MODEL, 2)]
)
def test_a_model_without_max_tokens_and_temperature_is_asked_as_it_must_be(
    tmp_path: Path, model: str, refused: int
) -> None:
    calls = [
        Call(model, _call(text).messages, {"max_tokens": 5, "temperature": 0}) for text in "ab"
    ]
    with OpenAIEndpoint(_echo) as endpoint:
        endpoint.refuses = {
            "max_tokens": "unsupported_parameter",
            "temperature": "unsupported_value",
        }
        client = ModelClient(RequestOptions(model, endpoint.url, concurrency=1), tmp_path)
        assert [one.reply.text for one in client.complete(calls)] == ["to a", "to b"]
        sent = [call.body for call in endpoint.calls]
        assert {one["max_completion_tokens"] for one in sent} == {8_005}
        assert not any("temperature" in one or "max_tokens" in one for one in sent)
        assert len(endpoint.requests) == 2 + refused
        client.close()


def test_other_models_get_the_parameters_as_they_are_and_a_chosen_temperature_is_never_dropped(
    tmp_path: Path,
) -> None:
    call = _call("a", temperature=0.7)
    with OpenAIEndpoint(_echo) as endpoint:
        client = _client(endpoint, tmp_path)
        client.complete([call, _call("b", temperature=0)])
        assert sorted(one.body["temperature"] for one in endpoint.calls) == [0, 0.7]
        assert all(one.body["max_tokens"] == 5 for one in endpoint.calls)
        endpoint.refuses = {"temperature": "unsupported_value"}
        with pytest.raises(UsageError, match="Unsupported: 'temperature'"):
            client.complete([_call("c", temperature=0.7)])
        client.close()


def test_an_address_of_azure_has_its_version_in_each_request_and_the_key_in_its_own_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "azure-key-1234")
    with OpenAIEndpoint(_echo) as endpoint:
        address = endpoint.url.replace("/v1", "/openai/deployments/small")
        client = ModelClient(RequestOptions(MODEL, f"{address}?api-version=2024-10-21"), tmp_path)
        assert client.complete([_call("a")])[0].reply.text == "to a"
        path, headers = endpoint.requests[0]
        assert path == "/openai/deployments/small/chat/completions?api-version=2024-10-21"
        assert (headers["api-key"], headers["Authorization"]) == ("azure-key-1234", None)
        assert client.address == f"{address}?api-version=2024-10-21"
        client.close()
        with pytest.raises(UsageError, match="must not hold"):
            ModelClient(RequestOptions(MODEL, f"{address}?api-version=1&key=x"), tmp_path)


def test_a_filter_is_no_answer_and_no_end(tmp_path: Path) -> None:
    with OpenAIEndpoint(_echo) as endpoint:
        endpoint.fail(CHAT, Failure(400, code="content_filter"))
        client = _client(endpoint, tmp_path, concurrency=1)
        first, second = client.complete([_call("a"), _call("b")])
        assert (first.reply.refused, second.reply.text) == ("asked to fail", "to b")
        assert client.complete([_call("a")])[0].reply.text == "to a"  # it was not paid: asked again
        client.close()


def test_the_limit_is_kept_before_a_call_whatever_comes_of_it(tmp_path: Path) -> None:
    prices = {MODEL: {"prompt_tokens": 1e6, "completion_tokens": 1e6}}  # a dollar a token
    calls = [_call(f"{n:04d}") for n in range(60)]  # at most 20 + 5 dollars, in truth 1 + 2
    with OpenAIEndpoint(_echo) as endpoint:
        endpoint.fail(CHAT, *[Failure(body=b"broken")] * 2, *[Failure(cut=True)] * 2)
        client = _client(endpoint, tmp_path, prices=prices, max_usd=220.0, concurrency=4)
        with pytest.raises(
            BudgetExceededError, match=r"--max-usd 220: .* USD are spent, and the next"
        ):
            client.complete(calls)
        client.close()
        counted = endpoint.counted()
        assert counted["prompt_tokens"] + counted["completion_tokens"] <= 220
        done = len(endpoint.calls)
        assert done > 20
        more = _client(endpoint, tmp_path, prices=prices, max_usd=400.0)
        assert sum(one.new for one in more.complete(calls)) == 60 - (done - 4)
        more.close()
    with pytest.raises(UsageError, match="has no price"):
        ModelClient(RequestOptions("some-model", "http://localhost:1/v1", max_usd=1.0), tmp_path)


def test_so_many_are_asked_at_once(tmp_path: Path) -> None:
    together = threading.Barrier(3, timeout=HANGS)

    def answer(chat: Chat) -> str:
        together.wait()
        return "all three are here"

    with OpenAIEndpoint(answer) as endpoint:
        client = _client(endpoint, tmp_path, concurrency=3)
        assert len(client.complete([_call(text) for text in "abc"])) == 3
        client.close()


def test_neither_key_nor_prompt_stands_in_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    with OpenAIEndpoint(_echo) as endpoint:
        client = _client(endpoint, tmp_path)
        client.complete([_call("a question of somebody's")])
        client.close()
    kept = b"".join(path.read_bytes() for path in tmp_path.glob(f"{FILE}*"))
    assert b"sk-very-secret" not in kept
    assert kept.count(b"a question of somebody's") == kept.count(b"to a question of somebody's")


def test_a_service_that_repeats_its_key_in_any_field_is_kept_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "canary-0123-secret"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    choice = {"message": {"content": f"with {key}"}, "finish_reason": f"stop-{key}"}
    usage = {"prompt_tokens": 2**40, "completion_tokens": -5}
    body = {"choices": [choice], "model": f"m-{key}", "usage": usage}
    with OpenAIEndpoint(_echo) as endpoint:
        endpoint.fail(CHAT, Failure(body=orjson.dumps(body)))
        client = _client(endpoint, tmp_path)
        reply = client.complete([_call("a")])[0].reply
        client.close()
    assert (reply.text, reply.finish_reason, reply.model) == ("with ***", "stop-***", "m-***")
    assert (reply.prompt_tokens, reply.completion_tokens) == (None, None)
    assert key.encode() not in b"".join(path.read_bytes() for path in tmp_path.glob(f"{FILE}*"))


def test_a_damaged_file_of_replies_is_told(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b"no database, " * 400)
    with OpenAIEndpoint(_echo) as endpoint, pytest.raises(UsageError, match="remove it"):
        _client(endpoint, tmp_path)


def test_a_reply_is_read_as_it_came(tmp_path: Path) -> None:
    body = {"choices": [{"message": {"content": None}, "finish_reason": "content_filter"}]}
    with OpenAIEndpoint(_echo) as endpoint:
        endpoint.fail(CHAT, Failure(body=orjson.dumps(body)))
        client = _client(endpoint, tmp_path)
        reply = client.complete([_call("a")])[0].reply
        client.close()
    assert (reply.text, reply.finish_reason, reply.prompt_tokens) == ("", "content_filter", None)


def test_a_budget_never_waits_without_open_reservations() -> None:
    """Sums of floats that cancel out leave a residue, which is no call."""
    for size in range(1, 200):
        budget = CallBudget(0.001)
        reserved = [n * 0.1 / 1_000_000 for n in (size + 17, 3 * size + 17, 24)]
        for amount in reserved:
            budget.reserve(amount)
        for amount in reserved:
            budget.settle(amount, 0.01)
        with pytest.raises(BudgetExceededError):
            budget.reserve(18 * 0.1 / 1_000_000)


def _replied(tmp_path: Path, **choice: Any) -> ChatReply:
    body = {"choices": [{"finish_reason": "stop", **choice}]}
    with OpenAIEndpoint(_echo) as endpoint:
        endpoint.fail(CHAT, Failure(body=orjson.dumps(body)))
        client = _client(endpoint, tmp_path, retries=0)
        try:
            return client.complete([_call("a")])[0].reply
        finally:
            client.close()


def test_the_parts_of_a_reply_are_joined_without_its_reasoning(tmp_path: Path) -> None:
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "not mentioned?"}]},
        {"type": "reasoning", "text": "I don't know"},
        {"type": "text", "text": "in "},
        {"type": "output_text", "text": "May"},
    ]
    reply = _replied(tmp_path, message={"content": parts})
    assert (reply.text, reply.error) == ("in May", None)


@pytest.mark.parametrize(
    ("choice", "error"),
    [
        (
            {"message": {"content": ""}, "finish_reason": "length"},
            "truncated at the token limit",
        ),
        ({"message": {"content": " \n"}}, "empty reply"),
        ({"message": {"content": [{"type": "image_url"}]}}, "empty reply"),
        (
            {"message": {"content": None, "refusal": "I cannot."}},
            "refused by the model: I cannot.",
        ),
        (
            {"message": {"content": [{"type": "refusal", "refusal": "I cannot."}]}},
            "refused by the model: I cannot.",
        ),
        ({"message": {"content": None, "tool_calls": []}}, "empty reply"),
    ],
)
def test_a_reply_without_a_text_is_a_failure_with_a_reason(
    tmp_path: Path, choice: dict[str, Any], error: str
) -> None:
    assert _replied(tmp_path, **choice).error == error


@pytest.mark.parametrize("content", [7, True, [["May"]]])
def test_a_content_that_is_no_text_is_no_reply(tmp_path: Path, content: object) -> None:
    with pytest.raises(RunError, match="content of a reply is no text"):
        _replied(tmp_path, message={"content": content})


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("<think>It is not mentioned.</think>May", "May"),
        ("It is not mentioned.</think>\nMay", "\nMay"),  # the prompt holds the opening tag
        ("<Thinking>a</Thinking>In <think>b</think>May", "In May"),
        ("<think>a<think>b</think>c</think>May", "May"),
        ("May<think>or June", "May"),
        ("[THINK]a[/THINK]May", "May"),
        ("<think>cut off", ""),
        ("May <b>2023</b>, I think", "May <b>2023</b>, I think"),
    ],
)
def test_reasoning_is_no_part_of_an_answer(text: str, answer: str) -> None:
    assert without_reasoning(text) == answer
