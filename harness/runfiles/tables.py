"""Reads runs and qrels as Arrow columns from CSV, TSV and Parquet files and data frames.

A frame is an object that exports Arrow: pandas, polars and pyarrow by `__arrow_c_stream__`, Hugging
Face datasets by `with_format("arrow")`. Of these, only pyarrow is imported here.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeGuard

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.errors import UsageError
from harness.runfiles.arrow import to_numpy
from harness.runfiles.fields import FieldError, Fields, are_numbers, grade_of, note_unread
from harness.runfiles.raw import BYTE_ORDER_MARK, MARKED, read_bytes

_BYTE_ORDER_MARK = BYTE_ORDER_MARK.decode()
_SAMPLE = 1 << 16
LOOKED_AT = 10_000  # values of a text column that are tested for numbers
_ROW = 1 << 20  # bytes; longest row that Arrow's CSV reader always accepts


class Streams(Protocol):
    """A frame of pandas or polars, or an Arrow table."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Exports the rows by the Arrow C stream interface."""
        ...


class Formats(Protocol):
    """A Hugging Face dataset."""

    def with_format(self, type: str) -> Any:
        """Returns the same rows in another library's format."""
        ...


Frame = Streams | Formats
"""A table in memory with named columns."""


@dataclass(frozen=True)
class Columns:
    """Columns under their fields' own names, with the source of the rows for errors.

    `place` returns the position of a row, counted from 0, as `row 3` or `line 5`.
    """

    table: pa.Table
    source: str
    place: Callable[[int], str]

    def __contains__(self, name: str) -> bool:
        return name in self.table.column_names

    def error(self, row: int, what: str) -> UsageError:
        """Returns a UsageError that names a row."""
        return UsageError(f"{self.source}, {self.place(row)}: {what}")

    def ids(self, name: str) -> pa.ChunkedArray:
        """Returns a column of ids as text. Raises UsageError for missing ids and other types."""
        column = self.table[name]
        self._require(column, name, "give every id")
        type_ = column.type
        kind = type_.value_type if pa.types.is_dictionary(type_) else type_
        if not (_is_text(kind) or pa.types.is_integer(kind) or not len(column)):
            raise self._other(name, column.type, pa.string())
        return self._cast(column, name, pa.string())

    def numbers(self, name: str) -> npt.NDArray[np.float64] | None:
        """Returns a column of numbers; None if it is absent, or empty in every row.

        Raises UsageError if only some rows are empty, and for other types.
        """
        if name not in self:
            return None
        column = self.table[name]
        if column.null_count == len(column):
            return None if len(column) else np.zeros(0)
        self._require(column, name, f"give all {name}s or none")
        if pa.types.is_boolean(column.type):
            raise self._other(name, column.type, pa.float64())
        return np.asarray(to_numpy(self._cast(column, name, pa.float64())))

    def grades(self) -> npt.NDArray[np.int64] | None:
        """Returns the grades; None without that column. Raises UsageError for other values."""
        if "grade" not in self:
            return None
        column = self.table["grade"]
        if pa.types.is_signed_integer(column.type) and not column.null_count:
            return np.asarray(to_numpy(column.cast(pa.int64())))
        type_ = column.type
        kind = type_.value_type if pa.types.is_dictionary(type_) else type_
        if pa.types.is_temporal(kind) or pa.types.is_nested(kind):  # Python may not represent it
            raise self._other("grade", type_, pa.int64())
        found = []
        for row, value in enumerate(column.to_pylist()):
            try:
                found.append(grade_of(value))
            except FieldError as error:
                raise self.error(row, str(error)) from None
        return np.array(found, np.int64)

    def _require(self, column: pa.ChunkedArray, name: str, remedy: str) -> None:
        if column.null_count:
            row = pc.index(pc.is_null(column), True).as_py()
            raise self.error(row, f"no {name}, the first of {column.null_count} without; {remedy}")

    def _cast(self, column: pa.ChunkedArray, name: str, type_: pa.DataType) -> pa.ChunkedArray:
        try:
            return column.cast(type_)
        except pa.ArrowException as error:
            if not _is_text(column.type):
                raise self._other(name, column.type, type_, f" ({error})") from None
        texts = enumerate(column.to_pylist())
        row, text = next((row, text) for row, text in texts if not _is_number(text))
        raise self.error(row, f"the {name} {text!r:.60} is not a number")

    def _other(
        self, name: str, type_: pa.DataType, wanted: pa.DataType, why: str = ""
    ) -> UsageError:
        return UsageError(f"{self.source}: the column {name} holds {type_}, not {wanted}{why}")


def is_frame(value: object) -> TypeGuard[Frame]:
    """Tests whether a value is a table in memory."""
    return hasattr(value, "__arrow_c_stream__") or hasattr(value, "with_format")


