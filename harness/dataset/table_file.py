"""One Arrow file that is being written, with the hash of its content."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.dataset.columns import ContentHash

_GATHERED_BYTES = 1 << 24


class TableFile:
    """Writes record batches in order, in constant memory.

    Small batches are gathered to a few MB, and then hashed and written by a thread, since both let
    go of the interpreter lock while the caller parses on. At most one gathered batch is under way.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        """Create the file at `path`."""
        self.schema = schema
        self.rows = 0
        self.content = ContentHash(schema)
        self._writer = pa.ipc.new_file(str(path), schema)
        self._gathered: list[pa.RecordBatch] = []
        self._bytes = 0
        self._thread: ThreadPoolExecutor | None = None
        self._under_way: Future[None] | None = None
        self._open = True

    def write_columns(self, columns: dict[str, Any]) -> None:
        """Add rows, given as one list a column."""
        arrays = [pa.array(columns[field.name], field.type) for field in self.schema]
        self.write(pa.RecordBatch.from_arrays(arrays, schema=self.schema))

    def write_table(self, table: pa.Table) -> None:
        """Add the rows of a table."""
        for batch in table.combine_chunks().to_batches(max_chunksize=1 << 20):
            self.write(batch)

    def write(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a record batch. Raises OSError when an earlier one was not written."""
        self.rows += len(batch)
        self._gathered.append(batch)
        self._bytes += batch.get_total_buffer_size()
        if self._bytes >= _GATHERED_BYTES:
            if self._thread is None:
                self._thread = ThreadPoolExecutor(1)
            self._wait()
            self._under_way = self._thread.submit(self._put, self._gathered)
            self._gathered, self._bytes = [], 0

    def close(self) -> None:
        """Write what is left, and the end of the file. A second call does nothing."""
        if self._open:
            self._wait()
            self._put(self._gathered)
            self._end()

    def abandon(self) -> None:
        """Close a file that will be thrown away, whatever state it is in."""
        if self._open:
            with suppress(OSError):
                self._wait()
            with suppress(OSError):
                self._end()

    def _put(self, batches: list[pa.RecordBatch]) -> None:
        for batch in pa.Table.from_batches(batches, self.schema).combine_chunks().to_batches():
            self.content.update(batch)
            self._writer.write_batch(batch)

    def _wait(self) -> None:
        if self._under_way is not None:
            under_way, self._under_way = self._under_way, None
            under_way.result()

    def _end(self) -> None:
        self._open = False
        if self._thread is not None:
            self._thread.shutdown()
        self._writer.close()
