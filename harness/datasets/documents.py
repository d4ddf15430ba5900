"""The documents of a prepared dataset, by row, from a mapped file that is checked as it is read."""

from __future__ import annotations

import mmap
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.io.checksums import Blocks
from harness.runfiles.arrow import take
from harness.schema import Document

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

_FEW = 16  # one row of so many: from there on, one go through the column costs less
_POPULATE_READ = 22  # MADV_POPULATE_READ of Linux 5.14, which Python does not name


class Documents(Sequence[Document]):
    """The documents of a dataset, by row. Any of them is read in microseconds.

    `starts`: the first row of each batch of the table, and how many rows there are.
    """

    def __init__(
        self, table: pa.Table, mapped: mmap.mmap | None = None, blocks: Blocks | None = None
    ) -> None:
        """`mapped` is the file that the table lies in, `blocks` its checksums: what is read is held
        against them before, and DamagedError is raised where it is not what was written."""
        self._table = table
        self.mapped = mapped
        self._blocks = blocks
        self._batches = table.to_batches()  # where columns end elsewhere, cut as all of them are
        self._checked: set[str] = set()  # columns of which nothing is left to look at
        starts = np.cumsum([0] + [len(batch) for batch in self._batches])
        self.starts: list[int] = starts.tolist()

    def __len__(self) -> int:
        return self.starts[-1]

    @property
    def table(self) -> pa.Table:
        """All columns and rows; all of it is checked."""
        self.check()
        return self._table

    def check(self) -> None:
        """Hold all of it against its checksums. Raises DamagedError."""
        for name in self._table.column_names:
            self._check(name)

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        return list(self._table.column_names)

    def part(self, low: int, high: int) -> Documents:
        """The documents of some rows, as this one has them."""
        return Documents(self._table.slice(low, high - low), self.mapped, self._blocks)

    def none(self) -> Documents:
        """No document, in the same columns: can be sent to another process, as a file cannot."""
        return Documents(self._table.slice(0, 0))

    def without(self, *names: str) -> Documents:
        """The documents without what stands in these columns."""
        table = self._table
        for name in names:
            at = table.column_names.index(name)
            table = table.set_column(at, name, pa.nulls(len(table)))
        return Documents(table, self.mapped, self._blocks)

    def lack(self, name: str) -> int:
        """How many documents have nothing in a column."""
        return int(self._table[name].null_count)

    def chunk(self, name: str, number: int, rows: Int64) -> pa.Array:
        """One column of one batch, of which these rows (counted in it) will be read."""
        found = self._batches[number].column(name)
        self._check_rows(found, rows)
        return found

    def _check(self, name: str, rows: Int32 | None = None) -> None:
        """Hold what is about to be read of a column against its checksums."""
        if self._blocks is None or name in self._checked:
            return
        if rows is None or len(rows) * _FEW > len(self):
            for batch in self._batches:
                self._check_buffers(batch.column(name))
            self._checked.add(name)
            return
        ordered = np.sort(rows).astype(np.int64)
        cuts = np.searchsorted(ordered, self.starts)
        for number in np.flatnonzero(np.diff(cuts)).tolist():
            mine = ordered[cuts[number] : cuts[number + 1]] - self.starts[number]
            self._check_rows(self._batches[number].column(name), mine)

    def _check_buffers(self, chunk: pa.Array) -> None:
        if self._blocks is not None:
            for buffer in chunk.buffers():
                self._blocks.check_buffer(buffer)

    def _check_rows(self, chunk: pa.Array, rows: Int64) -> None:
        """Of texts only those of these rows: few of a batch of many are often read."""
        buffers = chunk.buffers()
        if self._blocks is None or len(buffers) != 3 or buffers[2] is None:
            self._check_buffers(chunk)
            return
        for buffer in buffers[:2]:
            self._blocks.check_buffer(buffer)
        ends = np.frombuffer(buffers[1], np.int32)[chunk.offset :]
        low = ends[rows].astype(np.int64)
        longest = int((ends[rows + 1] - low).max(initial=0))
        self._blocks.check_pieces(buffers[2], low, longest)

    def fetch(self, texts: pa.Array) -> None:
        """Bring in the pages of a chunk's texts at once, where most will be read: one by one, each
        costs more than the text that is on it."""
        data = texts.buffers()[2]
        if self.mapped is None or not data or not hasattr(self.mapped, "madvise"):
            return
        at = data.address - np.frombuffer(self.mapped, np.uint8).ctypes.data
        first = at // mmap.PAGESIZE * mmap.PAGESIZE
        with suppress(OSError):  # a system that does not know it reads page by page
            self.mapped.madvise(_POPULATE_READ, first, at + data.size - first)

    def release(self) -> None:
        """Let go of the file's pages that were read, which stay in the system's cache of files: who
        walks through millions of texts is not to hold them all."""
        if self.mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
            self.mapped.madvise(mmap.MADV_DONTNEED)

    def __getitem__(self, row: int) -> Document:  # type: ignore[override]
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of {len(self)} documents")
        at = bisect_right(self.starts, row) - 1
        batch, i = self._batches[at], row - self.starts[at]
        for column in batch.columns:
            self._check_rows(column, np.array([i]))
        values = [column[i].as_py() for column in batch.columns]
        return Document(values[0], values[1], values[2] or "", *values[3:])

    def __iter__(self) -> Iterator[Document]:
        for batch in self._batches:
            for column in batch.columns:
                self._check_buffers(column)
            for id_, text, title, *rest in zip(
                *(c.to_pylist() for c in batch.columns), strict=True
            ):
                yield Document(id_, text, title or "", *rest)

    def column(self, name: str, rows: Int32 | None = None) -> pa.ChunkedArray:
        """One column, whole (no copy) or for the given rows (a copy of those)."""
        self._check(name, rows)
        column = self._table[name]
        return column if rows is None else take(column, rows)

    def contents(self, rows: Int32 | None = None) -> list[str]:
        """Title and text of each document as one string (see Document.content)."""
        texts: list[str] = self.column("text", rows).to_pylist()
        if self.lack("title") == len(self):
            return texts
        return [
            f"{title} {text}".strip() if title else text
            for title, text in zip(self.column("title", rows).to_pylist(), texts, strict=True)
        ]
