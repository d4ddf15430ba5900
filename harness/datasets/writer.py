"""Writes a normalised dataset: Arrow files, in constant memory."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from harness.datasets.columns import TableFile, fingerprint, typed_array
from harness.datasets.manifest import (
    CHANGES,
    CHANGES_FILE,
    DOCUMENTS,
    FILES,
    HAYSTACKS,
    QRELS,
    QUERIES,
    SCOPES,
    SCOPES_FILE,
    Repair,
)
from harness.errors import UsageError
from harness.io.checksums import write_sums
from harness.schema import Ability, Change

_BATCH_DOCUMENTS = 1 << 13
_BATCH_CHARACTERS = 1 << 18  # small enough for the cache, and for the heap to be used again
_EXAMPLES = 20

NOT_HELD = (
    "judgements of documents that the corpus does not hold: kept; they count as relevant and "
    "cannot be found"
)


class DatasetWriter:
    """Writer to which an adapter adds documents, haystacks, queries and qrels.

    They may be added in any order, except that a haystack refers to rows that were added before it.
    Nothing is valid until `finish`.
    """

    def __init__(self, folder: Path, *, unknown_documents: str = "refuse", bar: Any = None) -> None:
        """`unknown_documents`: `refuse` or `keep` judgements of documents the corpus lacks.

        `bar`, if any, shows how many documents were written.
        """
        self._folder = folder
        self._bar = bar
        self._unknown_documents = unknown_documents
        self._tables = {name: TableFile(folder / name, schema) for name, schema in FILES.items()}
        self._documents = columns(DOCUMENTS)
        self._pending_characters = 0
        self._document_count = 0
        self._document_ids = Repeated()
        self._queries: dict[str, int] = {}
        self._query_haystack: list[str] = []
        self._query_columns = columns(QUERIES)
        self._haystacks: dict[str, int] = {}
        self._haystack_columns = columns(HAYSTACKS)
        self._judged = columns(QRELS)
        self._judged_query: list[str] = []
        self._changes: list[tuple[Change, str]] = []
        self._owners: dict[int, str] = {}  # of documents that have a user
        self._readers: dict[str, tuple[str, list[str]]] = {}  # user and groups of queries
        self._repairs: dict[str, list[str]] = {}
        self._repair_counts: Counter[str] = Counter()
        self.origins: list[str] = []

    def __enter__(self) -> DatasetWriter:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        for table in self._tables.values():
            if error is None:
                table.close()
            else:
                table.abandon()

    # -- what adapters call -----------------------------------------------------------------------

    def document(  # noqa: PLR0913 - the fields of a document
        self,
        id: str,
        text: str,
        *,
        title: str = "",
        timestamp: int | None = None,
        session: str | None = None,
        speaker: str | None = None,
        position: int | None = None,
        user_id: str | None = None,
    ) -> int:
        """Adds a document and returns its row."""
        columns = self._documents
        columns["id"].append(id)
        columns["text"].append(text)
        columns["title"].append(title or None)
        columns["timestamp"].append(timestamp)
        columns["session"].append(session)
        columns["speaker"].append(speaker)
        columns["position"].append(position)
        row = self._document_count
        if user_id:
            self._owners[row] = user_id
        self._document_count += 1
        if isinstance(text, str):  # other types are refused when written
            self._pending_characters += len(text)
        if len(columns["id"]) >= _BATCH_DOCUMENTS or self._pending_characters >= _BATCH_CHARACTERS:
            self._flush_documents()
        return row

    def documents(
        self, ids: Sequence[str], texts: Sequence[str], titles: Sequence[str | None] | None = None
    ) -> None:
        """Adds many plain documents at once, several times as fast as one by one."""
        self._flush_documents()
        self._document_ids.add(ids)
        n = len(ids)
        columns: dict[str, Sequence[Any]] = {"id": ids, "text": texts}
        if titles is not None:
            columns["title"] = [title or None for title in titles]  # as `document` does
        self._tables["documents.arrow"].write(
            pa.RecordBatch.from_arrays(
                [
                    typed_array(field, columns[field.name])
                    if field.name in columns
                    else pa.nulls(n, field.type)
                    for field in DOCUMENTS
                ],
                schema=DOCUMENTS,
            )
        )
        self._document_count += n
        if self._bar is not None:
            self._bar.update(n)

    def drop_documents(self, rows: Sequence[int]) -> None:
        """Removes documents; the rows of later documents decrease."""
        self._flush_documents()
        self._tables["documents.arrow"].close()
        written = self._folder / "documents.arrow"
        before = written.rename(self._folder / "documents.before")
        kept, start = np.ones(self._document_count, bool), 0
        kept[rows] = False
        table = self._tables["documents.arrow"] = TableFile(written, DOCUMENTS)
        with pa.memory_map(str(before)) as source:
            reader = pa.ipc.open_file(source)
            for i in range(reader.num_record_batches):
                batch = reader.get_batch(i)
                table.write(batch.filter(pa.array(kept[start : start + len(batch)])))
                start += len(batch)
        before.unlink()
        self._document_count = table.rows
        moved = np.cumsum(kept) - 1
        self._owners = {int(moved[row]): name for row, name in self._owners.items() if kept[row]}

    def repeated_ids(self) -> set[int]:
        """Returns hashes of document ids that occurred more than once so far (see Repeated)."""
        self._flush_documents()
        return self._document_ids.candidates()

    def haystack(
        self,
        id: str,
        rows: Sequence[int] | None = None,
        timestamps: Sequence[int] | None = None,
    ) -> None:
        """Adds a haystack: the rows that are searched for a query (None: every document)."""
        if id in self._haystacks:
            raise UsageError(f"haystack {id!r} is defined twice")
        if timestamps is not None and (rows is None or len(rows) != len(timestamps)):
            raise ValueError(f"haystack {id!r}: timestamps must align with rows")
        self._haystacks[id] = len(self._haystacks)
        self._haystack_columns["id"].append(id)
        self._haystack_columns["rows"].append(rows)
        self._haystack_columns["timestamps"].append(timestamps)

    def query(  # noqa: PLR0913 - the fields of a query
        self,
        id: str,
        text: str,
        haystack: str,
        *,
        ability: Ability = Ability.LOOKUP,
        category: str = "",
        timestamp: int | None = None,
        answers: Sequence[str] = (),
        user_id: str | None = None,
        groups: Sequence[str] = (),
    ) -> None:
        """Adds a query; its haystack may be defined later."""
        if id in self._queries:
            raise UsageError(f"query id {id!r} occurs twice; ids must be unique in a dataset")
        if groups and not user_id:
            raise UsageError(f"query {id!r} has groups, but no user_id; add it")
        if user_id:
            self._readers[id] = (user_id, list(dict.fromkeys(groups)))
        self._queries[id] = len(self._queries)
        self._query_haystack.append(haystack)
        columns = self._query_columns
        columns["id"].append(id)
        columns["text"].append(text)
        columns["ability"].append(str(Ability(ability)))
        columns["category"].append(category)
        columns["timestamp"].append(timestamp)
        columns["answers"].append(list(answers))

    def qrel(
        self,
        query: str,
        document: int | str,
        grade: int = 1,
        *,
        evidence_id: str | None = None,
        document_id: str | None = None,
        qrels_set: str = "default",
    ) -> None:
        """Adds one judgement to a qrels set.

        `document` is a row, or an id if ids are unique in the whole dataset. A row of -1 with a
        `document_id` is a document that the corpus lacks.
        """
        judged = self._judged
        self._judged_query.append(query)
        judged["qrels_set"].append(qrels_set)
        judged["document"].append(document if isinstance(document, int) else None)
        judged["document_id"].append(document if isinstance(document, str) else document_id)
        judged["grade"].append(grade)
        judged["evidence_id"].append(evidence_id)

    def change(self, change: Change, where: str = "") -> None:
        """Adds a change of a document; `where` is its position in a file, for errors."""
        what = f"change {len(self._changes) + 1}, of the document {change.document!r}"
        self._changes.append((change, where or what))

    def origin(self, what: str) -> None:
        """Records the package from which content was loaded: name, version, and its dataset id."""
        self.origins.append(what)

    def repair(self, kind: str, what: str) -> None:
        """Records an oddity that was repaired, kept or removed. `kind` is a sentence."""
        self._repair_counts[kind] += 1
        examples = self._repairs.setdefault(kind, [])
        if len(examples) < _EXAMPLES:
            examples.append(what)

    # -- the end -----------------------------------------------------------------------------------

    def finish(self) -> None:
        """Resolves names to rows, checks them, and closes the files.

        Raises UsageError for a query without a haystack, a judgement of an unknown query or
        document, duplicate document ids in a haystack, and invalid changes.
        """
        self._flush_documents()
        self._tables["documents.arrow"].close()
        self._write_haystacks()
        self._write_queries()
        self._write_qrels()
        self._write_changes()
        self._write_scopes()
        for table in self._tables.values():
            table.close()
        write_sums(self._folder, {name: table.heads() for name, table in self._tables.items()})

    @property
    def files(self) -> dict[str, int]:
        """Size in bytes of each finished table's file."""
        return {name: (self._folder / name).stat().st_size for name in self._tables}

    @property
    def counts(self) -> dict[str, int]:
        """Number of rows of each table."""
        return {name.removesuffix(".arrow"): t.rows for name, t in self._tables.items()}

    @property
    def qrels_sets(self) -> list[str]:
        """Names of the qrels sets, `default` first."""
        return sorted(
            set(self._judged["qrels_set"]) | {"default"}, key=lambda k: (k != "default", k)
        )

    @property
    def repairs(self) -> list[Repair]:
        """The repairs in the order in which they were first recorded."""
        return [
            Repair(kind=kind, count=self._repair_counts[kind], examples=examples)
            for kind, examples in self._repairs.items()
        ]

    @property
    def fingerprint(self) -> str:
        """sha256 of the content of all tables; equal content has an equal fingerprint."""
        return fingerprint({name: table.content for name, table in self._tables.items()})

    def _flush_documents(self) -> None:
        if self._documents["id"]:
            self._document_ids.add(self._documents["id"])
            self._tables["documents.arrow"].write_columns(self._documents)
            if self._bar is not None:
                self._bar.update(len(self._documents["id"]))
            self._documents = columns(DOCUMENTS)
            self._pending_characters = 0

    def _write_haystacks(self) -> None:
        self._require_unique_ids()
        if self._haystack_columns["id"]:
            self._tables["haystacks.arrow"].write_columns(self._haystack_columns)

    def _write_queries(self) -> None:
        for query, haystack in zip(self._queries, self._query_haystack, strict=True):
            if haystack not in self._haystacks:
                raise UsageError(
                    f"query {query!r} names the haystack {haystack!r}, which is not there"
                )
        columns = self._query_columns
        columns["haystack"] = [self._haystacks[name] for name in self._query_haystack]
        if columns["id"]:
            self._tables["queries.arrow"].write_columns(columns)

    def _write_qrels(self) -> None:
        judged = self._judged
        if not self._judged_query:
            return
        unknown = [q for q in self._judged_query if q not in self._queries]
        if unknown:
            raise UsageError(
                f"{len(unknown)} judgements name queries that are not there, first {unknown[0]!r}"
            )
        judged["query"] = [self._queries[name] for name in self._judged_query]
        table, absent = with_rows_and_ids(
            pa.Table.from_pydict(judged, schema=QRELS), self._folder / "documents.arrow"
        )
        if absent and self._unknown_documents == "refuse":
            raise UsageError(
                f"{len(absent)} judgements name documents that are not in the corpus, first "
                f"{absent[0]!r}: add the documents or take the judgements out"
            )
        for name in absent:
            self.repair(NOT_HELD, name)
        self._tables["qrels.arrow"].write_table(table)
        if self._owners and self._readers:
            self._note_unreadable(table)

    def _note_unreadable(self, judged: pa.Table) -> None:
        """Records relevant documents that the user of the query may not read."""
        names = list(self._queries)
        relevant = judged.filter(pc.greater_equal(judged["grade"], 1))
        pairs = zip(relevant["query"].to_pylist(), relevant["document"].to_pylist(), strict=True)
        for query, row in dict.fromkeys(pairs):
            user, groups = self._readers.get(names[query], ("", []))
            if user and self._owners.get(row, user) not in (user, *groups):
                self.repair("evidence that the query's user may not read: kept", names[query])

    def _write_changes(self) -> None:
        """Writes the table of changes, if there are any."""
        if self._changes:
            from harness.datasets.changes import with_rows

            held = self._haystack_columns
            parts = zip(held["rows"], held["timestamps"], strict=True)
            haystacks = dict(zip(held["id"], parts, strict=True))
            columns = with_rows(self._changes, haystacks, self._folder / "documents.arrow")
            self._tables[CHANGES_FILE] = TableFile(self._folder / CHANGES_FILE, CHANGES)
            self._tables[CHANGES_FILE].write_columns(columns)

    def _write_scopes(self) -> None:
        """Writes the table of users, if there are any."""
        if self._owners or self._readers:
            rows: list[tuple[str, int, str, list[str]]] = [
                ("document", row, name, []) for row, name in sorted(self._owners.items())
            ]
            rows += [("query", self._queries[id], *of) for id, of in self._readers.items()]
            self._tables[SCOPES_FILE] = TableFile(self._folder / SCOPES_FILE, SCOPES)
            values = map(list, zip(*rows, strict=True))
            self._tables[SCOPES_FILE].write_columns(dict(zip(SCOPES.names, values, strict=True)))

    def _require_unique_ids(self) -> None:
        """Rejects duplicate ids in a haystack, which a ranking could not distinguish."""
        candidates = self.repeated_ids()
        if not candidates:
            return
        with pa.memory_map(str(self._folder / "documents.arrow")) as source:
            ids: list[str] = pa.ipc.open_file(source).read_all()["id"].to_pylist()
        suspects = {row: id_ for row, id_ in enumerate(ids) if hash(id_) in candidates}
        columns = self._haystack_columns
        for name, rows in zip(columns["id"], columns["rows"], strict=True):
            inside = suspects.values() if rows is None else map(suspects.get, rows)
            counts = Counter(id_ for id_ in inside if id_ is not None)
            twice = [id_ for id_, n in counts.items() if n > 1]
            if twice:
                raise UsageError(
                    f"{len(twice)} document ids occur more than once in the haystack {name!r}, "
                    f"first {twice[0]!r}; ids must be unique in a haystack"
                )


