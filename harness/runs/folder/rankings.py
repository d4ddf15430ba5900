"""Reads and writes the tables of a run's folder: its rankings, and the outcome of each query."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.records.run import Percentiles
from harness.runfiles.arrow import read_parquet, to_numpy
from harness.runfiles.rankings import Rankings, checked_rankings
from harness.runfiles.write import blocks, parquet_schema, write_parquet, write_trec


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
        _ids(dataset, rows, np.array(sizes, np.int64)),
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
    queries = table["query"].cast(pa.string()).dictionary_encode()
    queries = queries.unify_dictionaries().combine_chunks()
    names = queries.dictionary.to_pylist()
    return checked_rankings(names, to_numpy(queries.indices), table["document"], score, str(path))


def write_rankings(rankings: Rankings, folder: Path, system: str) -> None:
    """Writes rankings.parquet and rankings.trec."""
    write_parquet(rankings, folder / "rankings.parquet")
    # TREC's format cannot hold some ids; the Parquet file has everything.
    with suppress(UsageError):
        write_trec(blocks(rankings), folder / "rankings.trec", trec_tag(system))


def trec_tag(system: str) -> str:
    """Returns the run tag of a system, the last field of the lines of a TREC run file."""
    return "_".join(system.split())


def _ids(
    dataset: Dataset, rows: npt.NDArray[np.int32], sizes: npt.NDArray[np.int64]
) -> pa.ChunkedArray:
    document: Any = dataset.documents.column("id", np.maximum(rows, 0))
    if (rows < 0).any():
        from harness.scoring.matching.matcher import UNRESOLVED

        starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
        place = np.arange(len(rows)) - starts + 1
        names = document.to_pylist()
        for at in np.flatnonzero(rows < 0):
            names[at] = f"{UNRESOLVED}{place[at]}"
        document = pa.array(names, pa.string())
    return pa.chunked_array([document]) if isinstance(document, pa.Array) else document


def write_query_table(
    folder: Path,
    ids: list[str],
    returned: list[int],
    *,
    seconds: Sequence[float | None] | None = None,
    confidence: Sequence[float | None] | None = None,
    abstained: Sequence[bool] | None = None,
    failed: Sequence[bool] | None = None,
) -> None:
    """Writes queries.parquet in the form of a run of the harness; unknown values are null or
    false."""
    import pyarrow.parquet as pq

    n = len(ids)
    table = {
        "query": pa.array(ids, pa.string()),
        "seconds": pa.array(seconds or [None] * n, pa.float64()),
        "returned": pa.array(returned, pa.int32()),
        "confidence": pa.array(confidence or [None] * n, pa.float64()),
        "abstained": pa.array(abstained or [False] * n, pa.bool_()),
        "failed": pa.array(failed or [False] * n, pa.bool_()),
    }
    pq.write_table(pa.table(table), folder / "queries.parquet")


def percentiles(values: np.ndarray[Any, np.dtype[np.float64]]) -> Percentiles | None:
    """Returns mean and percentiles of durations; None if there are none."""
    if len(values) == 0:
        return None
    p50, p95, p99 = np.percentile(values, [50, 95, 99])
    return Percentiles(mean=float(values.mean()), p50=float(p50), p95=float(p95), p99=float(p99))
