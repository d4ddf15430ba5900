"""Dense ranking in Qdrant: its local mode, or a server."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import sleep
from typing import Any, ClassVar

import numpy as np

from harness.masking import from_environment, refuse_address
from harness.retrievers.exact_search import Vectors
from harness.retrievers.extras import need
from harness.retrievers.minilm import MiniLM
from harness.retrievers.stores.server import reach
from harness.retrievers.stores.vector_store import Found, VectorStore

_NUMBERS_AT_ONCE = 400_000
"""Of vectors in a request: as JSON about 8 MB, where a server takes 32."""


class Qdrant(VectorStore):
    """Dense ranking in Qdrant: in this process, or on a server with `url`.

    Without `url` it is the client's local mode, which is exact whatever `exact` says. On a server,
    `exact=false` searches the HNSW graph: `m` and `ef_construct` build it, `hnsw_ef` is how far a
    search looks (0: the server's defaults). The key of a server is read from the environment
    variable that `api_key_env` names. Scores are Qdrant's: cosine or dot product.
    """

    modules: ClassVar[tuple[str, ...]] = ("qdrant_client", *MiniLM.modules)
    package = "qdrant-client"

    def __init__(
        self,
        url: str = "",
        api_key_env: str = "QDRANT_API_KEY",
        similarity: str = "cosine",
        exact: bool = True,
        hnsw_ef: int = 0,
        m: int = 0,
        ef_construct: int = 0,
        timeout: int = 60,
        encoder: str = "minilm",
        model: str = "",
        revision: str = "",
        query_prompt: str | None = None,
        passage_prompt: str | None = None,
    ) -> None:
        need("retriever 'qdrant'", "qdrant_client")
        super().__init__(similarity, encoder, model, revision, query_prompt, passage_prompt)
        from qdrant_client import QdrantClient, models

        self._distance = {"cosine": models.Distance.COSINE, "dot": models.Distance.DOT}[similarity]
        self._graph = models.HnswConfigDiff(m=m or None, ef_construct=ef_construct or None)
        self._looking: Any = None
        if url:
            self._looking = models.SearchParams(exact=exact, hnsw_ef=hnsw_ef or None)
            refuse_address("retriever 'qdrant'", url)
            key = from_environment(api_key_env)
            self._client: Any = QdrantClient(url=url, api_key=key, timeout=timeout)
            reach("retriever 'qdrant'", url, self._client.get_collections)
        else:
            self._client = QdrantClient(":memory:")

    def _make(self, name: str, dimension: int) -> Callable[[], object]:
        from qdrant_client import models

        self._name = name
        shape = models.VectorParams(size=dimension, distance=self._distance)
        self._client.create_collection(name, vectors_config=shape, hnsw_config=self._graph)
        return partial(self._client.delete_collection, name)

    def _put(self, vectors: Vectors) -> None:
        from qdrant_client.models import CollectionStatus

        at_once = max(1, _NUMBERS_AT_ONCE // vectors.shape[1])
        ids = range(len(vectors))
        self._client.upload_collection(self._name, vectors, ids=ids, batch_size=at_once, wait=True)
        # What is searched is the finished graph, not a scan of what does not stand in it yet.
        while self._client.get_collection(self._name).status == CollectionStatus.YELLOW:
            sleep(0.1)

    def _search(self, vectors: Vectors, k: int) -> list[Found]:
        from qdrant_client import models

        requests = [
            models.QueryRequest(query=vector, limit=k, params=self._looking)
            for vector in vectors.tolist()
        ]
        answers = self._client.query_batch_points(self._name, requests)
        return [
            (
                np.array([point.id for point in answer.points], np.int64),
                np.array([point.score for point in answer.points], np.float64),
            )
            for answer in answers
        ]