def columns(schema: pa.Schema) -> dict[str, list[Any]]:
    """Returns an empty list for each column."""
    return {name: [] for name in schema.names}


def with_rows_and_ids(table: pa.Table, documents: Path) -> tuple[pa.Table, list[str]]:
    """Fills in rows by ids and ids by rows, and sorts by qrels set and query.

    `table` has the columns of manifest.QRELS with null for unknown ids or rows; `documents` is the
    finished table of documents. Returns the table and the ids that the corpus lacks (row -1).
    Raises UsageError for duplicate judgements.
    """
    by_id = table["document"].is_null().to_numpy()
    rows = pc.fill_null(table["document"], -1).to_numpy().astype(np.int32)
    ids: npt.NDArray[Any] = table["document_id"].to_numpy(zero_copy_only=False).copy()
    with pa.memory_map(str(documents)) as source:
        known_ids = pa.ipc.open_file(source).read_all()["id"]
        if by_id.any():
            rows[by_id] = _rows(known_ids, ids[by_id].astype(str))
        nameless = (rows >= 0) & table["document_id"].is_null().to_numpy()
        if nameless.any():
            ids[nameless] = known_ids.take(pa.array(rows[nameless])).to_pylist()
    table = table.set_column(2, "document", pa.array(rows, pa.int32()))
    table = table.set_column(3, "document_id", pa.array(ids.tolist(), pa.string()))
    _refuse_repeated(table)
    key = table["qrels_set"].combine_chunks().dictionary_encode().indices.to_numpy()
    order = np.lexsort((np.arange(len(table)), table["query"].to_numpy(), key))
    return table.take(order), ids[by_id & (rows < 0)].tolist()


