"""The Arrow columns of a dataset on disk, and how their content is fingerprinted."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pyarrow as pa

DOCUMENTS = pa.schema(
    [
        ("id", pa.string()),
        ("text", pa.string()),
        ("title", pa.string()),
        ("timestamp", pa.int64()),
        ("session", pa.string()),
        ("speaker", pa.string()),
        ("position", pa.int32()),
    ]
)
QUERIES = pa.schema(
    [
        ("id", pa.string()),
        ("text", pa.string()),
        ("haystack", pa.int32()),
        ("ability", pa.string()),
        ("category", pa.string()),
        ("timestamp", pa.int64()),
        ("answers", pa.list_(pa.string())),
    ]
)
JUDGEMENTS = pa.schema(
    [
        ("key", pa.string()),
        ("query", pa.int32()),
        ("document", pa.int32()),  # row; -1 where the corpus does not hold the document
        ("document_id", pa.string()),
        ("grade", pa.int32()),
        ("unit", pa.string()),
    ]
)
HAYSTACKS = pa.schema(
    [
        ("id", pa.string()),
        ("rows", pa.list_(pa.int32())),  # null: every document
        ("timestamps", pa.list_(pa.int64())),  # null: the documents' own
    ]
)
FILES = {
    "documents.arrow": DOCUMENTS,
    "queries.arrow": QUERIES,
    "judgements.arrow": JUDGEMENTS,
    "haystacks.arrow": HAYSTACKS,
}


class ContentHash:
    """A sha256 over the values of one table, whatever its batches, padding or Arrow version.

    Each column is hashed by itself (lengths apart from bytes), so cutting the same rows into other
    batches gives the same digest.
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._parts: dict[str, Any] = {
            f"{field.name}.{part}": hashlib.sha256()
            for field in schema
            for part in ("lengths", "values")
        }

    def update(self, batch: pa.RecordBatch) -> None:
        """Add the rows of `batch`."""
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            self._column(name, column)

    def _column(self, name: str, column: pa.Array) -> None:
        lengths, values = self._parts[f"{name}.lengths"], self._parts[f"{name}.values"]
        if pa.types.is_integer(column.type):
            # A byte a row: bits would be padded at the end of each batch.
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
        """Digest over all columns so far."""
        whole = hashlib.sha256()
        for name, part in self._parts.items():
            whole.update(f"{name}:{part.hexdigest()}\n".encode())
        return whole.hexdigest()
