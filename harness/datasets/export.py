"""Exports a prepared dataset to formats of other tools: BEIR, MTEB, TREC, or JSONL.

* `jsonl` is lossless: documents.jsonl, queries.jsonl, qrels.jsonl and, if the dataset has changes,
  changes.jsonl; the dataset `labelled` reads them.
* `beir`: corpus.jsonl, queries.jsonl, qrels/<split>.tsv. Abilities, dates and similar fields are
  in `metadata`, which BEIR's tools ignore.
* `mteb`: a Hugging Face repository that mteb loads; `top_ranked` lists the documents of each query.
* `trec`: documents.jsonl (TREC has no standard document format), topics.tsv, qrels.txt.

BEIR, MTEB and TREC support one corpus and one answer key. If queries have different haystacks,
haystacks.jsonl lists the documents of each; an id with different documents in different haystacks
becomes `haystack/id`. Only the default qrels set is exported, without evidence ids. Judgements of
documents that the corpus lacks are kept. Changes are omitted, as none of these formats has them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from harness.datasets.reader import Dataset
from harness.errors import UsageError, suggest
from harness.io.files import folder_aside
from harness.io.plugins import provider_or_none
from harness.io.records import Record, encode
from harness.schema import Query


class ExportedDocument(Record):
    """A document; `haystack` is a name, several names, or names with the document's times."""

    id: str
    title: str = ""
    text: str
    timestamp: int | None = None
    session: str | None = None
    speaker: str | None = None
    position: int | None = None
    user_id: str | None = None
    haystack: str | list[str] | dict[str, int | None] | None = None


class ExportedQuery(Record):
    """A query; without `haystack`, all documents are searched."""

    id: str
    text: str
    ability: str
    category: str = ""
    timestamp: int | None = None
    answers: list[str] = msgspec.field(default_factory=list)
    user_id: str | None = None
    groups: list[str] = msgspec.field(default_factory=list)
    haystack: str | None = None


class ExportedQrel(Record):
    """A judgement; without `qrels_set`, it belongs to the default set."""

    query: str
    document: str
    grade: int
    evidence_id: str | None = None
    qrels_set: str = ""
    missing: bool = False


class ExportedChange(Record):
    """A change; without `haystack`, it applies to the haystack of all documents."""

    kind: str
    document: str
    timestamp: int
    by: str | None = None
    haystack: str | None = None


class ExportedHaystack(Record):
    """The queries and documents of a haystack."""

    haystack: str
    queries: list[str]
    documents: list[str]


class BeirDocumentMetadata(Record):
    """Document fields that BEIR's format lacks."""

    timestamp: int | None = None
    session: str | None = None
    speaker: str | None = None
    position: int | None = None
    user_id: str | None = None


class BeirDocument(Record):
    """A document in BEIR's corpus.jsonl."""

    id: str = msgspec.field(name="_id")
    title: str
    text: str
    metadata: BeirDocumentMetadata


class BeirQueryMetadata(Record):
    """Query fields that BEIR's format lacks."""

    ability: str
    category: str = ""
    timestamp: int | None = None
    answers: list[str] = msgspec.field(default_factory=list)
    user_id: str | None = None
    groups: list[str] = msgspec.field(default_factory=list)


class BeirQuery(Record):
    """A query in BEIR's queries.jsonl."""

    id: str = msgspec.field(name="_id")
    text: str
    metadata: BeirQueryMetadata


_CORPUS = pa.schema([("id", pa.string()), ("title", pa.string()), ("text", pa.string())])
_QUERIES = pa.schema([("id", pa.string()), ("text", pa.string())])
_QRELS = pa.schema([("query-id", pa.string()), ("corpus-id", pa.string()), ("score", pa.int32())])
_TOP_RANKED = pa.schema([("query-id", pa.string()), ("corpus-ids", pa.list_(pa.string()))])

Rows = npt.NDArray[np.int32]

_ROWS = 1 << 14
_LISTED = 1 << 20  # documents of top_ranked in memory at a time


def write_mteb(
    dataset: Dataset,
    folder: Path,
    names: Sequence[str],
    key: Iterable[tuple[str, str, int]],
    *,
    whole: bool,
) -> None:
    """Writes the tables and the dataset card to `folder`.

    `names` are the documents' ids by row; `key` has query, document and grade of each judgement;
    `whole`: all documents are searched for every query.
    """
    split = dataset.manifest.split.replace("-", "_")  # names of splits on the hub have no hyphens
    tables = {
        "corpus": (_CORPUS, _corpus(dataset, names)),
        "queries": (_QUERIES, iter([dataset.query_table.select(["id", "text"])])),
        "qrels": (_QRELS, iter([_qrels(key)])),
    }
    if not whole:
        tables["top_ranked"] = (_TOP_RANKED, _top_ranked(dataset, names))
    for name, (schema, parts) in tables.items():
        path = folder / name / f"{split}-00000-of-00001.parquet"
        path.parent.mkdir()
        with pq.ParquetWriter(path, schema) as file:
            for part in parts:
                file.write_table(part.cast(schema))
    (folder / "README.md").write_text(_card(dataset, split, [*tables]), encoding="utf-8")


