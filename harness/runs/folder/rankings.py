"""Reads and writes the tables of a run's folder: its rankings, and the outcome of each query."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.records.run import Percentiles
from harness.runfiles.arrow import read_parquet, take, to_numpy
from harness.runfiles.rankings import Rankings, checked_rankings
from harness.runfiles.write import (
    ROW_GROUP,
    ROWS,
    RankedBatch,
    blocks,
    parquet_schema,
    write_parquet_batches,
    write_trec,
)
from harness.runs.results import ResultTable


@dataclass(frozen=True)
class RowRanking:
    """One query's ranking as rows of the document table, best first.

    A row of -1 is a rank with an unknown document.
    """

    query: int
    rows: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float64] | None


def as_rankings(dataset: Dataset, ranked: Sequence[RowRanking]) -> Rankings:
    """Returns the rankings as columns, with the dataset's ids.

    If some have scores and others have none, all scores are dropped.
    """
    sizes = [len(one.rows) for one in ranked]
    rows = np.concatenate([np.zeros(0, np.int32), *(one.rows for one in ranked)])
    score = None
    if all(one.scores is not None for one in ranked if len(one.rows)):
        parts = (one.scores for one in ranked if one.scores is not None)
        score = np.concatenate([np.zeros(0), *parts])
    return Rankings(
        [dataset.query_ids[one.query] for one in ranked],
        np.repeat(np.arange(len(ranked), dtype=np.int32), sizes),
        _ids(dataset, rows, _ranks(np.array(sizes, np.int64))),
        score,
    )


def read_run_rankings(path: Path) -> Rankings:
    """Reads the rankings.parquet of a run folder.

    A file with other columns, which another program wrote, is read as `read_rankings` reads any run
    file. Raises UsageError as that does.
    """
    table = read_parquet(path)
    scored = "score" in table.schema.names
    known = table.schema.equals(parquet_schema(scored=scored), check_metadata=False)
    if not known or any(column.null_count for column in table.columns):
        from harness.runfiles.readers import read_rankings

        return read_rankings(path)
    score = to_numpy(table["score"]) if scored else None
    if not len(table):
        return Rankings([], np.zeros(0, np.int32), table["document"], score)
    queries = table["query"].unify_dictionaries().combine_chunks()
    number = to_numpy(queries.indices)
    # Files of older versions also name queries without rows, which have no ranking.
    occurs = np.zeros(len(queries.dictionary), bool)
    occurs[number] = True
    names = queries.dictionary.filter(pa.array(occurs)).to_pylist()
    number = (np.cumsum(occurs, dtype=np.int32) - 1)[number]
    return checked_rankings(names, number, table["document"], score, str(path))


def write_rankings(rankings: Rankings, folder: Path, system: str) -> None:
    """Writes rankings.parquet and rankings.trec."""
    _write(partial(blocks, rankings), rankings.score is not None, folder, system)


def write_results(dataset: Dataset, results: ResultTable, folder: Path, system: str) -> None:
    """Writes the rankings of results that did not fail, some rows at a time.

    If some have scores and others have none, all scores are dropped.
    """
    scored = bool(results.scored[results.size > 0].all())
    _write(partial(_result_blocks, dataset, results, scored), scored, folder, system)


def _write(
    batches: Callable[[int], Iterator[RankedBatch]], scored: bool, folder: Path, system: str
) -> None:
    write_parquet_batches(batches(ROW_GROUP), folder / "rankings.parquet", scored=scored)
    # TREC's format cannot hold some ids; the Parquet file has everything.
    with suppress(UsageError):
        write_trec(batches(ROWS), folder / "rankings.trec", trec_tag(system))


def _result_blocks(
    dataset: Dataset, results: ResultTable, scored: bool, rows: int
) -> Iterator[RankedBatch]:
    """Yields the rankings of results in batches of `rows` rows, with the dataset's ids."""
    kept = np.flatnonzero(~results.failed)
    ids = query_ids(dataset, results.query[kept])
    size = results.size[kept]
    ends = np.cumsum(size)
    for start in range(0, int(size.sum()), rows):
        at = np.arange(start, min(start + rows, int(ends[-1])))
        query = np.searchsorted(ends, at, side="right")
        place, mine = at - (ends - size)[query], kept[query]
        document = _ids(dataset, results.rows[results.row_start[mine] + place], place + 1)
        yield RankedBatch(
            ids,
            query.astype(np.int32),
            pa.concat_arrays(document.chunks).cast(pa.string()),
            place + 1,
            results.scores[results.score_start[mine] + place] if scored else None,
            size[query] - place - 1,
        )


def trec_tag(system: str) -> str:
    """Returns the run tag of a system, the last field of the lines of a TREC run file."""
    return "_".join(system.split())


def query_ids(dataset: Dataset, queries: npt.NDArray[np.int32]) -> pa.Array:
    """Returns the ids of queries."""
    return take(dataset.query_table["id"], queries).combine_chunks().cast(pa.string())


def _ranks(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Returns the rank of each row of rankings of these sizes."""
    return np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes) + 1


def _ids(
    dataset: Dataset, rows: npt.NDArray[np.int32], ranks: npt.NDArray[np.int64]
) -> pa.ChunkedArray:
    document: Any = dataset.documents.column("id", np.maximum(rows, 0))
    if (rows < 0).any():
        from harness.scoring.matching.matcher import UNRESOLVED

        names = document.to_pylist()
        for at in np.flatnonzero(rows < 0):
            names[at] = f"{UNRESOLVED}{ranks[at]}"
        document = pa.array(names, pa.string())
    return pa.chunked_array([document]) if isinstance(document, pa.Array) else document


def write_query_table(
    folder: Path,
    ids: Sequence[str] | pa.Array,
    returned: Sequence[int] | pa.Array,
    *,
    seconds: Sequence[float | None] | pa.Array | None = None,
    confidence: Sequence[float | None] | pa.Array | None = None,
    abstained: Sequence[bool] | None = None,
    failed: Sequence[bool] | None = None,
) -> None:
    """Writes queries.parquet in the form of a run of the harness; unknown values are null or
    false."""
    import pyarrow.parquet as pq

    def column(values: Any, type_: pa.DataType, default: bool | None = None) -> pa.Array:
        values = [default] * len(ids) if values is None else values
        return values if isinstance(values, pa.Array) else pa.array(values, type_)

    table = {
        "query": column(ids, pa.string()),
        "seconds": column(seconds, pa.float64()),
        "returned": column(returned, pa.int32()),
        "confidence": column(confidence, pa.float64()),
        "abstained": column(abstained, pa.bool_(), False),
        "failed": column(failed, pa.bool_(), False),
    }
    pq.write_table(pa.table(table), folder / "queries.parquet")


def percentiles(values: np.ndarray[Any, np.dtype[np.float64]]) -> Percentiles | None:
    """Returns mean and percentiles of durations; None if there are none."""
    if len(values) == 0:
        return None
    p50, p95, p99 = np.percentile(values, [50, 95, 99])
    return Percentiles(mean=float(values.mean()), p50=float(p50), p95=float(p95), p99=float(p99))
