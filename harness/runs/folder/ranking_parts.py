"""Reads the rankings of a run folder in parts, so that few rows are in memory as texts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from harness.errors import UsageError
from harness.runfiles.arrow import to_numpy
from harness.runfiles.rankings import Rankings, checked_rankings
from harness.runfiles.tables import parquet_errors
from harness.runfiles.write import parquet_schema
from harness.runs.folder.rankings import read_run_rankings


def rankings_by_part(path: Path, rows: int) -> Iterator[Rankings]:
    """Yields the rankings.parquet of a run folder in parts of about `rows` rows and whole queries.

    A file of another program, or whose queries are not contiguous, is one part. Raises UsageError
    as `read_run_rankings` does.
    """
    import pyarrow.parquet as pq

    if not path.is_file() or path.stat().st_size < rows:  # a row takes more than a byte
        yield read_run_rankings(path)
        return
    with parquet_errors(path), pq.ParquetFile(path) as file:
        names, scored = file.schema_arrow.names, "score" in file.schema_arrow.names
        known = file.schema_arrow.equals(parquet_schema(scored=scored), check_metadata=False)
        if not known or file.metadata.num_rows <= rows:
            yield read_run_rankings(path)
            return
        column = file.read(["query"], use_threads=False)["query"].unify_dictionaries()
        query = to_numpy(column.combine_chunks().indices) if not column.null_count else None
        ids = column.chunk(0).dictionary.to_pylist()
        starts = np.zeros(0, np.int64)
        if query is not None:
            starts = np.flatnonzero(np.diff(query, prepend=-1))
        if query is None or len(np.unique(query[starts])) < len(starts):
            yield read_run_rankings(path)
            return
        ends, of_part = np.append(starts, len(query)), query[starts]
        del column, query
        held, done = None, 0
        wanted = [name for name in ("document", "score") if name in names]
        for batch in file.iter_batches(rows, columns=wanted, use_threads=False):
            table = pa.Table.from_batches([batch])
            table = table if held is None else pa.concat_tables([held, table])
            first, last = np.searchsorted(ends, [done, done + len(table)], side="right") - 1
            sizes = np.diff(ends[first : last + 1])
            n = int(sizes.sum())
            part, held, done = table.slice(0, n), table.slice(n), done + n
            if n:
                if part["document"].null_count:
                    raise UsageError(f"{path}: a document is missing; write the file again")
                yield checked_rankings(
                    [ids[number] for number in of_part[first:last]],
                    np.repeat(np.arange(len(sizes), dtype=np.int32), sizes),
                    part["document"],
                    to_numpy(part["score"]) if scored else None,
                    str(path),
                )
