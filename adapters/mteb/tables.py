"""Reads tables of a repository, Parquet or JSON lines, as record batches of chosen columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.datasets.adapters.formats import jsonl
from harness.datasets.adapters.formats.text import TextFile
from harness.errors import UsageError
from harness.runfiles.fields import mistaken

_TEXT = pa.string()
_ROWS = 1 << 14
_LINES = (".jsonl", ".json", ".jsonl.gz", ".json.gz")
_POINTER = b"version https://git-lfs"
KINDS = (".parquet", *_LINES)
"""Supported file name endings."""


@dataclass(frozen=True)
class TableColumn:
    """A column with its possible names; the first name found is used."""

    names: tuple[str, ...]
    type: pa.DataType = _TEXT
    needed: bool = True


CORPUS = {
    "id": TableColumn(("_id", "id")),
    "title": TableColumn(("title",), needed=False),
    "text": TableColumn(("text",)),
}
QUERIES = {
    "id": TableColumn(("_id", "id")),
    "text": TableColumn(("text",)),
    "instruction": TableColumn(("instruction",), needed=False),
}
QRELS = {
    "query": TableColumn(("query-id",)),
    "document": TableColumn(("corpus-id",)),
    "score": TableColumn(("score",), pa.int32()),
}
TOP_RANKED = {
    "query": TableColumn(("query-id",)),
    "documents": TableColumn(("corpus-ids",), pa.list_(pa.string())),
}
INSTRUCTIONS = {"query": TableColumn(("query-id",)), "instruction": TableColumn(("instruction",))}


def opened(path: Path) -> TextFile:
    """Opens a file for errors that give a line, or a row of a Parquet file."""
    return TextFile(path, unit="row" if path.suffix == ".parquet" else "line")


def batches(
    paths: Sequence[Path], columns: Mapping[str, TableColumn]
) -> Iterator[tuple[TextFile, Sequence[int], pa.RecordBatch]]:
    """Yields the columns in batches: the file, the number of each row in it, the rows.

    Raises UsageError for a damaged file or unknown format, a missing column, and a missing value or
    one of another type.
    """
    for path in paths:
        file = opened(path)
        found = _parquet(file, columns) if path.suffix == ".parquet" else _lines(file, columns)
        for numbers, batch in found:
            for name in batch.schema.names:
                column = batch[name]
                if columns[name].needed and column.null_count:
                    at = pc.index(column.is_null(), True).as_py()
                    raise file.error(numbers[at], f"the field {_said(columns[name])} is missing")
            yield file, numbers, batch


def rows(
    paths: Sequence[Path], columns: Mapping[str, TableColumn]
) -> Iterator[tuple[TextFile, int, dict[str, Any]]]:
    """Yields single rows, for small tables."""
    for file, numbers, batch in batches(paths, columns):
        for number, row in zip(numbers, batch.to_pylist(), strict=True):
            yield file, number, row


def _said(column: TableColumn) -> str:
    return " or ".join(map(repr, column.names))


def _chosen(
    file: TextFile, there: Sequence[str], columns: Mapping[str, TableColumn]
) -> dict[str, str]:
    """Returns the columns of a table to read. Raises UsageError if a required one is missing."""
    chosen = {}
    if twice := next((name for name in there if there.count(name) > 1), None):
        raise UsageError(f"{file}: duplicate column {twice!r}; keep one")
    for name, column in columns.items():
        own = next((one for one in column.names if one in there), None)
        if own is not None:
            chosen[name] = own
        elif column.needed:
            raise UsageError(
                f"{file}: no column {_said(column)} (available: {', '.join(there)}); MTEB's "
                "layout for texts requires it"
            )
        elif meant := mistaken(name, there):
            raise UsageError(f"{file}: unknown column {meant!r}; did you mean {name}?")
    return chosen


def _parquet(
    file: TextFile, columns: Mapping[str, TableColumn]
) -> Iterator[tuple[Sequence[int], pa.RecordBatch]]:
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(file.path) as table:
            chosen = _chosen(file, table.schema_arrow.names, columns)
            first = 1
            for batch in table.iter_batches(_ROWS, columns=[*chosen.values()]):
                arrays = {
                    name: _cast(file, batch[own], columns[name]) for name, own in chosen.items()
                }
                yield range(first, first + len(batch)), pa.RecordBatch.from_pydict(arrays)
                first += len(batch)
    except (pa.ArrowException, OSError) as error:
        if getattr(error, "errno", None) is not None:  # a disk error
            raise
        raise UsageError(f"{file}: {_damage(file.path, error)}") from None


def _cast(file: TextFile, column: pa.Array, wanted: TableColumn) -> pa.Array:
    if pa.types.is_nested(column.type) != pa.types.is_nested(wanted.type):
        raise UsageError(
            f"{file}: the column {_said(wanted)} has type {column.type}, not {wanted.type}"
        )
    try:
        return column.cast(wanted.type)
    except pa.ArrowException as error:
        why = " ".join(str(error).split())
        raise UsageError(
            f"{file}: the column {_said(wanted)} has values that are not {wanted.type} ({why})"
        ) from None


def _damage(path: Path, error: Exception) -> str:
    with open(path, "rb") as file:
        if file.read(len(_POINTER)) == _POINTER:
            return "this is only a Git LFS pointer; run `git lfs pull` in the clone"
    why = " ".join(str(error).split())
    return f"not a Parquet file, or truncated or damaged ({why}); download it again"


def _lines(
    file: TextFile, columns: Mapping[str, TableColumn]
) -> Iterator[tuple[Sequence[int], pa.RecordBatch]]:
    for numbers, records in jsonl.batches(file):
        if not records:
            continue
        there = dict.fromkeys(name for record in records for name in record)
        chosen = _chosen(file, [*there], columns)
        arrays = {}
        for name, own in chosen.items():
            wanted = columns[name]
            values = [record.get(own) for record in records]
            if wanted.type == _TEXT:
                values = [str(one) if type(one) is int else one for one in values]
            arrays[name] = _column(file, numbers, own, values, wanted.type)
        yield numbers, pa.RecordBatch.from_pydict(arrays)


def _column(
    file: TextFile, numbers: Sequence[int], name: str, values: list[Any], type_: pa.DataType
) -> pa.Array:
    try:
        return _exactly(values, type_)
    except (pa.ArrowException, TypeError):
        for number, value in zip(numbers, values, strict=True):
            try:
                _exactly([value], type_)
            except (pa.ArrowException, TypeError):
                said = f"the field {name!r} must be {type_}, not {value!r:.60}"
                raise file.error(number, said) from None
        raise


def _exactly(values: list[Any], type_: pa.DataType) -> pa.Array:
    """Converts values to an array without truncating fractions, as Arrow does if given the type."""
    return pa.array(values, type_) if type_ == _TEXT else pa.array(values).cast(type_)
