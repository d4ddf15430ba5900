"""The Arrow tables of a dataset on disk: writing one, and their fingerprint."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.errors import UsageError

_FINGERPRINT_NAMES = {
    "qrels.arrow": "judgements.arrow",
    "qrels_set": "key",
    "evidence_id": "unit",
}
"""Names of tables and columns in fingerprints where they differ; published ones depend on them."""

_GATHERED_BYTES = 1 << 24
_NOT_OF_A_TYPE = (pa.ArrowException, TypeError, ValueError, OverflowError)


def typed_array(field: pa.Field, values: Sequence[Any]) -> pa.Array:
    """Converts the values of a column. Raises UsageError for the first of another type."""
    try:
        return pa.array(values, field.type)
    except _NOT_OF_A_TYPE:
        for value in values:
            try:
                pa.array([value], field.type)
            except _NOT_OF_A_TYPE:
                raise UsageError(
                    f"the field {field.name} must be {field.type}, not {value!r:.60}; correct it "
                    "in the file"
                ) from None
        raise


class ContentHash:
    """A sha256 of the values of one table, independent of batches, padding and Arrow version.

    Each column is hashed separately (lengths and bytes apart), so the digest does not depend on how
    the rows are split into batches.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._parts: dict[str, hashlib._Hash] = {
            f"{field.name}.{part}": hashlib.sha256()
            for field in schema
            for part in ("lengths", "values")
        }

    def update(self, batch: pa.RecordBatch) -> None:
        """Adds the rows of `batch`."""
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            self._column(name, column)

    def _column(self, name: str, column: pa.Array) -> None:
        lengths, values = self._parts[f"{name}.lengths"], self._parts[f"{name}.values"]
        if pa.types.is_integer(column.type):
            # A byte per row: bits would be padded at the end of each batch.
            lengths.update(column.is_null().to_numpy(zero_copy_only=False).tobytes())
            values.update(column.fill_null(0).to_numpy(zero_copy_only=False).tobytes())
            return
        offsets = np.frombuffer(column.buffers()[1], np.int32)[
            column.offset : column.offset + len(column) + 1
        ]
        sizes = np.diff(offsets)
        if column.null_count:
            sizes[column.is_null().to_numpy(zero_copy_only=False)] = -1
        lengths.update(sizes.tobytes())
        if pa.types.is_list(column.type):
            inner = column.flatten()
            if len(inner):
                self._nested(name, inner)
        elif column.buffers()[2] is not None:
            values.update(memoryview(column.buffers()[2])[offsets[0] : offsets[-1]])

    def _nested(self, name: str, inner: pa.Array) -> None:
        values = self._parts[f"{name}.values"]
        if pa.types.is_integer(inner.type):
            values.update(inner.to_numpy().tobytes())
        else:  # the answers of a query: few and short
            for text in inner.to_pylist():
                data = text.encode()
                values.update(len(data).to_bytes(4, "little") + data)

    def hexdigest(self) -> str:
        """Returns the digest of all columns so far."""
        whole = hashlib.sha256()
        for name, part in self._parts.items():
            column, _, kind = name.rpartition(".")
            column = _FINGERPRINT_NAMES.get(column, column)
            whole.update(f"{column}.{kind}:{part.hexdigest()}\n".encode())
        return whole.hexdigest()


def fingerprint(contents: Mapping[str, ContentHash]) -> str:
    """Returns the sha256 of the hashes of all tables; equal content has an equal fingerprint."""
    parts = "".join(
        f"{_FINGERPRINT_NAMES.get(name, name)}:{content.hexdigest()}\n"
        for name, content in contents.items()
    )
    return hashlib.sha256(parts.encode()).hexdigest()


class TableFile:
    """Writes record batches to one Arrow file in order, in constant memory, and hashes its content.

    Small batches are combined to a few MB, and then hashed and written by a thread, since both
    release the interpreter lock while the caller continues parsing. At most one is being written.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        """Creates the file at `path`."""
        self.schema = schema
        self.rows = 0
        self.content = ContentHash(schema)
        self._path = path
        self._file = pa.OSFile(str(path), "wb")
        self._writer = pa.ipc.new_file(self._file, schema)
        self._begun: list[int] = []  # offsets of the batches, and of the end
        self._gathered: list[pa.RecordBatch] = []
        self._bytes = 0
        self._thread: ThreadPoolExecutor | None = None
        self._under_way: Future[None] | None = None
        self._open = True

    def write_columns(self, columns: Mapping[str, Sequence[Any]]) -> None:
        """Adds rows, given as one list per column."""
        arrays = [typed_array(field, columns[field.name]) for field in self.schema]
        self.write(pa.RecordBatch.from_arrays(arrays, schema=self.schema))

    def write_table(self, table: pa.Table) -> None:
        """Adds the rows of a table."""
        for batch in table.combine_chunks().to_batches(max_chunksize=1 << 20):
            self.write(batch)

    def write(self, batch: pa.RecordBatch) -> None:
        """Adds the rows of a record batch. Raises OSError if an earlier one was not written."""
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
        """Writes the remaining rows and the end of the file. A second call does nothing."""
        if self._open:
            self._wait()
            self._put(self._gathered)
            self._end()

    def abandon(self) -> None:
        """Closes a file that will be deleted, in any state."""
        if self._open:
            with suppress(OSError):
                self._wait()
            with suppress(OSError):
                self._end()

    def _put(self, batches: list[pa.RecordBatch]) -> None:
        for batch in pa.Table.from_batches(batches, self.schema).combine_chunks().to_batches():
            self.content.update(batch)
            self._begun.append(self._file.tell())
            self._writer.write_batch(batch)

    def _wait(self) -> None:
        if self._under_way is not None:
            under_way, self._under_way = self._under_way, None
            under_way.result()

    def _end(self) -> None:
        self._open = False
        if self._thread is not None:
            self._thread.shutdown()
        self._begun.append(self._file.tell())
        self._writer.close()
        self._file.close()

    def heads(self) -> npt.NDArray[np.int64]:
        """Byte ranges of the closed file outside the columns, shape (n, 2).

        These are the schema, the header of each batch (a marker and its length), and the footer.
        """
        found = [(0, self._begun[0])]
        with open(self._path, "rb") as file:
            for start in self._begun[:-1]:
                file.seek(start + 4)
                found.append((start, start + 8 + int.from_bytes(file.read(4), "little")))
        return np.array([*found, (self._begun[-1], self._path.stat().st_size)], np.int64)
