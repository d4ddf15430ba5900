"""What a dataset's writer looks up and checks: rows and ids of judgements, values that repeat.

Judgements name documents by id or by row; on disk they carry both.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import UsageError


def with_rows_and_ids(table: pa.Table, documents: Path) -> tuple[pa.Table, list[str]]:
    """Fill rows from ids and ids from rows, and sort by qrels set and query.

    `table` has the columns of columns.QRELS with nulls where an id or a row is not known yet;
    `documents` is the finished table of documents. Returns the table and the ids that the corpus
    does not hold (row -1). Raises UsageError for a judgement that stands twice.
    """
    by_id = table["document"].is_null().to_numpy()
    rows = pc.fill_null(table["document"], -1).to_numpy().astype(np.int32)
    ids: npt.NDArray[Any] = table["document_id"].to_numpy(zero_copy_only=False).copy()
    with pa.memory_map(str(documents)) as source:
        known_ids = pa.ipc.open_file(source).read_all()["id"]
        if by_id.any():
            rows[by_id] = _rows(known_ids, ids[by_id].astype(str))
        nameless = (rows >= 0) & table["document_id"].is_null().to_numpy()
        if nameless.any():
            ids[nameless] = known_ids.take(pa.array(rows[nameless])).to_pylist()
    table = table.set_column(2, "document", pa.array(rows, pa.int32()))
    table = table.set_column(3, "document_id", pa.array(ids.tolist(), pa.string()))
    _refuse_repeated(table)
    key = table["qrels_set"].combine_chunks().dictionary_encode().indices.to_numpy()
    order = np.lexsort((np.arange(len(table)), table["query"].to_numpy(), key))
    return table.take(order), ids[by_id & (rows < 0)].tolist()


def _rows(known_ids: pa.ChunkedArray, ids: npt.NDArray[np.str_]) -> npt.NDArray[np.int32]:
    """Row of each id, -1 where there is none."""
    wanted = pa.array(np.unique(ids))
    found = np.full(len(wanted), -1, np.int32)
    start = 0
    for chunk in known_ids.chunks:
        where = pc.index_in(chunk, value_set=wanted)
        hits = np.flatnonzero(pc.is_valid(where).to_numpy(zero_copy_only=False))
        found[where.take(pa.array(hits)).to_numpy()] = start + hits
        start += len(chunk)
    return np.asarray(found[pc.index_in(pa.array(ids), value_set=wanted).to_numpy()])


def _refuse_repeated(table: pa.Table) -> None:
    counts = table.group_by(["qrels_set", "query", "document_id", "evidence_id"]).aggregate(
        [([], "count_all")]
    )
    twice = counts.filter(pc.greater(counts["count_all"], 1))
    if len(twice):
        raise UsageError(
            f"{len(twice)} judgements stand more than once, first that of document "
            f"{twice['document_id'][0].as_py()!r}: keep one of each"
        )


class Repeated:
    """Finds values that stand more than once in a long stream, at eight bytes a value.

    Only hashes are kept. Equal hashes make candidates; the caller, who has the values, checks them.
    """

    def __init__(self) -> None:
        self._hashes = array("q")

    def add(self, values: Iterable[Hashable]) -> None:
        """Remember these values."""
        self._hashes.extend(map(hash, values))

    def candidates(self) -> set[int]:
        """Hashes (of this process) that came more than once; empty when all values differ."""
        hashes = np.sort(np.frombuffer(self._hashes, np.int64))
        return set(hashes[1:][hashes[1:] == hashes[:-1]].tolist())
