"""Converts between Arrow and NumPy without importing pandas and without unnecessary copies.

If pandas is installed, pyarrow imports it at the first `pa.array` or `to_numpy`, which costs 0.25 s
and 50 MB that scoring a file does not need.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.errors import UsageError

_SLICE = 1 << 20


def to_numpy(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[Any]:
    """Converts numbers without nulls to NumPy; copies only columns of several chunks."""
    if isinstance(column, pa.ChunkedArray):
        if column.num_chunks != 1:
            empty = np.zeros(0, _dtype(column.type))
            return np.concatenate([empty, *map(to_numpy, column.chunks)])
        column = column.chunk(0)
    if column.null_count:
        raise ValueError(f"{column.null_count} nulls in a column of {column.type}")
    values = np.frombuffer(column.buffers()[1] or b"", _dtype(column.type))
    return values[column.offset : column.offset + len(column)]


def _dtype(type_: pa.DataType) -> np.dtype[Any]:
    # Arrow's `float` has 32 bits, NumPy's 64; the other names are equal.
    return np.dtype("float32" if pa.types.is_float32(type_) else str(type_))


def flags(column: pa.Array | pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Converts a boolean column to NumPy; null becomes False."""
    if isinstance(column, pa.ChunkedArray):
        return np.concatenate([np.zeros(0, bool), *map(flags, column.chunks)])
    end = column.offset + len(column)
    kept = np.ones(end, bool)
    for bits in column.buffers():
        if bits is not None:
            data = np.frombuffer(bits, np.uint8)
            kept &= np.unpackbits(data, count=end, bitorder="little").view(bool)
    return kept[column.offset :]


def integers(values: npt.NDArray[Any]) -> pa.Array:
    """Converts a NumPy array of numbers to Arrow without a copy."""
    values = np.ascontiguousarray(values)
    type_ = pa.type_for_alias(values.dtype.name)
    return pa.Array.from_buffers(type_, len(values), [None, pa.py_buffer(values)])


def strings(values: Iterable[str]) -> pa.Array:
    """Converts thousands of strings to an Arrow array; `pa.array` is faster for millions."""
    encoded = [value.encode() for value in values]
    offsets = np.cumsum([0, *map(len, encoded)])
    if offsets[-1] >= 1 << 31:
        raise ValueError("more than 2 GB of text in one array")
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(b"".join(encoded))]
    return pa.Array.from_buffers(pa.string(), len(encoded), buffers)


def take(column: pa.ChunkedArray, rows: npt.NDArray[Any]) -> pa.ChunkedArray:
    """Returns the given rows of a column, as `column.take` does.

    `column.take` copies every chunk of text first, even for a few rows.
    """
    if column.num_chunks == 1:
        return column.take(integers(rows))
    starts = np.cumsum([0, *map(len, column.chunks)])
    # In slices, since one Arrow array holds at most 2 GB of text.
    slices = range(0, len(rows), _SLICE)
    parts = [_slice(column, rows[start : start + _SLICE], starts) for start in slices]
    return pa.chunked_array([chunk for part in parts for chunk in part], column.type)


def _slice(
    column: pa.ChunkedArray, rows: npt.NDArray[Any], starts: npt.NDArray[np.int64]
) -> list[pa.Array]:
    chunk = np.searchsorted(starts[1:], rows, side="right")
    order = np.argsort(chunk, kind="stable")
    touched, first = np.unique(chunk[order], return_index=True)
    parts = [
        column.chunk(int(number)).take(integers(rows[order[low:high]] - starts[number]))
        for number, (low, high) in zip(touched, pairwise([*first, len(rows)]), strict=True)
    ]
    if len(parts) < 2 or (np.diff(order) == 1).all():
        return parts
    back = np.empty(len(rows), np.int64)
    back[order] = np.arange(len(rows))
    return [pa.concat_arrays(parts).take(integers(back))]


def read_parquet(path: Path, columns: Sequence[str] | None = None, filters: Any = None) -> pa.Table:
    """Reads a Parquet file of the harness. Raises UsageError if it is missing or damaged."""
    import pyarrow.parquet as pq

    try:
        if filters is not None:
            return pq.read_table(path, columns=columns, filters=filters)
        with pq.ParquetFile(path) as file:  # read_table imports pandas, if it is installed
            if lacking := set(columns or ()).difference(file.schema_arrow.names):
                raise ValueError(f"no column {', '.join(sorted(lacking))}")
            return file.read(columns)
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        said = " ".join(str(error).split())[:200]
        raise UsageError(f"{path}: cannot be read, it is damaged or cut off ({said})") from None
