"""A small real server on loopback with the REST shapes of four hosted memories.

    with HostedStub() as stub:
        stub.url, stub.log                # each request: method, path, user, body
        stub.refuse_every = 5             # every fifth request gets 429 with Retry-After

It finds texts by the share of the question's words that they have. What a user sent can be found
only after it was asked for twice. mem0's facts are messages, those of the others are lines.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, urlsplit

from loopback import LocalServer

POLLS = 2
Json = dict[str, Any]


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def share(question: str, text: str) -> float:
    """The share of the question's words that are in the text."""
    asked = words(question)
    return len(asked & words(text)) / max(1, len(asked))


@dataclass
class Item:
    """Something that was sent, and its facts."""

    id: str
    facts: list[str]
    metadata: Json
    created: Any = None


@dataclass
class Space:
    """What a user, a graph, an archive or a container tag has, and how often it was polled."""

    items: dict[str, Item] = field(default_factory=dict)
    polled: int = 0

    def best(self, question: str, k: int) -> list[tuple[str, Item, float]]:
        assert not self.items or self.polled >= POLLS, "searched too early"
        found = [
            (fact, item, share(question, fact))
            for item in self.items.values()
            for fact in item.facts
        ]
        return sorted(found, key=lambda one: -one[2])[:k]


class HostedStub(LocalServer):
    """The server."""

    def __init__(self) -> None:
        self.spaces: defaultdict[str, Space] = defaultdict(Space)
        self.log: list[tuple[str, str, Any]] = []
        self.tokens: set[str] = set()
        self.refuse_every = 0
        self._requests = 0
        self._space_of: dict[str, Space] = {}
        self._lock = Lock()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 1 << 16

            def answer(self) -> None:
                size = int(self.headers["Content-Length"] or 0)
                body = json.loads(self.rfile.read(size)) if size else {}
                stub.tokens.add(self.headers["Authorization"])
                with stub._lock:
                    status, value = stub.reply(self.command, self.path, body)
                data = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                if status == 429:
                    self.send_header("Retry-After", "0.01")
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = do_DELETE = answer  # noqa: N815

            def log_message(self, *_: Any) -> None:
                pass

        super().__init__(Handler)

    def reply(self, method: str, path: str, body: Json) -> tuple[int, Any]:
        self._requests += 1
        if self.refuse_every and self._requests % self.refuse_every == 0:
            return 429, {"error": "slow down"}
        address = urlsplit(path)
        self.log.append((method, address.path, body))
        query = {name: values[0] for name, values in parse_qs(address.query).items()}
        for pattern, route in ROUTES:
            if found := re.fullmatch(pattern, f"{method} {address.path}"):
                return route(self, body or query, *found.groups())
        return 400, {"error": f"no such request: {method} {path}"}

    def add(
        self, space: str, facts: list[str], metadata: Json, created: Any, id_: str = ""
    ) -> Item:
        item = Item(id_ or f"item-{len(self._space_of)}", facts, metadata, created)
        self._space_of[item.id] = self.spaces[space]
        self._space_of[item.id].items[item.id] = item
        return item

    def poll(self, id_: str) -> bool:
        self._space_of[id_].polled += 1
        return self._space_of[id_].polled >= POLLS


def _mem0_add(stub: HostedStub, body: Json) -> tuple[int, Any]:
    facts = [message["content"] for message in body["messages"]]
    item = stub.add(body["user_id"], facts, body["metadata"], body.get("timestamp"))
    return 200, {"event_id": item.id, "status": "PENDING"}


def _mem0_event(stub: HostedStub, _: Json, id_: str) -> tuple[int, Any]:
    done = id_ == "deleted" or stub.poll(id_)
    return 200, {"id": id_, "status": "SUCCEEDED" if done else "RUNNING"}


def _mem0_delete(stub: HostedStub, query: Json) -> tuple[int, Any]:
    stub.spaces.pop(query["user_id"], None)
    return 200, {"message": "Delete in progress.", "event_id": "deleted"}


def _mem0_search(stub: HostedStub, body: Json) -> tuple[int, Any]:
    found = stub.spaces[body["filters"]["user_id"]].best(body["query"], body["top_k"])
    results = [
        {"id": item.id, "memory": fact, "score": score, "metadata": item.metadata}
        for fact, item, score in found
        if score >= body["threshold"]
    ]
    return 200, {"results": results}


def _zep_user(stub: HostedStub, body: Json) -> tuple[int, Any]:
    stub.spaces[body["user_id"]] = Space()
    return 201, {"user_id": body["user_id"]}