def _corpus(dataset: Dataset, names: Sequence[str]) -> Iterator[pa.Table]:
    table = dataset.documents.table
    for start in range(0, max(len(table), 1), _ROWS):
        part = table.slice(start, _ROWS)
        titles = part["title"].fill_null("")  # mteb joins title and text by a space
        ids = pa.array(names[start : start + _ROWS], pa.string())
        yield pa.table({"id": ids, "title": titles, "text": part["text"]})


def _qrels(key: Iterable[tuple[str, str, int]]) -> pa.Table:
    rows = list(key)
    columns = [[row[i] for row in rows] for i in range(3)]
    return pa.table(
        [pa.array(c, f.type) for c, f in zip(columns, _QRELS, strict=True)], _QRELS.names
    )


def _top_ranked(dataset: Dataset, names: Sequence[str]) -> Iterator[pa.Table]:
    ids = pa.array(names, pa.string())
    queries: list[str] = []
    rows: list[Rows] = []
    listed = 0
    for query, haystack in zip(dataset.query_ids, dataset.query_haystack.tolist(), strict=True):
        queries.append(query)
        rows.append(dataset.haystack_rows(haystack))
        listed += len(rows[-1])
        if listed >= _LISTED:
            yield _lists(queries, rows, ids)
            queries, rows, listed = [], [], 0
    yield _lists(queries, rows, ids)


def _lists(queries: Sequence[str], rows: Sequence[Rows], ids: pa.Array) -> pa.Table:
    ends = np.cumsum([0, *map(len, rows)]).astype(np.int32)
    flat = np.concatenate([np.zeros(0, np.int32), *rows])
    lists = pa.ListArray.from_arrays(pa.array(ends), ids.take(pa.array(flat)))
    return pa.table({"query-id": pa.array(queries, pa.string()), "corpus-ids": lists})


def _card(dataset: Dataset, split: str, tables: Sequence[str]) -> str:
    manifest = dataset.manifest
    lines = ["---", "configs:"]
    for name in tables:
        lines += [f"- config_name: {name}", "  data_files:", f"  - split: {split}"]
        lines.append(f"    path: {name}/{split}-*")
    lines += [
        "---",
        "",
        f"{manifest.name}, {manifest.granularity}, {manifest.text} text, split {split}, in MTEB's",
        f"layout. Content {manifest.fingerprint}; licence of the data: {manifest.licence}.",
    ]
    if manifest.exclude_self:
        lines.append("A task over it needs `ignore_identical_ids = True`: no table can say that.")
    return "\n".join([*lines, ""])


_SPACE = re.compile(r"\s")
_LINE = re.compile(r"[\t\r\n]+")


def export(dataset: Dataset, folder: Path, format: str) -> list[Path]:
    """Writes `dataset` to `folder` as `beir`, `mteb`, `trec` or `jsonl`, and returns the files.

    The folder is written atomically, with croissant.json for JSON lines. Raises UsageError for an
    unknown format, a folder that is not empty, and ids that the format does not allow.
    """
    if format not in _FORMATS:
        raise UsageError(f"unknown export format {format!r}{suggest(format, list(_FORMATS))}")
    if folder.is_file() or (folder.is_dir() and any(folder.iterdir())):
        raise UsageError(f"{folder}: exists and is not empty; name a new folder")
    with folder_aside(folder) as aside:
        _FORMATS[format](dataset, aside)
        if format in ("beir", "jsonl") and (write := provider_or_none("croissant")):
            write(aside, dataset.manifest)
        names = sorted(path.relative_to(aside) for path in aside.rglob("*") if path.is_file())
    return [folder / name for name in names]


def _jsonl(dataset: Dataset, folder: Path) -> None:
    homes = _homes(dataset)
    write_lines(
        folder / "documents.jsonl",
        (
            ExportedDocument(
                id=document.id,
                title=document.title,
                text=document.text,
                timestamp=document.timestamp,
                session=document.session or None,
                speaker=document.speaker or None,
                position=document.position,
                user_id=document.user_id,
                haystack=_names(homes.get(row, {})),
            )
            for row, document in enumerate(dataset.documents)
        ),
    )
    shared = {h for h in range(len(dataset.haystack_ids)) if _holds_all(dataset, h)}
    write_lines(
        folder / "queries.jsonl",
        (
            ExportedQuery(
                id=query.id,
                text=query.text,
                ability=str(query.ability),
                category=query.category,
                timestamp=query.timestamp,
                answers=list(query.answers),
                user_id=query.user_id,
                groups=list(query.groups),
                haystack=None if int(dataset.query_haystack[row]) in shared else query.haystack,
            )
            for row, query in enumerate(_queries(dataset))
        ),
    )
    write_lines(
        folder / "qrels.jsonl",
        (
            ExportedQrel(
                query=dataset.query_ids[one.query],
                document=one.document_id,
                grade=one.grade,
                evidence_id=one.evidence_id or None,
                qrels_set="" if one.qrels_set == "default" else one.qrels_set,
                missing=one.document < 0,
            )
            for one in qrel_rows(dataset)
        ),
    )
    if dataset.has_changes:
        write_lines(folder / "changes.jsonl", _changes(dataset))


