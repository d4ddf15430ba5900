"""mem0's platform: facts that a model extracts from dated turns or sessions, of one user each.

    harness run --dataset sample --retriever examples/systems/hosted_mem0.py:Mem0Platform
        --param api_key=env:MEM0_API_KEY --param usd_per_call=0.001 --max-usd 2

REST API as in mem0's OpenAPI file ("v1") and its client mem0ai 2.0.18: POST /v3/memories/add/
(queued; GET /v1/event/ID/ tells when it is done), POST /v3/memories/search/, DELETE /v1/memories/.
"""

from __future__ import annotations

from time import sleep
from typing import Any

from hosted_memory import HostedMemory, line

from harness import Hit
from harness.retrievers.contract import Corpus, Question


class Mem0Platform(HostedMemory):
    """A user of mem0's platform per haystack. `infer=false` stores the turns unchanged.

    `threshold` is the minimum score of a fact.
    """

    def __init__(
        self,
        api_key: str,
        url: str = "https://api.mem0.ai",
        batch: str = "session",
        infer: bool = True,
        threshold: float = 0.1,
        usd_per_call: float = 0.0,
    ) -> None:
        super().__init__(url, f"Token {api_key}", batch, usd_per_call)
        self._infer, self._threshold = infer, threshold

    def index(self, corpus: Corpus) -> None:
        """Deletes the facts of an earlier run of this name, then sends all turns."""
        self._user = corpus.namespace
        deleted = self.call("DELETE", "v1/memories/", query={"user_id": self._user}, paid=False)
        self._pending = _events(deleted)
        while not self.ready():
            sleep(1)
        for turns, source in self.batches(corpus):
            body: dict[str, Any] = {
                "messages": [{"role": _role(t.speaker), "content": line(t)} for t in turns],
                "user_id": self._user,
                "metadata": {"source": source},
                "infer": self._infer,
            }
            if turns[0].timestamp is not None:
                body["timestamp"] = turns[0].timestamp
            self._pending += _events(self.call("POST", "v3/memories/add/", body=body, once=True))

    def recall(self, query: Question, k: int) -> list[Hit]:
        """Returns facts with mem0's scores, and the turn or session that each was sent with."""
        body = {
            "query": query.text,
            "filters": {"user_id": self._user},
            "top_k": k,
            "threshold": self._threshold,
        }
        if query.timestamp is not None:
            body["reference_date"] = query.timestamp
        found = self.call("POST", "v3/memories/search/", body=body)["results"]
        return [
            Hit(one["memory"], [(one.get("metadata") or {}).get("source", "")], one.get("score"))
            for one in found
        ]

    def is_done(self, pending: str) -> bool:
        """Returns whether an event has succeeded. Raises RuntimeError if it failed."""
        event = self.call("GET", "v1/event", pending, "", paid=False)
        if event["status"] == "FAILED":
            raise RuntimeError(f"mem0 could not process a message: {event.get('error')}")
        return bool(event["status"] == "SUCCEEDED")


def _events(answer: Any) -> list[str]:
    """Returns the id of the event that an answer announces; none if all is done already."""
    waits = answer and answer.get("event_id") and answer.get("status") != "SUCCEEDED"
    return [answer["event_id"]] if waits else []


def _role(speaker: str | None) -> str:
    return "assistant" if speaker == "assistant" else "user"
