"""Supermemory: memories that it extracts from documents, and the documents' chunks.

    harness run --dataset sample --retriever examples/systems/hosted_supermemory.py:Supermemory
        --param api_key=env:SUPERMEMORY_API_KEY --max-usd 2 --param usd_per_call=0.001

REST API as in Supermemory's documentation (OpenAPI 3.0.0) and the types of its Python client:
POST /v3/documents (queued; GET /v3/documents/ID has the status), POST /v4/search.
"""

from __future__ import annotations

from hosted_memory import HostedMemory, line

from harness import Hit
from harness.retrievers.contract import Corpus, Question
from harness.schema import as_datetime


class Supermemory(HostedMemory):
    """A container tag per haystack; a document is a turn or a session, with its date in the text.

    `mode`: search memories, documents (their chunks) or both (hybrid).
    """

    def __init__(
        self,
        api_key: str,
        url: str = "https://api.supermemory.ai",
        batch: str = "session",
        mode: str = "hybrid",
        usd_per_call: float = 0.0,
    ) -> None:
        super().__init__(url, f"Bearer {api_key}", batch, usd_per_call)
        self._mode = mode

    def index(self, corpus: Corpus) -> None:
        """Sends all documents; one that an earlier run of this name sent is replaced."""
        self._tag, self._pending = corpus.namespace, []
        self._source: dict[str, str] = {}
        for turns, source in self.batches(corpus):
            lines = [line(turn) for turn in turns]
            if turns[0].timestamp is not None:
                lines.insert(0, f"[{as_datetime(turns[0].timestamp)}]")
            body = {
                "content": "\n".join(lines),
                "containerTag": self._tag,
                "customId": f"{self._tag}-{source}",  # the same one is never stored twice
                "metadata": {"source": source},
            }
            sent = self.call("POST", "v3/documents", body=body)["id"]
            self._source[sent] = source
            self._pending.append(sent)

    def recall(self, query: Question, k: int) -> list[Hit]:
        """Returns memories and chunks with their similarity, and the documents of each."""
        body = {
            "q": query.text,
            "containerTag": self._tag,
            "searchMode": self._mode,
            "limit": k,
            "include": {"documents": True},
        }
        found = self.call("POST", "v4/search", body=body)["results"]
        return [
            Hit(
                one.get("memory") or one.get("chunk") or "",
                [self._source.get(d["id"], d["id"]) for d in one.get("documents") or []],
                one["similarity"],
            )
            for one in found
        ]

    def is_done(self, pending: str) -> bool:
        """Returns whether a document can be found. Raises RuntimeError if it failed."""
        status = self.call("GET", "v3/documents", pending, paid=False)["status"]
        if status == "failed":
            raise RuntimeError(f"Supermemory could not process document {pending}")
        return bool(status == "done")