def _changes(dataset: Dataset) -> Iterator[ExportedChange]:
    """Yields the changes of every haystack; without its name if it has all documents."""
    for haystack, name in enumerate(dataset.haystack_ids):
        changes = dataset.changes(haystack)
        of_all = bool(changes) and _holds_all(dataset, haystack)
        for change in changes:
            yield ExportedChange(
                kind=change.kind,
                document=dataset.documents[change.row].id,
                timestamp=change.timestamp,
                by=None if change.by_row is None else dataset.documents[change.by_row].id,
                haystack=None if of_all else name,
            )


def _beir(dataset: Dataset, folder: Path) -> None:
    names = unique_ids(dataset)
    write_lines(
        folder / "corpus.jsonl",
        (
            BeirDocument(
                id=names[row],
                title=document.title,
                text=document.text,
                metadata=BeirDocumentMetadata(
                    timestamp=document.timestamp,
                    session=document.session or None,
                    speaker=document.speaker or None,
                    position=document.position,
                    user_id=document.user_id,
                ),
            )
            for row, document in enumerate(dataset.documents)
        ),
    )
    write_lines(
        folder / "queries.jsonl",
        (
            BeirQuery(
                id=query.id,
                text=query.text,
                metadata=BeirQueryMetadata(
                    ability=str(query.ability),
                    category=query.category,
                    timestamp=query.timestamp,
                    answers=list(query.answers),
                    user_id=query.user_id,
                    groups=list(query.groups),
                ),
            )
            for query in _queries(dataset)
        ),
    )
    qrels = folder / "qrels" / f"{dataset.manifest.split}.tsv"
    qrels.parent.mkdir()
    with open(qrels, "w", encoding="utf-8", newline="\n") as file:
        file.write("query-id\tcorpus-id\tscore\n")
        for query, document, grade in _default_key(dataset, names):
            for id_ in (query, document):
                if "\t" in id_ or "\n" in id_:
                    raise UsageError(f"the id {id_!r} holds a tab or a line end; export as jsonl")
            file.write(f"{query}\t{document}\t{grade}\n")
    _write_haystacks(dataset, names, folder)


def _trec(dataset: Dataset, folder: Path) -> None:
    names = unique_ids(dataset)
    for id_ in (*dataset.query_ids, *names):
        if _SPACE.search(id_) or not id_:
            raise UsageError(
                f"the id {id_!r} of {dataset.name} holds white space, which TREC's formats cannot "
                "carry; export as beir or jsonl"
            )
    if comment := next((id_ for id_ in dataset.query_ids if id_.startswith("#")), None):
        raise UsageError(
            f"the query id {comment!r} of {dataset.name} begins with #, as comments do in TREC's "
            "formats; export as beir or jsonl"
        )
    write_lines(
        folder / "documents.jsonl",
        (
            ExportedDocument(id=names[row], title=document.title, text=document.text)
            for row, document in enumerate(dataset.documents)
        ),
    )
    with open(folder / "topics.tsv", "w", encoding="utf-8", newline="\n") as file:
        for query in _queries(dataset):
            file.write(f"{query.id}\t{_LINE.sub(' ', query.text)}\n")
    with open(folder / "qrels.txt", "w", encoding="utf-8", newline="\n") as file:
        for query_id, document, grade in _default_key(dataset, names):
            file.write(f"{query_id} 0 {document} {grade}\n")
    _write_haystacks(dataset, names, folder)


def _mteb(dataset: Dataset, folder: Path) -> None:
    names = unique_ids(dataset)
    whole = bool((dataset.haystack_sizes == len(names)).all())
    write_mteb(dataset, folder, names, _default_key(dataset, names), whole=whole)


_FORMATS: dict[str, Callable[[Dataset, Path], None]] = {
    "beir": _beir,
    "mteb": _mteb,
    "trec": _trec,
    "jsonl": _jsonl,
}


def write_lines(path: Path, records: Iterable[Record]) -> None:
    """Writes one JSON object per line."""
    with open(path, "wb") as file:
        for record in records:
            file.write(encode(record) + b"\n")


