"""Dense ranking in Qdrant: its local mode, or a server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import sleep
from typing import Any, ClassVar

import numpy as np

from harness.extensions.dense.exact_search import Vectors
from harness.extensions.dense.minilm import MiniLM
from harness.extensions.integrations.stores.vector_store import Found, VectorStore
from harness.io.masking import from_environment, refuse_address
from harness.retrievers.server import reach

_NUMBERS_AT_ONCE = 400_000
"""Of vectors in a request: as JSON about 8 MB, where a server takes 32."""


@dataclass(kw_only=True, eq=False, repr=False)
class Qdrant(VectorStore):
    """Dense ranking in Qdrant: in this process, or on a server with `url`.

    Without `url` it is the client's local mode, which is exact whatever `exact` says. On a server,
    `exact=false` searches the HNSW graph: `m` and `ef_construct` build it, `hnsw_ef` is how far a
    search looks (0: the server's defaults). The key of a server is read from the environment
    variable that `api_key_env` names. Scores are Qdrant's: cosine or dot product.
    """

    title = "retriever 'qdrant'"
    modules: ClassVar[tuple[str, ...]] = ("qdrant_client", *MiniLM.modules)
    package = "qdrant-client"

    url: str = ""
    api_key_env: str = "QDRANT_API_KEY"
    exact: bool = True
    hnsw_ef: int = 0
    m: int = 0
    ef_construct: int = 0
    timeout: int = 60

    def __post_init__(self) -> None:
        super().__post_init__()
        from qdrant_client import QdrantClient, models

        distances = {"cosine": models.Distance.COSINE, "dot": models.Distance.DOT}
        self._distance = distances[self.similarity]
        self._graph = models.HnswConfigDiff(
            m=self.m or None, ef_construct=self.ef_construct or None
        )
        self._search_params: Any = None
        if self.url:
            self._search_params = models.SearchParams(
                exact=self.exact, hnsw_ef=self.hnsw_ef or None
            )
            refuse_address(self.title, self.url)
            key = from_environment(self.api_key_env)
            self._client: Any = QdrantClient(url=self.url, api_key=key, timeout=self.timeout)
            reach(self.title, self.url, self._client.get_collections)
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
            models.QueryRequest(query=vector, limit=k, params=self._search_params)
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
