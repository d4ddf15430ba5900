"""Reads TREC run files (`query Q0 document rank score tag`) in blocks, by a few threads.

Files of three columns are read as `query document rank`, with the rank in the column `score`.

A line with # as its first visible character is a comment, as in trec_eval 10; elsewhere # is an
ordinary character.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

import pyarrow as pa

from harness.errors import UsageError
from harness.runfiles.fields import RUN
from harness.runfiles.raw import LONGEST_LINE, read_lines, unpacked
from harness.runfiles.tables import header

T = TypeVar("T")

_COLUMNS = ["query", "q0", "document", "rank", "score", "tag"]
_THREE = ["query", "document", "score"]
_BLOCK = 1 << 22  # bytes: small enough for the processor's cache, large enough for NumPy
_THREADS = 4

_MOST = 9  # maximum fields of a line; two joined lines of five or six have more
_COMMENT = b"#"
_JSON = (b'{"', b'{ "', b"[{", b"[ {")
_COMMENTS = re.compile(rb"\n[ \t]*#[^\n]*")  # its first byte is fast to search for
_TYPES = {
    "query": pa.dictionary(pa.int32(), pa.string()),
    "document": pa.string(),
    "score": pa.float64(),
}


@dataclass(frozen=True)
class _Form:
    """Columns and delimiter of a file, detected from line `first`, the first non-comment."""

    columns: list[str]
    delimiter: str
    first: int


def map_blocks(path: Path, work: Callable[[pa.Table], T]) -> Iterator[T]:
    """Yields the result of `work` for each block of a file, in order; reads `.gz` etc. too.

    A block is a table with columns query (dictionary), document and score, one chunk each. Adjacent
    lines of a query are in one block. `work` runs in threads. Raises UsageError, naming file and
    line, for an unreadable file.
    """
    form = _form(path)
    threads = min(os.cpu_count() or 1, _THREADS)
    # Buffers are reused, since allocating new memory costs more than reading into it.
    free: SimpleQueue[bytearray] = SimpleQueue()
    for _ in range(threads + 1):
        free.put(bytearray(_BLOCK))

    def call(buffer: bytearray, end: int) -> T:
        try:
            block: bytes | memoryview = memoryview(buffer)[:end]
            if buffer.find(_COMMENT, 0, end) >= 0:
                block = _COMMENTS.sub(b"", b"\n" + block).lstrip(b"\n")
            table = _parsed(block, form, path)
        finally:
            free.put(buffer)
        return work(table)

    with ThreadPoolExecutor(threads) as pool:
        under_way: deque[Future[T]] = deque()
        try:
            for buffer, end in _blocks(path, free):
                under_way.append(pool.submit(call, buffer, end))
                if len(under_way) > threads:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()


def has_three_columns(path: Path) -> bool:
    """Tests whether the first line is `query document rank`, as in MS MARCO's run files."""
    return path.is_file() and _is_of_three(_first_line(path)[1])


def _is_of_three(line: bytes) -> bool:
    fields = line.split()
    return len(fields) == 3 and fields[-1].isdigit()


def _form(path: Path) -> _Form:
    if not path.is_file():
        raise UsageError(f"{path}: no such run file")
    number, first = _first_line(path)
    if not first:
        raise UsageError(f"{path}: empty; a run file has lines `query Q0 document rank score tag`")
    if first.startswith(_JSON) and first.split()[1:2] != [b"Q0"]:  # ids may begin like JSON
        raise UsageError(
            f"{path}, line {number}: is JSON; call it .json, or .jsonl for lines of it"
        )
    columns = _THREE if _is_of_three(first) else _COLUMNS[: len(first.split())]
    if len(columns) < 5 and columns is not _THREE:
        raise UsageError(
            f"{path}, line {number}: {len(columns)} fields, but a run file has "
            f"`query Q0 document rank score tag`{_other_form(first)}"
        )
    tabs = first.count(b"\t") == len(columns) - 1 and b" " not in first
    return _Form(columns, "\t" if tabs else " ", number)


def _other_form(first: bytes) -> str:
    """Returns advice if the first line is the header of a table."""
    return (
        "; a table with a header line is called .csv or .tsv" if RUN.heads(header(first)[0]) else ""
    )


