"""Reader of Parquet files."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from harness.datasets.adapters.formats.text import TextFile
from harness.errors import UsageError
from harness.runfiles.tables import parquet_errors, parquet_source


def records(file: TextFile, rows: int = 1 << 13) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields each record with its number, from 1; holds at most `rows` of them in memory.

    Raises UsageError for a damaged file or a duplicate column.
    """
    import pyarrow.parquet as pq

    number = 0
    with parquet_errors(file):
        table = pq.ParquetFile(parquet_source(file.path))
    with table:
        with parquet_errors(file):
            names = table.schema_arrow.names
            batches = table.iter_batches(rows)
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise UsageError(f"{file}: duplicate column {twice!r}; keep one")
        while True:
            with parquet_errors(file):
                batch = next(batches, None)
                found = [] if batch is None else batch.to_pylist()
            if batch is None:
                return
            for record in found:
                number += 1
                yield number, record