def _rows(known_ids: pa.ChunkedArray, ids: npt.NDArray[np.str_]) -> npt.NDArray[np.int32]:
    """Returns the row of each id, -1 if unknown."""
    wanted = pa.array(np.unique(ids))
    found = np.full(len(wanted), -1, np.int32)
    start = 0
    for chunk in known_ids.chunks:
        where = pc.index_in(chunk, value_set=wanted)
        hits = np.flatnonzero(pc.is_valid(where).to_numpy(zero_copy_only=False))
        found[where.take(pa.array(hits)).to_numpy()] = start + hits
        start += len(chunk)
    return np.asarray(found[pc.index_in(pa.array(ids), value_set=wanted).to_numpy()])


def _refuse_repeated(table: pa.Table) -> None:
    counts = table.group_by(["qrels_set", "query", "document_id", "evidence_id"]).aggregate(
        [([], "count_all")]
    )
    twice = counts.filter(pc.greater(counts["count_all"], 1))
    if len(twice):
        raise UsageError(
            f"{len(twice)} judgements occur more than once, first that of document "
            f"{twice['document_id'][0].as_py()!r}: keep one of each"
        )


class Repeated:
    """Finds values that occur more than once in a long stream, using eight bytes per value.

    Only hashes are stored. Equal hashes are candidates; the caller compares the values.
    """

    def __init__(self) -> None:
        self._hashes = array("q")

    def add(self, values: Iterable[Hashable]) -> None:
        """Adds values."""
        self._hashes.extend(map(hash, values))

    def candidates(self) -> set[int]:
        """Returns the hashes (of this process) that occurred more than once."""
        hashes = np.sort(np.frombuffer(self._hashes, np.int64))
        return set(hashes[1:][hashes[1:] == hashes[:-1]].tolist())