def _first_line(path: Path) -> tuple[int, bytes]:
    """Returns number and text, stripped, of the first line that is no comment; else empty."""
    number = 0
    for number, line in enumerate(read_lines(path), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith(_COMMENT):
            return number, stripped
    return number, b""


def _blocks(path: Path, free: SimpleQueue[bytearray]) -> Iterator[tuple[bytearray, int]]:
    """Yields (buffer, number of bytes filled); blocks end between queries.

    The caller must return each buffer to `free`.
    """
    rest, looked = b"", False
    with unpacked(path) as stream:
        while True:
            buffer = free.get()
            if len(buffer) <= 2 * len(rest):  # a query exceeds the block: enlarge it
                buffer = bytearray(4 * len(rest))
            if len(buffer) > LONGEST_LINE and not looked:  # too long lines are refused
                deque(read_lines(path), maxlen=0)
                looked = True
            buffer[: len(rest)] = rest
            end = len(rest) + _read_into(stream, memoryview(buffer)[len(rest) :])
            cut = _last_query(buffer, end) if end == len(buffer) else end
            rest = bytes(memoryview(buffer)[cut:end])
            if cut:
                yield buffer, cut
            else:
                free.put(buffer)
            if end < len(buffer):
                return


def _read_into(stream: Any, buffer: memoryview) -> int:
    """Fills the buffer, or reads up to the end of the file; returns the number of bytes."""
    filled = 0
    while filled < len(buffer):
        n = stream.readinto(buffer[filled:])
        if not n:
            break
        filled += n
    return filled


def _last_query(data: bytearray, end: int) -> int:
    """Returns the offset of the last query among whole lines; 0 if there is no other query."""
    end = data.rfind(b"\n", 0, end)
    line = data.rfind(b"\n", 0, max(end, 0)) + 1
    while line and data.startswith(_COMMENT, line):  # comments belong to the lines above
        end = line - 1
        line = data.rfind(b"\n", 0, end) + 1
    found = re.match(rb"[ \t]*\S+[ \t]", data[line:end])
    if end < 0 or found is None or data.startswith(found[0]):
        return 0
    mark = b"\n" + found[0]
    window = 1 << 16
    while True:
        low = max(0, line - window)
        at = data.find(mark, low, end)
        if low == 0 or at > data.find(b"\n", low):  # a line of another query precedes
            return at + 1
        window *= 4


def _parsed(block: bytes | memoryview, form: _Form, path: Path) -> pa.Table:
    if not len(block):  # only comments
        return pa.schema(_TYPES.items()).empty_table()
    try:
        return _csv(block, form)
    except pa.ArrowInvalid:
        # Columns aligned with several blanks, or a broken line: fold the blanks and parse again.
        try:
            return _csv(_folded(bytes(block)), _Form(form.columns, " ", form.first))
        except pa.ArrowInvalid as error:
            problem = _broken_line(path, form, str(error))
            raise UsageError(f"{path}{problem}") from None


def _csv(data: bytes | memoryview, form: _Form) -> pa.Table:
    from pyarrow import csv

    return csv.read_csv(
        pa.py_buffer(data),
        # Arrow's own allocator grows slowly; threads would split the block again.
        memory_pool=pa.system_memory_pool(),
        read_options=csv.ReadOptions(
            column_names=form.columns, block_size=len(data) + 1, use_threads=False
        ),
        parse_options=csv.ParseOptions(
            delimiter=form.delimiter, quote_char=False, escape_char=False
        ),
        convert_options=csv.ConvertOptions(
            include_columns=list(_TYPES),
            column_types=_TYPES,
            null_values=[],
            strings_can_be_null=False,
        ),
    )


def _folded(data: bytes) -> bytes:
    data = re.sub(rb"(?m)^ | $", b"", re.sub(rb"[ \t\r]+", b" ", data))
    # Fields after the tag are ignored, as in trec_eval, unless they could be a separate line.
    return re.sub(rb"(?m)^(\S+(?: \S+){5}) \S+(?: \S+){,2}$", rb"\1", data)


def nan_line(path: Path) -> int:
    """Returns the number, counted from 1, of the first line with a NaN score."""
    scores = (_fields(line)[4:5] for line in read_lines(path))
    return next(
        n for n, score in enumerate(scores, 1) if score and float(score[0]) != float(score[0])
    )


def _fields(line: bytes) -> list[bytes]:
    """Returns the fields of a line; none for a comment."""
    values = line.split()
    return [] if values and values[0].startswith(_COMMENT) else values


def _broken_line(path: Path, form: _Form, error: str) -> str:
    """Reads a run file line by line; returns the number and problem of the first bad line."""
    fields, at = len(form.columns), form.columns.index("score")
    for number, line in enumerate(read_lines(path), 1):
        values = _fields(line)
        # Fields after the tag are ignored, but a file without tags must not have a few of them.
        if values and (len(values) < fields or len(values) > fields < 6):
            return f", line {number}: {len(values)} fields where line {form.first} has {fields}"
        if len(values) > _MOST:
            return f", line {number}: {len(values)} fields; two lines, with no line end between?"
        try:
            _ = values and (line.decode(), float(values[at]))
        except UnicodeDecodeError:
            return f", line {number}: not UTF-8"
        except ValueError:
            what = "rank" if fields == 3 else "score"
            return f", line {number}: the {what} {values[at].decode()!r} is not a number"
    return f": cannot be read ({error})"