def as_table(frame: Frame, what: str) -> pa.Table:
    """Converts a frame to an Arrow table. Raises UsageError; `what` names the frame in it."""
    try:
        if isinstance(frame, pa.Table):
            table = frame
        elif hasattr(frame, "__arrow_c_stream__"):
            table = pa.table(frame)
        elif hasattr(frame, "with_format"):  # `.data.table` includes filtered-out rows
            table = frame.with_format("arrow")[:]
        else:
            table = None
    except (pa.ArrowException, TypeError, ValueError, NotImplementedError, KeyError) as error:
        said = " ".join(str(error).split())
        raise UsageError(f"{what} cannot be taken as a table ({said:.200})") from None
    if not isinstance(table, pa.Table):
        kind = type(frame).__name__
        raise UsageError(f"{what}: {kind} is not a table; pass a data frame or an Arrow table")
    for i, field in enumerate(table.schema):
        if pa.types.is_dictionary(field.type):  # Arrow cannot `take` polars' values
            table = table.set_column(i, field.name, _decoded(table.column(i)))
    return table


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decodes a dictionary-encoded column."""
    chunks = []
    for chunk in column.chunks:
        values = chunk.dictionary
        if pa.types.is_string_view(values.type):
            values = values.cast(pa.string())
        chunks.append(values.take(chunk.indices.cast(pa.int64())))
    return pa.chunked_array(chunks, chunks[0].type if chunks else pa.string())


def of_frame(frame: Frame, fields: Fields, what: str) -> Columns:
    """Reads the fields of a frame. Raises UsageError; `what` names the frame in it."""
    table = as_table(frame, what)
    named = _named(fields, table.column_names, what, table.select)
    return Columns(named, what, lambda row: f"row {row}")


@contextmanager
def parquet_errors(path: object) -> Iterator[None]:
    """Raises UsageError for damaged Parquet files and values that Python cannot represent."""
    try:
        yield
    except UsageError:
        raise
    except (pa.ArrowException, OSError, ValueError, OverflowError, KeyError) as error:
        raise UsageError(f"{path}: not a readable Parquet file ({error})") from None


def of_parquet(path: Path, fields: Fields) -> Columns:
    """Reads the fields of a Parquet file. Raises UsageError for anything else."""
    import pyarrow.parquet as pq

    with parquet_errors(path), pq.ParquetFile(parquet_source(path)) as file:
        table = _named(fields, file.schema_arrow.names, str(path), file.read)
        table.validate(full=True)  # texts are UTF-8
    return Columns(table, str(path), lambda row: f"row {row}")


def parquet_source(path: Path) -> str | pa.BufferReader:
    """Returns the path of a Parquet file, or its bytes, decompressed, if it is compressed."""
    packed = path.suffix.lower() != ".parquet"
    return pa.BufferReader(read_bytes(path)) if packed else str(path)


def of_delimited(path: Path, fields: Fields) -> Columns:
    """Reads the fields of a CSV or TSV file as text; empty cells are null.

    Raises UsageError, naming the line, for anything else.
    """
    data = read_bytes(path)
    head, _, body = data.partition(b"\n")
    cells, delimiter = header(head)

    def read(names: list[str]) -> pa.Table:
        try:
            return _table(body, cells, delimiter, names)
        except pa.ArrowInvalid:  # a tab at the end of lines ends their last cell
            longer = rb"(?m)^((?:[^\t\n]*\t){%d}[^\t\r\n]*)\t(?=\r?$)" % (len(cells) - 1)
            return _table(re.sub(longer, rb"\1", body), cells, delimiter, names)

    try:
        table = _named(fields, cells, f"{path}, line 1", read)
    except pa.ArrowInvalid as error:
        raise _broken(path, data, len(cells), delimiter, str(error)) from None
    columns = Columns(table, str(path), lambda row: f"line {_line(data, delimiter, row)}")
    if (first := fields.field(cells[0])) in table.column_names:
        marked = pc.starts_with(table[first], _BYTE_ORDER_MARK)
        if pc.any(marked).as_py():
            raise columns.error(pc.index(marked, True).as_py(), f"the line {MARKED}")
    return columns


def _table(body: bytes, cells: list[str], delimiter: str, names: list[str]) -> pa.Table:
    from pyarrow import csv as arrow_csv

    types = dict.fromkeys(cells, pa.string())
    if not body.strip():
        return pa.schema([(name, pa.string()) for name in names]).empty_table()
    return arrow_csv.read_csv(
        pa.py_buffer(body),
        read_options=arrow_csv.ReadOptions(column_names=cells),
        parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=b'"' in body),
        convert_options=arrow_csv.ConvertOptions(
            include_columns=names,
            column_types=types,
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=True,
        ),
    )


FORMS = (".parquet", ".jsonl", ".ndjson", ".json", ".csv", ".tsv")
"""File name endings of the table formats."""


def form_of(path: Path) -> str:
    """Returns a file's format by its ending: one of FORMS (.ndjson is .jsonl), or empty."""
    ending = next((one.lower() for one in reversed(path.suffixes) if one.lower() in FORMS), "")
    return ".jsonl" if ending == ".ndjson" else ending


