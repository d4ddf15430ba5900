"""Dense ranking in LanceDB: tables in a folder, on an object store, or in its cloud."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from harness.errors import near
from harness.extensions.dense.exact_search import Vectors
from harness.extensions.dense.minilm import MiniLM
from harness.extensions.integrations.stores.vector_store import Found, VectorStore, numbered_rows
from harness.io.files import TemporaryFolder
from harness.io.masking import from_environment, refuse_address

INDEXES = ("none", "ivf_flat", "ivf_pq", "ivf_hnsw_sq")
LEAST_ROWS = 256
"""LanceDB trains no index on fewer."""


@dataclass(kw_only=True, eq=False, repr=False)
class Lance(VectorStore):
    """Dense ranking in LanceDB: a folder of its own, or `uri`; exact unless `index_type` is named.

    `uri`: a folder, an object store (s3://, gs://, az://) or LanceDB Cloud (db://, in `region`, its
    key from the environment variable that `api_key_env` names); empty, a temporary folder.
    `index_type`: none, ivf_flat, ivf_pq or ivf_hnsw_sq; a corpus of fewer than 256 documents has
    none. `nprobes` and `refine_factor` (0: not at all) are how far a search in an index looks.
    Scores are similarities: 1 minus LanceDB's distance, which is the cosine or the dot product.
    """

    title = "retriever 'lancedb'"
    modules: ClassVar[tuple[str, ...]] = ("lancedb", *MiniLM.modules)
    package = "lancedb"

    uri: str = ""
    api_key_env: str = "LANCEDB_API_KEY"
    region: str = "us-east-1"
    index_type: str = "none"
    nprobes: int = 20
    refine_factor: int = 0

    def __post_init__(self) -> None:
        if self.index_type not in INDEXES:
            close = near(self.index_type, list(INDEXES))
            raise ValueError(f"unknown index_type {self.index_type!r}{close}")
        super().__post_init__()
        import lancedb

        refuse_address(self.title, self.uri)
        if not self.uri:
            self._folder = TemporaryFolder("lancedb")
        options: dict[str, object] = {}
        if self.uri.startswith("db://"):
            options = {"api_key": from_environment(self.api_key_env), "region": self.region}
        self._database: Any = lancedb.connect(self.uri or self._folder.name, **options)

    def _make(self, name: str, dimension: int) -> Callable[[], object]:
        columns = {"position": pa.int32(), "vector": pa.list_(pa.float32(), dimension)}
        self._table: Any = self._database.create_table(name, schema=pa.schema(columns))
        return partial(self._database.drop_table, name)

    def _put(self, vectors: Vectors) -> None:
        self._table.add(numbered_rows(vectors))
        if self.index_type != "none" and len(vectors) >= LEAST_ROWS:
            self._table.create_index("vector", config=self._config())

    def _config(self) -> Any:
        from lancedb.index import HnswSq, IvfFlat, IvfPq

        kinds = {"ivf_flat": IvfFlat, "ivf_pq": IvfPq, "ivf_hnsw_sq": HnswSq}
        return kinds[self.index_type](distance_type=self.similarity)

    def _search(self, vectors: Vectors, k: int) -> list[Found]:
        query = self._table.search(vectors, vector_column_name="vector")
        query = query.distance_type(self.similarity).limit(k).nprobes(self.nprobes)
        if self.refine_factor:
            query = query.refine_factor(self.refine_factor)
        found = query.select(["position", "_distance"]).to_arrow()
        positions = found["position"].to_numpy().astype(np.int64)
        scores = 1 - found["_distance"].to_numpy().astype(np.float64)
        if len(vectors) == 1:  # the answer to a single question does not name it
            return [(positions, scores)]
        of_query = found["query_index"].to_numpy()
        mine = (of_query == number for number in range(len(vectors)))
        return [(positions[rows], scores[rows]) for rows in mine]
