"""A small real HTTP server on loopback that speaks /v1/chat/completions and /v1/embeddings.

    with OpenAIEndpoint(answer) as endpoint:
        endpoint.url                      # what OPENAI_BASE_URL is set to
        endpoint.calls                    # what was asked and what was counted, in order
        endpoint.fail("/v1/embeddings", Failure(500))

`answer(chat)` gives the text of a completion, and so says what the "model" knows; the same question
has the same answer. A vector counts the words of a text in 96 bins, so texts that share words are
near each other. A token is a run of word characters or one other mark.
"""

from __future__ import annotations

import json
import re
import socket
import sys
import time
import zlib
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any

from loopback import LocalServer

CHAT, EMBEDDINGS = "/v1/chat/completions", "/v1/embeddings"
DIMENSION = 96


@dataclass(frozen=True)
class Chat:
    """A chat request: its messages, and the name of the JSON schema that it asks for, if any."""

    messages: list[dict[str, Any]]
    schema: str

    @property
    def text(self) -> str:
        return "\n".join(str(message["content"]) for message in self.messages)

    def between(self, start: str, end: str) -> str:
        """What the last message says from `start` to `end`."""
        return str(self.messages[-1]["content"]).partition(start)[2].partition(end)[0].strip()


@dataclass(frozen=True)
class Failure:
    """What goes wrong with one request: an error status with an error of its own, another text or
    a whole other body, a connection that is cut (after it was billed), or seconds of silence."""

    status: int = 200
    text: str | None = None
    seconds: float = 0.0
    body: bytes | None = None
    retry_after: float | None = None
    code: str = ""
    cut: bool = False
    finish: str = "stop"


@dataclass(frozen=True)
class Call:
    """One request that was answered, and the tokens that were said to be used."""

    path: str
    body: dict[str, Any]
    prompt_tokens: int
    completion_tokens: int = 0


class OpenAIEndpoint(LocalServer):
    """The server."""

    def __init__(self, answer: Callable[[Chat], str] = lambda chat: "", usage: bool = True) -> None:
        self.answer = answer
        self.usage = usage  # whether answers say how many tokens were used
        self.calls: list[Call] = []
        self.failures: dict[str, list[Failure]] = defaultdict(list)
        self.refuses: dict[str, str] = {}  # parameters that the model lacks, and the code of that
        self.requests: list[tuple[str, Message]] = []  # path and headers of each, as they came
        self.bills: list[str] = []  # the Idempotency-Key of each call that was billed, where given
        self._lock = Lock()
        endpoint = self

        class Bound(_Handler):
            of = endpoint

        super().__init__(Bound, _Server)

    @property
    def url(self) -> str:
        return f"{super().url}/v1"

    def fail(self, path: str, *failures: Failure) -> None:
        """Let the next requests for `path` go wrong, one after the other."""
        with self._lock:
            self.failures[path].extend(failures)

    def chats(self) -> list[Chat]:
        """The chat requests so far."""
        return [_chat(call.body) for call in self.calls if call.path == CHAT]

    def counted(self) -> dict[str, int]:
        """What was said to be used so far, by the names that a retriever reports."""
        chat = [call for call in self.calls if call.path == CHAT]
        embedding = [call for call in self.calls if call.path == EMBEDDINGS]
        return {
            "calls": len(chat),
            "prompt_tokens": sum(call.prompt_tokens for call in chat),
            "completion_tokens": sum(call.completion_tokens for call in chat),
            "embedding_calls": len(embedding),
            "embedded_tokens": sum(call.prompt_tokens for call in embedding),
        }

    def reply(
        self, path: str, body: dict[str, Any], key: str | None = None
    ) -> tuple[int, bytes, Failure]:
        """Status and body of the answer to one request, and what goes wrong with it."""
        with self._lock:
            queue = self.failures[path]
            failure = queue.pop(0) if queue else Failure()
        for name, code in self.refuses.items():
            if name in body:
                error = {"message": f"Unsupported: '{name}'", "code": code, "param": name}
                return 400, json.dumps({"error": error}).encode(), failure
        time.sleep(failure.seconds)
        if failure.status != 200:
            said = {"error": {"message": "asked to fail", "code": failure.code or None}}
            return failure.status, json.dumps(said).encode(), failure
        call, answer = self._chat(body, failure) if path == CHAT else _embed(body)
        with self._lock:
            self.calls.append(call)
            if key is not None:
                self.bills.append(key)
        if failure.body is not None:
            return 200, failure.body, failure
        if self.usage:
            answer["usage"] = {
                "prompt_tokens": call.prompt_tokens,
                "completion_tokens": call.completion_tokens,
                "total_tokens": call.prompt_tokens + call.completion_tokens,
            }
        return 200, json.dumps(answer).encode(), failure

    def _chat(self, body: dict[str, Any], failure: Failure) -> tuple[Call, dict[str, Any]]:
        chat = _chat(body)
        text = self.answer(chat) if failure.text is None else failure.text
        message = {"role": "assistant", "content": text}
        answer = {
            "id": "chat",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [{"index": 0, "finish_reason": failure.finish, "message": message}],
        }
        return Call(CHAT, body, tokens(chat.text), tokens(text)), answer


class _Server(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that is killed cuts its request off, and nobody waits for an answer.
        if not isinstance(sys.exception(), OSError | json.JSONDecodeError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each body would wait 40 ms for its headers to be confirmed
    of: OpenAIEndpoint

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = self.headers.get("Idempotency-Key")
        self.of.requests.append((self.path, self.headers))
        path = CHAT if self.path.partition("?")[0].endswith("/chat/completions") else self.path
        status, answer, failure = self.of.reply(path, body, key)
        if failure.cut:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        try:
            self.send_response(status)
            if failure.retry_after is not None:
                self.send_header("Retry-After", str(failure.retry_after))
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)
        except OSError:  # the client has gone
            self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


def tokens(text: str) -> int:
    """How many tokens a text has."""
    return len(re.findall(r"\w+|[^\w\s]", text))


def vector(text: str) -> list[float]:
    """How often the words of a text fall into each bin; never all zero."""
    bins = [0.0] * DIMENSION
    for word in re.findall(r"\w+", text.lower()) or ["."]:
        bins[zlib.crc32(word.encode()) % DIMENSION] += 1.0
    return bins


def _chat(body: dict[str, Any]) -> Chat:
    wanted = body.get("response_format") or {}
    return Chat(body["messages"], wanted.get("json_schema", {}).get("name", ""))


def _embed(body: dict[str, Any]) -> tuple[Call, dict[str, Any]]:
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    data = [
        {"object": "embedding", "index": i, "embedding": vector(text)}
        for i, text in enumerate(texts)
    ]
    answer = {"object": "list", "model": body["model"], "data": data}
    return Call(EMBEDDINGS, body, sum(tokens(text) for text in texts)), answer