def _queries(dataset: Dataset) -> Iterator[Query]:
    return (dataset.query(row) for row in range(dataset.n_queries))


class QrelRow(NamedTuple):
    """A row of the table of qrels; see manifest.QRELS."""

    qrels_set: str
    query: int
    document: int
    document_id: str
    grade: int
    evidence_id: str | None


def qrel_rows(dataset: Dataset) -> Iterator[QrelRow]:
    """Yields the judgements of every qrels set."""
    with pa.memory_map(str(dataset.folder / "qrels.arrow")) as source:
        table = pa.ipc.open_file(source).read_all()
        for batch in table.to_batches(max_chunksize=1 << 14):
            yield from map(QrelRow, *(column.to_pylist() for column in batch.columns))


def _default_key(dataset: Dataset, names: list[str]) -> Iterator[tuple[str, str, int]]:
    """Yields query, document and highest grade of each judged pair in the default qrels set."""
    grades: dict[tuple[str, str], int] = {}
    for one in qrel_rows(dataset):
        if one.qrels_set == "default":
            document = names[one.document] if one.document >= 0 else one.document_id
            pair = (dataset.query_ids[one.query], document)
            grades[pair] = max(one.grade, grades.get(pair, one.grade))
    for (query, document), grade in grades.items():
        yield query, document, grade


def _holds_all(dataset: Dataset, haystack: int) -> bool:
    """Tests whether a haystack has all documents with their own dates."""
    if dataset.haystack_sizes[haystack] < len(dataset.documents):
        return False
    own = dataset.documents.column("timestamp").combine_chunks()
    return bool(dataset.haystack_timestamps(haystack).equals(own))


def _homes(dataset: Dataset) -> dict[int, dict[str, int | None]]:
    """Returns the haystacks of each row, with the document's date if the haystack overrides it.

    Haystacks of all documents are omitted.
    """
    homes: dict[int, dict[str, int | None]] = {}
    own = dataset.documents.column("timestamp")
    for haystack, name in enumerate(dataset.haystack_ids):
        if _holds_all(dataset, haystack):
            continue
        rows = dataset.haystack_rows(haystack)
        stamps = dataset.haystack_timestamps(haystack)
        if stamps.equals(own.take(pa.array(rows)).combine_chunks()):
            stamps = pa.nulls(len(rows), pa.int64())
        for row, stamp in zip(rows.tolist(), stamps.to_pylist(), strict=True):
            homes.setdefault(row, {})[name] = stamp
    return homes


def _names(homes: dict[str, int | None]) -> str | list[str] | dict[str, int | None] | None:
    """Returns haystacks in the form of `labelled`: a name, a list, or names with times."""
    if not homes:
        return None
    if any(stamp is not None for stamp in homes.values()):
        return homes
    return next(iter(homes)) if len(homes) == 1 else list(homes)


def has_unique_ids(dataset: Dataset) -> bool:
    """Tests whether no two documents share an id."""
    column = dataset.documents.column("id")
    return bool(pc.count_distinct(column).as_py() == len(column))


def unique_ids(dataset: Dataset) -> list[str]:
    """Returns a name for each row: its id, or `haystack/id` if rows share the id. Raises UsageError
    if that is the id of another document."""
    ids: list[str] = dataset.documents.column("id").to_pylist()
    if has_unique_ids(dataset):
        return ids
    homes = _homes(dataset)
    counts: dict[str, int] = {}
    for id_ in ids:
        counts[id_] = counts.get(id_, 0) + 1
    names = [
        f"{next(iter(homes.get(row, {str(row): None})))}/{id_}" if counts[id_] > 1 else id_
        for row, id_ in enumerate(ids)
    ]
    if len(set(names)) < len(names) or any(
        name != id_ and name in counts for name, id_ in zip(names, ids, strict=True)
    ):
        raise UsageError(
            f"{dataset.name}: a document's id is HAYSTACK/ID of another document, so ids would not "
            "be unique; export as jsonl"
        )
    return names


def _write_haystacks(dataset: Dataset, names: list[str], folder: Path) -> None:
    """Writes haystacks.jsonl, unless every haystack has all documents."""
    if all(_holds_all(dataset, h) for h in range(len(dataset.haystack_ids))):
        return
    asking: dict[int, list[str]] = {}
    for query, haystack in zip(dataset.query_ids, dataset.query_haystack.tolist(), strict=True):
        asking.setdefault(haystack, []).append(query)
    write_lines(
        folder / "haystacks.jsonl",
        (
            ExportedHaystack(
                haystack=name,
                queries=asking.get(haystack, []),
                documents=[names[row] for row in dataset.haystack_rows(haystack).tolist()],
            )
            for haystack, name in enumerate(dataset.haystack_ids)
        ),
    )
