"""Dense ranking in Chroma: in this process, or on its server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from harness.extensions.dense.exact_search import Vectors
from harness.extensions.dense.minilm import MiniLM
from harness.extensions.integrations.stores.vector_store import Found, VectorStore
from harness.io.masking import from_environment
from harness.retrievers.server import check_url, reach

_NUMBERS_AT_ONCE = 2_000_000
"""Of vectors in a request; a server refuses a request of more than 40 MB."""


@dataclass(kw_only=True, eq=False, repr=False)
class Chroma(VectorStore):
    """Dense ranking in Chroma: in this process, or on a server with `url`.

    Chroma always searches an HNSW graph: it is approximate, and as no graph is built twice alike,
    runs differ a little. `ef_search` is how far a search looks (as far as the corpus is large:
    exact in effect), `ef_construction` and `max_neighbors` build the graph; the defaults are
    Chroma's own. The token of a server is read from the environment variable that `api_key_env`
    names. Scores are similarities: 1 minus Chroma's distance, which is the cosine or the dot
    product.
    """

    title = "retriever 'chroma'"
    modules: ClassVar[tuple[str, ...]] = ("chromadb", *MiniLM.modules)
    package = "chromadb"

    url: str = ""
    api_key_env: str = "CHROMA_API_KEY"
    tenant: str = "default_tenant"
    database: str = "default_database"
    ef_search: int = 100
    ef_construction: int = 100
    max_neighbors: int = 16

    def __post_init__(self) -> None:
        super().__post_init__()
        self._graph = {
            "space": {"cosine": "cosine", "dot": "ip"}[self.similarity],
            "ef_search": self.ef_search,
            "ef_construction": self.ef_construction,
            "max_neighbors": self.max_neighbors,
        }
        self._client = self._connect()
        self._at_once = int(self._client.get_max_batch_size())

    def _connect(self) -> Any:
        import chromadb
        from chromadb.config import Settings

        settings = Settings(anonymized_telemetry=False)
        if not self.url:
            return chromadb.EphemeralClient(settings)
        parts = check_url(self.title, self.url)
        token = from_environment(self.api_key_env)
        https = parts.scheme == "https"
        return reach(
            self.title,
            self.url,
            lambda: chromadb.HttpClient(
                host=parts.hostname or "",
                port=parts.port or (443 if https else 8000),
                ssl=https,
                headers={"x-chroma-token": token} if token else None,
                settings=settings,
                tenant=self.tenant,
                database=self.database,
            ),
        )

    def _make(self, name: str, dimension: int) -> Callable[[], object]:
        # Without an embedding function of its own, which would fetch a model.
        self._collection = self._client.create_collection(
            name, configuration={"hnsw": self._graph}, embedding_function=None
        )
        return partial(self._client.delete_collection, name)

    def _put(self, vectors: Vectors) -> None:
        at_once = max(1, min(self._at_once, _NUMBERS_AT_ONCE // vectors.shape[1]))
        for start in range(0, len(vectors), at_once):
            part = vectors[start : start + at_once]
            ids = [str(position) for position in range(start, start + len(part))]
            self._collection.add(ids=ids, embeddings=part)

    def _search(self, vectors: Vectors, k: int) -> list[Found]:
        answer = self._collection.query(
            query_embeddings=vectors, n_results=k, include=["distances"]
        )
        return [
            (np.array(ids, np.int64), 1 - np.array(distances, np.float64))
            for ids, distances in zip(answer["ids"], answer["distances"], strict=True)
        ]
