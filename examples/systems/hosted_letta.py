"""Letta: passages in an archive, the archival memory of its agents, searched by vectors.

    harness run --dataset sample --retriever examples/systems/hosted_letta.py:LettaArchive
        --param api_key=env:LETTA_API_KEY --max-usd 2 --param usd_per_call=0.001

REST API v1, as in Letta's client letta-client 1.12.1: POST /v1/archives/ and
/v1/archives/ID/passages/batch, POST /v1/passages/search, GET and DELETE /v1/archives/.
"""

from __future__ import annotations

from hosted_memory import HostedMemory, iso_date, line

from harness import Hit
from harness.retrievers.contract import Corpus, Question

AT_ONCE = 100
"""Passages in a request."""


class LettaArchive(HostedMemory):
    """An archive per haystack; a passage is a turn or a session, unchanged.

    `embedding` names Letta's embedding model; empty: the server's default.
    """

    ranked_by = "order"  # Letta does not say that its scores decrease

    def __init__(
        self,
        api_key: str,
        url: str = "https://api.letta.com",
        batch: str = "turn",
        embedding: str = "",
        usd_per_call: float = 0.0,
    ) -> None:
        super().__init__(url, f"Bearer {api_key}", batch, usd_per_call)
        self._embedding = {"embedding": embedding} if embedding else {}

    def index(self, corpus: Corpus) -> None:
        """Deletes the archive of an earlier run of this name, then sends all passages."""
        name = corpus.namespace
        for old in self.call("GET", "v1/archives/", query={"name": name}, paid=False):
            self.call("DELETE", "v1/archives", old["id"], paid=False)
        made = self.call("POST", "v1/archives/", body={"name": name, **self._embedding}, once=True)
        self._archive = made["id"]
        passages = []
        for turns, source in self.batches(corpus):
            text = "\n".join(map(line, turns))
            passages.append({"text": text, "metadata": {"source": source}, **iso_date(turns[0])})
            if len(passages) == AT_ONCE:
                self._send(passages)
                passages = []
        if passages:
            self._send(passages)

    def recall(self, query: Question, k: int) -> list[Hit]:
        """Returns passages, and the turn or session of each."""
        body = {"archive_id": self._archive, "query": query.text, "limit": k}
        found = self.call("POST", "v1/passages/search", body=body)
        passages = [one["passage"] for one in found]
        return [
            Hit(one["text"], [(one.get("metadata") or {}).get("source", "")]) for one in passages
        ]

    def is_done(self, pending: str) -> bool:
        """Returns true: Letta embeds a passage before it answers."""
        return True

    def _send(self, passages: list[dict[str, object]]) -> None:
        path = ("v1/archives", self._archive, "passages/batch")
        self.call("POST", *path, body={"passages": passages}, once=True)
