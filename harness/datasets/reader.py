"""Reads a prepared dataset: memory-mapped columns, exposed as records."""

from __future__ import annotations

import mmap
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.datasets.manifest import CHANGES_FILE, SCOPES_FILE, Manifest
from harness.errors import UsageError
from harness.io.checksums import Blocks, FileSums, read_sums
from harness.runfiles.arrow import take
from harness.schema import Ability, Document, Query

if TYPE_CHECKING:
    from harness.datasets.scopes import Scopes

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

_FEW = 16  # if more than 1/16 of the rows are read, checking the whole column is faster
_MEMBERS = 1 << 20  # documents of haystacks in memory at once
_POPULATE_READ = 22  # MADV_POPULATE_READ of Linux 5.14, missing in Python's mmap


class Documents(Sequence[Document]):
    """The documents of a dataset, by row. Reading one takes microseconds.

    `starts`: the first row of each batch of the table, and the number of rows.
    """

    def __init__(
        self, table: pa.Table, mapped: mmap.mmap | None = None, blocks: Blocks | None = None
    ) -> None:
        """`mapped` is the memory-mapped file of the table, `blocks` its checksums, checked before
        data is read. Reading raises DamagedError for damaged data."""
        self._table = table
        self.mapped = mapped
        self._blocks = blocks
        self._batches = table.to_batches()  # split where any column is
        self._checked: set[str] = set()  # columns that are fully checked
        starts = np.cumsum([0] + [len(batch) for batch in self._batches])
        self.starts: list[int] = starts.tolist()

    def __len__(self) -> int:
        return self.starts[-1]

    @property
    def table(self) -> pa.Table:
        """All columns and rows, after checking them."""
        self.check()
        return self._table

    def check(self) -> None:
        """Checks all columns. Raises DamagedError."""
        for name in self._table.column_names:
            self._check(name)

    @property
    def names(self) -> list[str]:
        """Names of the columns."""
        return list(self._table.column_names)

    def part(self, low: int, high: int) -> Documents:
        """Returns the documents of rows `low` to `high`."""
        return Documents(self._table.slice(low, high - low), self.mapped, self._blocks)

    def none(self) -> Documents:
        """Returns an empty table with the same columns, which can be sent to other processes."""
        return Documents(self._table.slice(0, 0))

    def without(self, *names: str) -> Documents:
        """Returns the documents with null in these columns, without a column `user_id`."""
        table = self._table.select([name for name in self.names if name != "user_id"])
        for name in names:
            at = table.column_names.index(name)
            table = table.set_column(at, name, pa.nulls(len(table)))
        return Documents(table, self.mapped, self._blocks)

    def lack(self, name: str) -> int:
        """Returns the number of nulls in a column."""
        return int(self._table[name].null_count)

    def chunk(self, name: str, number: int, rows: Int64) -> pa.Array:
        """Returns a column of a batch after checking `rows` (positions in the batch)."""
        found = self._batches[number].column(name)
        self._check_rows(found, rows)
        return found

    def _check(self, name: str, rows: Int32 | None = None) -> None:
        """Checks the rows (None: all) of a column before they are read."""
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
        """Checks rows of a batch's column; of text columns, only the texts of these rows."""
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
        """Loads all memory pages of a chunk's texts at once; faster than one by one if most are
        read."""
        data = texts.buffers()[2]
        if self.mapped is None or not data or not hasattr(self.mapped, "madvise"):
            return
        at = data.address - np.frombuffer(self.mapped, np.uint8).ctypes.data
        first = at // mmap.PAGESIZE * mmap.PAGESIZE
        with suppress(OSError):  # unsupported: pages are loaded one by one
            self.mapped.madvise(_POPULATE_READ, first, at + data.size - first)

    def release(self) -> None:
        """Releases the memory pages of the file, which stay in the system's file cache, so that
        reading millions of texts does not fill the process's memory."""
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
        """Returns a whole column (not copied) or its given rows (copied)."""
        self._check(name, rows)
        column = self._table[name]
        return column if rows is None else take(column, rows)

    def contents(self, rows: Int32 | None = None) -> list[str]:
        """Returns title and text of each document as one string (see Document.content)."""
        texts: list[str] = self.column("text", rows).to_pylist()
        if self.lack("title") == len(self):
            return texts
        return [
            f"{title} {text}".strip() if title else text
            for title, text in zip(self.column("title", rows).to_pylist(), texts, strict=True)
        ]


