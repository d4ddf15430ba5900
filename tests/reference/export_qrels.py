"""What a run's numbers hang on, as JSON lines that anything reads: less than the whole export.

| file | a line is |
|---|---|
| dataset.json | (one object) name, granularity, text, split, fingerprint, own_document_left_out |
| queries.jsonl | a query: id, haystack, ability, category, timestamp, answers |
| qrels.jsonl | a judgement: query, document, grade, evidence_id, qrels_set, missing |
| haystacks.jsonl | a haystack: id, documents (how many), latest (when the last one was said) |
| changes.jsonl | a change: haystack, kind, document, timestamp, by; empty where there is none |
| documents.jsonl | a document in a haystack: haystack, id, session, timestamp, title, text |

Of the documents only those that somebody names are there, so that a check of some thousand rankings
does not write a corpus of millions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.datasets.export import qrel_rows, write_lines
from harness.datasets.reader import Dataset
from harness.io.records import Record, write_json_record


class QrelsDataset(Record):
    """The dataset of an exported qrels folder."""

    name: str
    granularity: str
    text: str
    split: str
    fingerprint: str
    own_document_left_out: bool


class QrelsQuery(Record):
    """A query, without its text."""

    id: str
    haystack: str
    ability: str
    category: str
    timestamp: int | None
    answers: list[str]


class QrelsJudgement(Record):
    """A judgement of any qrels set."""

    query: str
    document: str
    grade: int
    evidence_id: str | None
    qrels_set: str
    missing: bool


class QrelsHaystack(Record):
    """A haystack: its number of documents, and the time of the last one."""

    id: str
    documents: int
    latest: int | None


class QrelsChange(Record):
    """A change of a haystack."""

    haystack: str
    kind: str
    document: str
    timestamp: int
    by: str | None


class QrelsDocument(Record):
    """A document in a haystack; title and text only where they were asked for."""

    haystack: str
    timestamp: int | None
    id: str
    session: str | None
    title: str | msgspec.UnsetType | None = msgspec.UNSET
    text: str | msgspec.UnsetType | None = msgspec.UNSET


def export_key(
    dataset: Dataset, folder: Path, named: Mapping[str, Collection[str]], *, texts: bool
) -> None:
    """Write the files above into `folder`, which is there.

    `named` are the documents that are wanted, by query (of other queries they are ignored); judged
    ones come in any case. Titles and texts are written only with `texts`.
    """
    manifest = dataset.manifest
    about = QrelsDataset(
        name=manifest.name,
        granularity=manifest.granularity,
        text=manifest.text,
        split=manifest.split,
        fingerprint=manifest.fingerprint,
        own_document_left_out=manifest.exclude_self,
    )
    write_json_record(folder / "dataset.json", about)
    write_lines(folder / "queries.jsonl", _queries(dataset))
    write_lines(folder / "qrels.jsonl", _qrels(dataset))
    sizes = dataset.haystack_sizes.tolist()
    haystacks = zip(dataset.haystack_ids, sizes, _latest(dataset), strict=True)
    write_lines(
        folder / "haystacks.jsonl",
        (QrelsHaystack(id=name, documents=size, latest=at) for name, size, at in haystacks),
    )
    write_lines(folder / "changes.jsonl", _changes(dataset))
    write_lines(folder / "documents.jsonl", _documents(dataset, named, texts))


def _queries(dataset: Dataset) -> Iterator[QrelsQuery]:
    table = dataset.query_table
    columns = [table[name].to_pylist() for name in ("ability", "category", "timestamp", "answers")]
    haystacks = (dataset.haystack_ids[h] for h in dataset.query_haystack)
    for id_, haystack, ability, category, timestamp, answers in zip(
        dataset.query_ids, haystacks, *columns, strict=True
    ):
        yield QrelsQuery(
            id=id_,
            haystack=haystack,
            ability=ability,
            category=category,
            timestamp=timestamp,
            answers=answers,
        )


def _latest(dataset: Dataset) -> Iterator[int | None]:
    """When the last document of each haystack was said; only of datasets with changes."""
    for haystack in range(len(dataset.haystack_ids)):
        there = dataset.haystack_timestamps(haystack) if dataset.has_changes else None
        yield None if there is None else pc.max(there).as_py()


def _changes(dataset: Dataset) -> Iterator[QrelsChange]:
    for haystack, name in enumerate(dataset.haystack_ids):
        for one in dataset.changes(haystack):
            yield QrelsChange(
                haystack=name,
                kind=one.kind,
                document=dataset.documents[one.row].id,
                timestamp=one.timestamp,
                by=None if one.by_row is None else dataset.documents[one.by_row].id,
            )


def _qrels(dataset: Dataset) -> Iterator[QrelsJudgement]:
    for one in qrel_rows(dataset):
        yield QrelsJudgement(
            query=dataset.query_ids[one.query],
            document=one.document_id,
            grade=one.grade,
            evidence_id=one.evidence_id,
            qrels_set=one.qrels_set,
            missing=one.document < 0,
        )


def _documents(
    dataset: Dataset, named: Mapping[str, Collection[str]], texts: bool
) -> Iterator[QrelsDocument]:
    wanted: dict[int, set[str]] = {}
    haystack_of = dict(zip(dataset.query_ids, dataset.query_haystack.tolist(), strict=True))
    for query, ids in named.items():
        if query in haystack_of:
            wanted.setdefault(haystack_of[query], set()).update(ids)
    for one in qrel_rows(dataset):
        haystack = int(dataset.query_haystack[one.query])
        wanted.setdefault(haystack, set()).add(one.document_id)
    names = ("id", "session", *(("title", "text") if texts else ()))
    for haystack, ids in wanted.items():
        rows = dataset.haystack_rows(haystack)
        there = pc.is_in(
            dataset.documents.column("id", rows), value_set=pa.array(sorted(ids), pa.string())
        )
        at = np.flatnonzero(there.to_numpy())
        stamps = dataset.haystack_timestamps(haystack).take(pa.array(at)).to_pylist()
        columns = [dataset.documents.column(name, rows[at]).to_pylist() for name in names]
        for timestamp, *values in zip(stamps, *columns, strict=True):
            yield QrelsDocument(
                haystack=dataset.haystack_ids[haystack],
                timestamp=timestamp,
                **dict(zip(names, values, strict=True)),
            )