def _zep_add(stub: HostedStub, body: Json) -> tuple[int, Any]:
    if body["user_id"] not in stub.spaces:
        return 400, {"message": "no such user"}
    if not 0 < len(body["data"]) <= 10_000:
        return 400, {"message": "data must have 1 to 10000 characters"}
    item = stub.add(body["user_id"], body["data"].split("\n"), {}, body.get("created_at"))
    return 202, {"uuid": item.id, "content": body["data"], "processed": False}


def _zep_search(stub: HostedStub, body: Json) -> tuple[int, Any]:
    assert (body["scope"], body["limit"] <= 50) == ("edges", True)
    if len(body["query"]) > 400:
        return 400, {"message": "query is longer than 400 characters"}
    found = stub.spaces[body["user_id"]].best(body["query"], body["limit"])
    edges = [{"uuid": "e", "fact": fact, "episodes": [item.id]} for fact, item, _ in found]
    return 200, {"edges": edges, "nodes": None}


def _letta_batch(stub: HostedStub, body: Json, archive: str) -> tuple[int, Any]:
    for one in body["passages"]:
        stub.add(archive, [one["text"]], one["metadata"], one.get("created_at"))
    stub.spaces[archive].polled = POLLS
    return 200, []


def _letta_search(stub: HostedStub, body: Json) -> tuple[int, Any]:
    found = stub.spaces[body["archive_id"]].best(body["query"], body["limit"])
    return 200, [
        {"passage": {"text": fact, "metadata": item.metadata}, "score": score}
        for fact, item, score in found
    ]


def _letta_create(stub: HostedStub, body: Json) -> tuple[int, Any]:
    id_ = f"archive-{body['name']}"
    stub.spaces[id_] = Space()
    return 200, {"id": id_, "name": body["name"]}


def _letta_list(stub: HostedStub, query: Json) -> tuple[int, Any]:
    id_ = f"archive-{query['name']}"
    return 200, [{"id": id_, "name": query["name"]}] if id_ in stub.spaces else []


def _super_add(stub: HostedStub, body: Json) -> tuple[int, Any]:
    tag = body["containerTag"]
    if not re.fullmatch(r"[\w-]{1,100}", tag) or not re.fullmatch(
        r"[\w-]{1,100}", body["customId"]
    ):
        return 400, {"error": "invalid containerTag or customId"}
    lines = [one for one in body["content"].split("\n") if not re.fullmatch(r"\[[\d :-]+\]", one)]
    date = next((one for one in body["content"].split("\n") if one not in lines), None)
    item = stub.add(tag, lines, body["metadata"], date, body["customId"])
    return 200, {"id": item.id, "status": "queued"}


def _super_search(stub: HostedStub, body: Json) -> tuple[int, Any]:
    found = stub.spaces[body["containerTag"]].best(body["q"], body["limit"])
    results = [
        {"id": "m", "memory": fact, "similarity": score, "documents": [{"id": item.id}]}
        for fact, item, score in found
    ]
    return 200, {"results": results, "timing": 1, "total": len(results)}


def _gone(stub: HostedStub, _: Json, id_: str) -> tuple[int, Any]:
    return (200, {}) if stub.spaces.pop(id_, None) else (404, {"message": "not found"})


ROUTES: list[tuple[str, Callable[..., tuple[int, Any]]]] = [
    (r"POST /v3/memories/add/", _mem0_add),
    (r"GET /v1/event/(.+)/", _mem0_event),
    (r"DELETE /v1/memories/", _mem0_delete),
    (r"POST /v3/memories/search/", _mem0_search),
    (r"DELETE /users/(.+)", _gone),
    (r"POST /users", _zep_user),
    (r"POST /graph", _zep_add),
    (r"GET /graph/episodes/(.+)", lambda stub, _, id_: (200, {"processed": stub.poll(id_)})),
    (r"POST /graph/search", _zep_search),
    (r"GET /v1/archives/", _letta_list),
    (r"POST /v1/archives/", _letta_create),
    (r"DELETE /v1/archives/(.+)", _gone),
    (r"POST /v1/archives/(.+)/passages/batch", _letta_batch),
    (r"POST /v1/passages/search", _letta_search),
    (r"POST /v3/documents", _super_add),
    (
        r"GET /v3/documents/(.+)",
        lambda stub, _, id_: (200, {"status": "done" if stub.poll(id_) else "indexing"}),
    ),
    (r"POST /v4/search", _super_search),
]