BETWEEN = "@"
"""Stands between the name of a haystack and the time as of which it is (see as_of.AsOfWriter)."""


@dataclass(frozen=True)
class DatasetQrels:
    """One qrels set, as columns sorted by query.

    Shapes: all of length m. `document` is a row, -1 where the corpus lacks the document;
    `evidence_id` is the number of the evidence item, unique over the dataset (see schema.Qrel).
    """

    query: Int32
    document: Int32
    document_id: pa.Array
    grade: Int32
    evidence_id: Int32

    def __len__(self) -> int:
        return len(self.query)


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """A change (see schema.Change) by rows of the document table; `by_row` None: no document."""

    kind: str
    row: int
    timestamp: int
    by_row: int | None


class Dataset:
    """A prepared dataset, as returned by `open_dataset`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = Manifest.read(folder)
        self._qrels: dict[str, DatasetQrels] = {}
        sums = read_sums(folder)
        self._haystacks = _read(folder / "haystacks.arrow", sums)
        self.haystack_ids: list[str] = self._haystacks["id"].to_pylist()
        self.query_table = _read(folder / "queries.arrow", sums)
        table, mapped, blocks = _mapped(folder / "documents.arrow", sums)
        self.scopes: Scopes | None = None
        if SCOPES_FILE in self.manifest.files:
            from harness.datasets.scopes import Scopes

            read = _read(folder / SCOPES_FILE, sums)
            self.scopes = Scopes(read, len(table), len(self.query_table))
            table = table.append_column("user_id", self.scopes.document_users())
        self.documents = Documents(table, mapped, blocks)
        # Opened with the rest: later, the folder may hold a newer dataset.
        self._judged = _read(folder / "qrels.arrow", sums)
        changed = CHANGES_FILE in self.manifest.files
        self._changed = _read(folder / CHANGES_FILE, sums) if changed else None

    @property
    def name(self) -> str:
        """`family` or `family/variant`."""
        return self.manifest.name

    @property
    def fingerprint(self) -> str:
        """Hexadecimal sha256 of the content."""
        return self.manifest.fingerprint

    def __repr__(self) -> str:
        m = self.manifest
        return f"<Dataset {m.name} {m.granularity} {m.text} {m.fingerprint[:8]} {m.counts}>"

    def query(self, row: int) -> Query:
        """Returns the query at `row`."""
        values = {
            name: self.query_table[name][row].as_py() for name in self.query_table.column_names
        }
        return Query(
            values["id"],
            values["text"],
            self.haystack_ids[values["haystack"]],
            Ability(values["ability"]),
            values["category"],
            values["timestamp"],
            tuple(values["answers"]),
            *(self.scopes.reader(row) if self.scopes else ()),
        )

    @cached_property
    def shown_documents(self) -> Documents:
        """The documents without ids and sessions, for retrievers."""
        return self.documents.without("id", "session")

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.query_table)

    @cached_property
    def query_ids(self) -> list[str]:
        """Ids in table order."""
        ids: list[str] = self.query_table["id"].to_pylist()
        return ids

    @cached_property
    def query_rows(self) -> dict[str, int]:
        """Row of each query, by its id."""
        return {id_: row for row, id_ in enumerate(self.query_ids)}

    @cached_property
    def query_haystack(self) -> Int32:
        """Haystack index of each query."""
        return np.asarray(self.query_table["haystack"].to_numpy(), np.int32)

    @cached_property
    def query_shares(self) -> Int32:
        """Cluster number of each query. Queries of a cluster share documents, so they are not
        independent: they have the same haystack, or as-of states of it."""
        if not self.manifest.as_of:
            return self.query_haystack
        numbers = {name: i for i, name in enumerate(dict.fromkeys(self.haystack_bases))}
        of_haystack = np.array([numbers[name] for name in self.haystack_bases], np.int32)
        return of_haystack[self.query_haystack]

    @cached_property
    def haystack_bases(self) -> list[str]:
        """The haystacks' names without their as-of times."""
        return [*map(base, self.haystack_ids)] if self.manifest.as_of else self.haystack_ids

    @cached_property
    def abilities(self) -> npt.NDArray[np.str_]:
        """Ability of each query."""
        return np.array(self.query_table["ability"].to_pylist(), dtype=str)

    @cached_property
    def categories(self) -> npt.NDArray[np.str_]:
        """The dataset's own category of each query."""
        return np.array(self.query_table["category"].to_pylist(), dtype=str)

    def haystack_rows(self, haystack: int) -> Int32:
        """Returns the document rows of a haystack, in the dataset's own order."""
        rows = self._haystacks["rows"][haystack]
        if not rows.is_valid:
            return np.arange(len(self.documents), dtype=np.int32)
        return np.asarray(rows.values.to_numpy(), np.int32)

    @cached_property
    def lists_documents(self) -> npt.NDArray[np.bool_]:
        """Whether each haystack lists its documents; else it has all."""
        return np.asarray(self._haystacks["rows"].is_valid().to_numpy())

    def members(self, haystacks: Int32) -> Iterator[tuple[Int32, Int32]]:
        """Yields (haystack, document row) of every document that these haystacks list, in parts of
        about a million."""
        distinct = np.flatnonzero(np.bincount(haystacks)).astype(np.int32)
        ends = np.cumsum(self.haystack_sizes[distinct])
        for part in np.split(distinct, np.flatnonzero(np.diff(ends // _MEMBERS)) + 1):
            lists = take(self._haystacks["rows"], part).combine_chunks()
            yield part[pc.list_parent_indices(lists).to_numpy()], lists.flatten().to_numpy()

    def rows_by_id(self, haystack: int) -> dict[str, int]:
        """Maps the document ids of a haystack to rows."""
        rows = self.haystack_rows(haystack)
        ids = self.documents.column("id", rows).to_pylist()
        return dict(zip(ids, rows.tolist(), strict=True))

    @cached_property
    def haystack_sizes(self) -> Int64:
        """Number of documents of each haystack."""
        sizes = pc.list_value_length(self._haystacks["rows"]).fill_null(len(self.documents))
        return np.asarray(sizes.to_numpy(), np.int64)

    @cached_property
    def haystack_starts(self) -> Int64:
        """Total number of documents in the haystacks before each one, with repetitions."""
        return np.cumsum(self.haystack_sizes) - self.haystack_sizes

    def haystack_timestamps(self, haystack: int) -> pa.Array:
        """Returns timestamps aligned with `haystack_rows`; null for undated documents."""
        stamps = self._haystacks["timestamps"][haystack]
        if stamps.is_valid:
            return stamps.values
        if self.documents.lack("timestamp") == len(self.documents):
            return pa.nulls(self.haystack_sizes[haystack], pa.int64())
        rows = self.haystack_rows(haystack) if self.lists_documents[haystack] else None
        return self.documents.column("timestamp", rows).combine_chunks()

    @cached_property
    def qrels_sets(self) -> list[str]:
        """Names of the qrels sets; `default` is the normalised one."""
        return self.manifest.qrels_sets

    @property
    def has_changes(self) -> bool:
        """True if any haystack has changes of documents."""
        return self._changed is not None

    def changes(self, haystack: int) -> list[ChangedRow]:
        """Returns the changes of a haystack, in time order."""
        return self._changes_by_haystack.get(haystack, [])

    @cached_property
    def _changes_by_haystack(self) -> dict[int, list[ChangedRow]]:
        found: dict[int, list[ChangedRow]] = {}
        if self._changed is not None:
            columns = (column.to_pylist() for column in self._changed.columns)
            for haystack, kind, row, timestamp, by_row in zip(*columns, strict=True):
                changed = ChangedRow(kind, row, timestamp, by_row)
                found.setdefault(haystack, []).append(changed)
        return found

    @cached_property
    def session_codes(self) -> Int32:
        """A number for each document's session; documents without one get -1."""
        column = self.documents.column("session").dictionary_encode().unify_dictionaries()
        codes = [pc.fill_null(chunk.indices, -1).to_numpy() for chunk in column.chunks]
        return np.concatenate([np.zeros(0, np.int32), *codes])

    @cached_property
    def rows_with_query_id(self) -> Int32:
        """Row of the document with the same id as each query, -1 if there is none."""
        rows = np.full(self.n_queries, -1, np.int32)
        ids = self.query_table["id"].combine_chunks()
        start = 0
        for chunk in self.documents.column("id").chunks:
            same = pc.index_in(chunk, value_set=ids)
            at = np.flatnonzero(same.is_valid().to_numpy(zero_copy_only=False))
            rows[same.take(pa.array(at)).to_numpy()] = start + at
            start += len(chunk)
        return rows

    def qrels(self, name: str = "default") -> DatasetQrels:
        """Returns one qrels set; an unknown name is an empty set."""
        if name not in self._qrels:
            self._qrels[name] = self._read_qrels(name)
        return self._qrels[name]

    def _read_qrels(self, name: str) -> DatasetQrels:
        table = self._judged
        table = table.filter(pc.equal(table["qrels_set"], name)).combine_chunks()
        units = table["evidence_id"]
        own = np.arange(len(table), dtype=np.int32)
        if units.null_count < len(units):
            names = pc.binary_join_element_wise(
                table["query"].cast(pa.string()), pc.fill_null(units, ""), "\0"
            )
            codes = names.combine_chunks().dictionary_encode().indices.to_numpy() + len(table)
            named = units.is_valid().to_numpy(zero_copy_only=False)
            own = np.where(named, codes, own).astype(np.int32)
        document_id = table["document_id"].combine_chunks()
        return DatasetQrels(
            np.asarray(table["query"].to_numpy(), np.int32),
            np.asarray(table["document"].to_numpy(), np.int32),
            document_id.chunk(0) if isinstance(document_id, pa.ChunkedArray) else document_id,
            np.asarray(table["grade"].to_numpy(), np.int32),
            own,
        )


def base(haystack: str) -> str:
    """Returns the name of the whole haystack of an as-of haystack."""
    return haystack.rpartition(BETWEEN)[0]


def choose_queries(dataset: Dataset, limit: int | None, seed: int) -> npt.NDArray[np.int64]:
    """Returns rows of the queries to run, in the dataset's order.

    With a limit: a seeded sample, stratified by ability (files are often grouped by ability). Each
    ability gets its share, rounded by largest remainder, and at least one query if the limit
    allows. Raises UsageError for a dataset without queries.
    """
    n = dataset.n_queries
    if n == 0:
        raise UsageError(f"{dataset.name} has no queries; does --source name the right file?")
    if limit is None or limit >= n:
        return np.arange(n)
    rng = np.random.default_rng(seed)
    names, ability = np.unique(dataset.abilities, return_inverse=True)
    sizes = np.bincount(ability)
    shares = sizes * limit / n
    take = np.floor(shares).astype(int)
    if limit >= len(names):
        take = np.maximum(take, 1)
    while take.sum() < limit:
        take[np.argmax(np.where(take < sizes, shares - take, -np.inf))] += 1
    while take.sum() > limit:
        take[np.argmax(np.where(take > 1, take - shares, -np.inf))] -= 1
    chosen = [rng.permutation(np.flatnonzero(ability == i))[:count] for i, count in enumerate(take)]
    return np.sort(np.concatenate(chosen))


def last_of_base(haystacks: Sequence[str], number: int) -> int:
    """Returns the number of the latest as-of haystack with the same base as this one."""
    own = base(haystacks[number])
    while number + 1 < len(haystacks) and base(haystacks[number + 1]) == own:
        number += 1
    return number


def _read(path: Path, sums: Mapping[str, FileSums]) -> pa.Table:
    """Reads a small table, checked as a whole."""
    table, mapped, blocks = _mapped(path, sums)
    blocks.check(0, len(mapped))
    return table


def _mapped(path: Path, sums: Mapping[str, FileSums]) -> tuple[pa.Table, mmap.mmap, Blocks]:
    """Memory-maps an Arrow file and reads its schema and offsets.

    Raises DamagedError if their checksums are wrong.
    """
    with open(path, "rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    heads, of_blocks = sums[path.name]
    blocks = Blocks(path, mapped, of_blocks)
    for low, high in heads.tolist():
        blocks.check(low, high)
    return pa.ipc.open_file(pa.py_buffer(mapped)).read_all(), mapped, blocks
