"""Vector stores as retrievers: Chroma, DuckDB, LanceDB, Qdrant."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from time import sleep
from typing import Any, ClassVar
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.errors import suggest
from harness.extensions.dense.dense import MODEL, Dense
from harness.extensions.dense.embedder import VectorRetriever
from harness.extensions.dense.exact_search import Vectors
from harness.extensions.dense.minilm import PACKAGED, MiniLM
from harness.io.files import TemporaryFolder
from harness.io.masking import from_environment, refuse_address
from harness.io.packages import require_packages
from harness.retrievers.contract import Corpus, Question, Result
from harness.retrievers.locks import check_url, reach

Positions = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]
Found = tuple[Positions, Scores]
"""Results of one query: positions in the corpus and similarities, both of shape (n,)."""


@dataclass(kw_only=True, eq=False, repr=False)
class VectorStore:
    """Base of retrievers that search vectors in a store.

    The vectors are those of minilm or dense, from the same cache. Each corpus has a collection with
    a new name, which is deleted before the next corpus, on `close()`, and at the latest when the
    process ends. Subclasses create, fill and search it.

    `encoder`: minilm or dense; `model`: empty for the default of the encoder. A prompt of None is
    that of the model. `similarity`: cosine or dot.
    """

    batch_size = 256
    title: ClassVar[str]
    """Name in messages."""
    modules: ClassVar[tuple[str, ...]]
    """Required modules, the store's first."""
    package: ClassVar[str]
    """Distribution with the reported version."""

    similarity: str = "cosine"
    encoder: str = "minilm"
    model: str = ""
    revision: str = ""
    query_prompt: str | None = None
    passage_prompt: str | None = None

    def __post_init__(self) -> None:
        """Raises UsageError without the store's package, ValueError for an unknown encoder."""
        require_packages(self.title, self.modules[0])
        options = {
            "revision": self.revision,
            "query_prompt": self.query_prompt,
            "passage_prompt": self.passage_prompt,
            "similarity": self.similarity,
        }
        if self.encoder == "minilm":
            self._texts: VectorRetriever = MiniLM(self.model or PACKAGED, **options)
        elif self.encoder == "dense":
            self._texts = Dense(self.model or MODEL, **options)
        else:
            raise ValueError(f"encoder must be minilm or dense, not {self.encoder!r}")
        self._store = f"{self.package} {version(self.package)}"
        self.revision = f"{self._texts.revision}, {self._store}"
        self._remove: Callable[[], object] | None = None
        self._size = 0

    def index(self, corpus: Corpus) -> None:
        """Embeds new documents and stores all vectors in a new collection."""
        self.close()
        vectors = self._texts.of_passages(corpus.contents)
        if len(vectors):
            remove = self._make(f"harness-{uuid4().hex}", vectors.shape[1])
            # Also delete it when the process ends without close().
            self._remove = weakref.finalize(self, remove)
            self._put(vectors)
        self._size = len(vectors)

    def search(self, queries: Sequence[Question], k: int) -> list[Result]:
        """Returns the k nearest documents per query, best first; ties are in corpus order."""
        wanted = min(k, self._size)
        if wanted < 1:
            return [Result([], []) for _ in queries]
        vectors = self._texts.of_questions([query.text for query in queries])
        return [_best_first(*found) for found in self._search(vectors, wanted)]

    def report(self) -> dict[str, object]:
        """Returns the model, the savings of the cache, and the version of the store's package."""
        return {**self._texts.report(), "store": self._store}

    def close(self) -> None:
        """Deletes the collection."""
        self._size = 0
        if self._remove is not None:
            self._remove()
            self._remove = None

    def _make(self, name: str, dimension: int) -> Callable[[], object]:
        """Creates an empty collection; returns a clean-up function without a link to self."""
        raise NotImplementedError

    def _put(self, vectors: Vectors) -> None:
        """Stores vectors of shape (n, d) under the ids 0 to n - 1."""
        raise NotImplementedError

    def _search(self, vectors: Vectors, k: int) -> list[Found]:
        """Returns the k most similar documents per query, in any order."""
        raise NotImplementedError


def numbered_rows(vectors: Vectors, number: str = "position") -> pa.Table:
    """Returns vectors of shape (n, d) as rows, with their index in the column `number`."""
    flat = pa.array(np.ascontiguousarray(vectors).ravel())
    columns = {
        number: pa.array(np.arange(len(vectors), dtype=np.int32)),
        "vector": pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1]),
    }
    return pa.table(columns)


def _best_first(positions: Positions, scores: Scores) -> Result:
    order = np.lexsort((positions, -scores))
    return Result(positions[order], scores[order])


_CHROMA_NUMBERS = 2_000_000
"""Vector elements per request; a server rejects requests of more than 40 MB."""


