"""Zep, and so Graphiti as a service: dated facts between entities, in one graph per user.

    harness run --dataset sample --retriever examples/systems/hosted_zep.py:ZepGraph
        --param api_key=env:ZEP_API_KEY --max-usd 2 --param usd_per_call=0.001

REST API v2, as in Zep's client zep-cloud 3.21.0: POST /users and /graph (an episode; GET
/graph/episodes/UUID tells whether it is processed), POST /graph/search, DELETE /users/ID.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from hosted_memory import HostedMemory, iso_date, line

from harness import Hit
from harness.retrievers.contract import Corpus, Question

MOST = 50
"""Maximum number of facts in an answer of Zep."""

EPISODE, QUERY = 10_000, 400
"""Maximum number of characters of an episode and of a query: Zep rejects longer ones."""


class ZepGraph(HostedMemory):
    """A user's graph per haystack; an episode is a turn, or as much of a session as Zep accepts.

    Longer turns are divided, and of longer queries the end is sent, where most questions are.
    """

    ranked_by = "order"  # Zep does not say that its scores decrease

    def __init__(
        self,
        api_key: str,
        url: str = "https://api.getzep.com/api/v2",
        batch: str = "turn",
        usd_per_call: float = 0.0,
    ) -> None:
        super().__init__(url, f"Api-Key {api_key}", batch, usd_per_call)

    def index(self, corpus: Corpus) -> None:
        """Deletes the graph of an earlier run of this name, then sends all episodes."""
        self._user, self._pending = corpus.namespace, []
        self._source: dict[str, str] = {}
        self.call("DELETE", "users", self._user, paid=False)
        self.call("POST", "users", body={"user_id": self._user}, paid=False)
        for turns, source in self.batches(corpus):
            for text in episodes([line(turn) for turn in turns]):
                body = {
                    "user_id": self._user,
                    "type": "message",
                    "data": text,
                    **iso_date(turns[0]),
                }
                episode = self.call("POST", "graph", body=body, once=True)
                self._source[episode["uuid"]] = source
                self._pending.append(episode["uuid"])

    def recall(self, query: Question, k: int) -> list[Hit]:
        """Returns the facts (edges) of the graph, and the episodes that each came from."""
        body = {
            "user_id": self._user,
            "query": query.text[-QUERY:],
            "scope": "edges",
            "limit": min(k, MOST),
        }
        edges = self.call("POST", "graph/search", body=body).get("edges") or []
        return [
            Hit(edge["fact"], [self._source.get(one, one) for one in edge.get("episodes") or []])
            for edge in edges
        ]

    def is_done(self, pending: str) -> bool:
        """Returns whether an episode is part of the graph."""
        return bool(self.call("GET", "graph/episodes", pending, paid=False)["processed"])


def episodes(lines: Iterable[str]) -> Iterator[str]:
    """Joins lines, in order, into texts of at most EPISODE characters; longer lines are divided."""
    text = ""
    for one in lines:
        for start in range(0, len(one) or 1, EPISODE):
            part = one[start : start + EPISODE]
            if text and len(text) + 1 + len(part) > EPISODE:
                yield text
                text = ""
            text = f"{text}\n{part}" if text else part
    if text:
        yield text