def header(line: bytes) -> tuple[list[str], str]:
    """Returns the cells of a header line and its delimiter: tab, semicolon or comma.

    The delimiter is the first of these that occurs in the line.
    """
    text = line.decode(errors="replace").rstrip("\r\n")
    delimiter = next((one for one in "\t;" if one in text), ",")
    try:
        row = next(csv.reader([text], delimiter=delimiter, strict=True), [])
    except csv.Error:
        row = text.split(delimiter)
    return [cell.strip() for cell in row], delimiter


def has_header(path: Path, fields: Fields, *, spoilt: bool = False) -> bool:
    """Tests whether the first line of a delimited file names the required fields; with `spoilt`,
    also accepts a line that resembles such a header."""
    cells, _ = header(read_bytes(path, _SAMPLE).partition(b"\n")[0])
    return fields.heads(cells) or (spoilt and fields.resembles(cells))


def _named(
    fields: Fields, names: list[str], where: str, read: Callable[[list[str]], pa.Table]
) -> pa.Table:
    """Returns the columns of `fields` under the fields' names; `read` loads columns by name."""
    try:
        found, unread = fields.read(names), fields.unread(names)
        note_unread(where, unread)
        table = read([*found.values()]).rename_columns([*found])
        said = [name for name in found if table[name].null_count < len(table)]
        if unread and fields.numbers and not {*fields.numbers} & {*said}:
            others = read(unread)
            fields.refuse_numbers(said, (one for one in unread if holds_numbers(others[one])))
    except FieldError as error:
        raise UsageError(f"{where}: {error}") from None
    return table


def holds_numbers(column: pa.ChunkedArray) -> bool:
    """Tests whether a column holds numbers, numbers as text, or lists of them."""
    of = pa.types
    column = (_decoded(column) if of.is_dictionary(column.type) else column).drop_null()
    type_ = column.type
    if of.is_list(type_) or of.is_large_list(type_):
        type_ = type_.value_type
    if _is_text(type_):
        return are_numbers(column.slice(0, LOOKED_AT).to_pylist())
    numeric = of.is_integer(type_) or of.is_floating(type_) or of.is_decimal(type_)
    return bool(numeric and len(column))


def _is_text(type_: pa.DataType) -> bool:
    of = pa.types
    return bool(of.is_string(type_) or of.is_large_string(type_) or of.is_string_view(type_))


def _is_number(text: str) -> bool:
    try:
        return bool(pa.scalar(text).cast(pa.float64()).is_valid)
    except pa.ArrowException:
        return False


def _rows(data: bytes, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yields (line, cells) of each row below the header; skips blank lines, as Arrow does."""
    lines = data.split(b"\n")
    reader = csv.reader((f"{line.decode()}\n" for line in lines), delimiter=delimiter, strict=True)
    start = 1
    for cells in reader:
        if cells and start > 1:
            yield start, cells
        start = reader.line_num + 1


def _line(data: bytes, delimiter: str, row: int) -> int:
    """Returns the line on which a row begins, or the last readable line before it."""
    found = 1
    try:
        for at, (number, _) in enumerate(_rows(data, delimiter)):
            found = number
            if at == row:
                break
    except csv.Error:
        pass
    return found


def _broken(path: Path, data: bytes, width: int, delimiter: str, error: str) -> UsageError:
    """Returns an error that names the unreadable line and the reason."""
    number = 1
    try:
        for number, cells in _rows(data, delimiter):
            if len(cells) != width:
                return UsageError(
                    f"{path}, line {number}: {len(cells)} cells where the header has {width}"
                )
    except UnicodeDecodeError:
        return UsageError(f"{path}, line {_not_utf8(data)}: not UTF-8")
    except csv.Error as broken:
        return UsageError(f"{path}, after line {number}: {broken}; correct the quotes")
    if long := next((n for n, line in enumerate(data.split(b"\n"), 1) if len(line) > _ROW), 0):
        return UsageError(
            f"{path}, line {long}: a row of more than {_ROW} bytes does not contain ids"
        )
    return UsageError(f"{path}: cannot be read ({' '.join(error.split())})")


def _not_utf8(data: bytes) -> int:
    for number, line in enumerate(data.split(b"\n"), 1):
        try:
            line.decode()
        except UnicodeDecodeError:
            return number
    raise AssertionError("unreachable")
