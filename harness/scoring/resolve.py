"""Rankings laid beside a dataset: which query and which document each row is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.dataset.reader import Dataset
from harness.rankings.rankings import Rankings, best_first, duplicates, without
from harness.scoring.arrays import Ints


@dataclass(frozen=True)
class Resolved:
    """The rows of a run that belong to the dataset's queries, in the order of its query table.

    Shapes (n,), one a returned document: `query` (row of the query table, ascending), `row` (of the
    document table; -1 for a document that the query's haystack does not hold), `rank` from 1.
    `unknown_queries` are in the run but not in the dataset.
    """

    query: npt.NDArray[np.int32]
    row: npt.NDArray[np.int32]
    rank: Ints
    unknown_queries: list[str]

    @property
    def unknown_documents(self) -> int:
        """Returned documents that the haystack of their query does not hold."""
        return int((self.row < 0).sum())


def cleaned(rankings: Rankings, dataset: Dataset) -> tuple[Rankings, int]:
    """The rankings best first, each document once, and how many stood in their ranking already.

    Where the dataset says so (Variant.exclude_self), documents whose id is the query's are left out
    too, so that it does not matter who ranked.
    """
    rankings = best_first(rankings)
    again = duplicates(rankings)
    if len(again):
        rankings = without(rankings, again)
    if dataset.manifest.exclude_self:
        queries = pa.array(rankings.query_ids, pa.string()).take(pa.array(rankings.query))
        own = pc.equal(rankings.document, queries).to_numpy()
        rankings = without(rankings, np.flatnonzero(own))
    return rankings, len(again)


def resolve(rankings: Rankings, dataset: Dataset) -> Resolved:
    """Find the rows of everything that was returned."""
    known = {name: i for i, name in enumerate(dataset.query_ids)}
    query_of = np.array([known.get(name, -1) for name in rankings.query_ids], np.int64)
    starts = rankings.starts
    rank = np.arange(len(rankings)) - np.repeat(starts[:-1], np.diff(starts)) + 1
    query = query_of[rankings.query] if len(rankings) else np.zeros(0, np.int64)
    unknown = [rankings.query_ids[i] for i in np.flatnonzero(query_of < 0)]
    order = np.argsort(query, kind="stable")
    order = order[query[order] >= 0]
    kept, rank = query[order].astype(np.int32), rank[order]
    if len(order) == len(rankings) and (np.diff(order) == 1).all():
        ids = rankings.document.combine_chunks()
    else:
        ids = rankings.document.take(pa.array(order)).combine_chunks()
    if isinstance(ids, pa.ChunkedArray):
        ids = pa.concat_arrays(ids.chunks) if ids.num_chunks else pa.array([], pa.string())
    return Resolved(kept, _rows(dataset, kept, ids), rank, unknown)


def _rows(dataset: Dataset, query: npt.NDArray[np.int32], ids: pa.Array) -> npt.NDArray[np.int32]:
    """Document rows by id, looked up in the haystack of each row's query."""
    rows = np.full(len(query), -1, np.int32)
    haystack = dataset.query_haystack[query]
    order = np.argsort(haystack, kind="stable")
    cuts = np.flatnonzero(np.diff(haystack[order])) + 1
    for part in np.split(order, cuts):
        if len(part) == 0:
            continue
        held = dataset.haystack_rows(int(haystack[part[0]]))
        names = dataset.documents.column("id", held).combine_chunks()
        found = pc.index_in(ids.take(pa.array(part)), value_set=names)
        at = pc.fill_null(found, -1).to_numpy()
        rows[part] = np.where(at >= 0, held[np.maximum(at, 0)], -1)
    return rows
