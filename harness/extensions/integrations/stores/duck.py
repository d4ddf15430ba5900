"""Dense ranking in SQL: DuckDB's arrays, in this process."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np

from harness.extensions.dense.exact_search import Vectors
from harness.extensions.dense.minilm import MiniLM
from harness.extensions.integrations.stores.vector_store import Found, VectorStore, numbered_rows

# The inner product serves for the cosine too: then all vectors have length 1 (one of zeros, whose
# cosine DuckDB calls NaN, stays zero). Equal scores: the smaller position first.
_SEARCH = """
select number, max({{'score': score, 'before': -position}}, {k}) as best
from (
    select number, position, array_inner_product(documents.vector, asked.vector) as score
    from asked, documents
)
group by number order by number
"""


@dataclass(kw_only=True, eq=False, repr=False)
class Duck(VectorStore):
    """Dense ranking in SQL by DuckDB in this process, exact, on columns of arrays.

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
        found = self._database.sql(_SEARCH.format(k=k)).to_arrow_table()
        self._database.unregister("asked")
        best = found["best"].combine_chunks()
        scores = best.values.field("score").to_numpy().astype(np.float64)
        positions = -best.values.field("before").to_numpy().astype(np.int64)
        cuts = best.offsets.to_numpy()[1:-1]
        return list(zip(np.split(positions, cuts), np.split(scores, cuts), strict=True))