@dataclass(kw_only=True, eq=False, repr=False)
class Chroma(VectorStore):
    """Dense ranking in Chroma: in this process, or on a server with `url`.

    Chroma always searches an HNSW graph. Results are approximate and vary slightly between runs,
    because graph construction is not deterministic. `ef_search` is the search width (the corpus
    size makes it exact in effect), `ef_construction` and `max_neighbors` control graph
    construction; the defaults are Chroma's. The server token is read from the environment variable
    named by `api_key_env`. Scores are similarities: 1 minus Chroma's distance, i.e. the cosine or
    the dot product.
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
        # The default embedding function would download a model.
        self._collection = self._client.create_collection(
            name, configuration={"hnsw": self._graph}, embedding_function=None
        )
        return partial(self._client.delete_collection, name)

    def _put(self, vectors: Vectors) -> None:
        at_once = max(1, min(self._at_once, _CHROMA_NUMBERS // vectors.shape[1]))
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


# The inner product also gives the cosine, because vectors have length 1 (zero vectors, for which
# DuckDB's cosine is NaN, stay zero). Ties: lower position first.
_DUCKDB_SEARCH = """
select number, max({{'score': score, 'before': -position}}, {k}) as best
from (
    select number, position, array_inner_product(documents.vector, asked.vector) as score
    from asked, documents
)
group by number order by number
"""


@dataclass(kw_only=True, eq=False, repr=False)
class Duck(VectorStore):
    """Dense ranking in SQL by DuckDB in this process, exact, on array columns.

    Scores are the cosine or the dot product.
    """

    title = "retriever 'duckdb'"
    modules: ClassVar[tuple[str, ...]] = ("duckdb", *MiniLM.modules)
    package = "duckdb"

    def __post_init__(self) -> None:
        super().__post_init__()
        import duckdb

        self._database = duckdb.connect(":memory:")

    def _make(self, name: str, dimension: int) -> Callable[[], object]:
        shape = f"(position integer, vector float[{dimension}])"
        self._database.execute(f"create table documents {shape}")
        return partial(self._database.execute, "drop table documents")

    def _put(self, vectors: Vectors) -> None:
        self._database.register("rows", numbered_rows(vectors))
        self._database.execute("insert into documents select * from rows")
        self._database.unregister("rows")

    def _search(self, vectors: Vectors, k: int) -> list[Found]:
        self._database.register("asked", numbered_rows(vectors, "number"))
        found = self._database.sql(_DUCKDB_SEARCH.format(k=k)).to_arrow_table()
        self._database.unregister("asked")
        best = found["best"].combine_chunks()
        scores = best.values.field("score").to_numpy().astype(np.float64)
        positions = -best.values.field("before").to_numpy().astype(np.int64)
        cuts = best.offsets.to_numpy()[1:-1]
        return list(zip(np.split(positions, cuts), np.split(scores, cuts), strict=True))


INDEXES = ("none", "ivf_flat", "ivf_pq", "ivf_hnsw_sq")
LEAST_ROWS = 256
"""Minimum number of rows for a LanceDB index."""


@dataclass(kw_only=True, eq=False, repr=False)
class Lance(VectorStore):
    """Dense ranking in LanceDB: a folder or `uri`; exact unless `index_type` is set.

    `uri` is a folder, an object store (s3://, gs://, az://) or LanceDB Cloud (db://, in `region`,
    with the key in the environment variable named by `api_key_env`); empty means a temporary
    folder. `index_type`: none, ivf_flat, ivf_pq or ivf_hnsw_sq; a corpus of fewer than 256
    documents has none. `nprobes` and `refine_factor` (0: off) control how much of an index is
    searched. Scores are similarities: 1 minus LanceDB's distance, i.e. the cosine or the dot
    product.
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
            close = suggest(self.index_type, list(INDEXES))
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
        if len(vectors) == 1:  # the result of a single query does not name it
            return [(positions, scores)]
        of_query = found["query_index"].to_numpy()
        mine = (of_query == number for number in range(len(vectors)))
        return [(positions[rows], scores[rows]) for rows in mine]


_QDRANT_NUMBERS = 400_000
"""Vector elements per request: about 8 MB as JSON; a server accepts 32 MB."""


@dataclass(kw_only=True, eq=False, repr=False)
class Qdrant(VectorStore):
    """Dense ranking in Qdrant: in this process, or on a server with `url`.

    Without `url` it uses the client's local mode, which is always exact. On a server, `exact=false`
    searches the HNSW graph: `m` and `ef_construct` control its construction, `hnsw_ef` the search
    width (0: the server's defaults). The server key is read from the environment variable named by
    `api_key_env`. Scores are Qdrant's: cosine or dot product.
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

        at_once = max(1, _QDRANT_NUMBERS // vectors.shape[1])
        ids = range(len(vectors))
        self._client.upload_collection(self._name, vectors, ids=ids, batch_size=at_once, wait=True)
        # Wait for the finished graph; otherwise unindexed vectors are scanned.
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
