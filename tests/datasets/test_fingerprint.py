"""Equal content has an equal fingerprint, and other content another."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from small import Fill, Fills, prepared

from harness.datasets.columns import ContentHash
from harness.datasets.manifest import FILES
from harness.datasets.writer import DatasetWriter
from harness.schema import Ability


def fingerprint(folder: Path, *fills: Fill) -> str:
    return prepared(folder, *fills).fingerprint


def content(out: DatasetWriter) -> None:
    out.haystack("some", [0, 2], [5, 6])
    out.haystack("all")
    for i in range(21):
        out.query(f"q{i}", "?", "all", timestamp=i if i % 3 else None, answers=["x"] * (i % 4))
        out.qrel(f"q{i}", i)


def one_by_one(out: DatasetWriter) -> None:
    for i in range(21):
        out.document(f"d{i}", f"text {i}" * i, title=f"title {i}" if i % 2 else "")
    content(out)


@pytest.mark.parametrize("size", [1, 3, 8, 20, 21])
def test_the_fingerprint_depends_on_the_content_and_not_on_how_it_was_cut(
    tmp_path: Path, size: int
) -> None:
    def in_batches(out: DatasetWriter) -> None:
        for start in range(0, 21, size):
            rows = range(start, min(start + size, 21))
            out.documents(
                [f"d{i}" for i in rows],
                [f"text {i}" * i for i in rows],
                [f"title {i}" if i % 2 else "" for i in rows],
            )
        content(out)

    assert fingerprint(tmp_path / "a", one_by_one) == fingerprint(tmp_path / "b", in_batches)


@pytest.mark.parametrize("size", [1, 3, 8, 20])
def test_the_hash_of_a_table_is_that_of_its_rows_however_they_are_batched(
    tmp_path: Path, size: int
) -> None:
    dataset = prepared(tmp_path / "data", one_by_one)
    for name, schema in FILES.items():
        table = pa.ipc.open_file(dataset.folder / name).read_all()
        whole, cut = ContentHash(schema), ContentHash(schema)
        for batch in table.combine_chunks().to_batches():
            whole.update(batch)
            for start in range(0, len(batch), size):
                cut.update(batch.slice(start, size))
        assert cut.hexdigest() == whole.hexdigest()


def test_the_fingerprint_changes_with_anything_that_is_read(tmp_path: Path) -> None:
    def document(**fields: object) -> Fills:
        given = {"id": "d", "text": "t", "session": "s"} | fields
        return [lambda out: out.document(**given)]

    def haystack(*given: object) -> Fills:
        return [*document(), lambda out: out.haystack("h", *given)]

    def query(**fields: object) -> Fills:
        given = {"id": "q", "text": "t", "haystack": "h"} | fields
        return [*haystack(), lambda out: out.query(**given)]

    def qrel(**fields: object) -> Fills:
        given = {"query": "q", "document": "d"} | fields
        return [*query(), lambda out: out.qrel(**given)]

    fills = [
        *(document(**f) for f in ({}, {"id": "e"}, {"text": "u"}, {"title": "t"}, {"position": 0})),
        *(document(**f) for f in ({"timestamp": 0}, {"timestamp": 1}, {"speaker": ""})),
        *(document(**f) for f in ({"session": "t"}, {"session": None}, {"id": "dt", "text": ""})),
        *(haystack(*a) for a in ((), ([],), ([0],), ([0, 0],), ([0], [0]), ([0], [1]))),
        *(query(**f) for f in ({}, {"ability": Ability.TEMPORAL}, {"category": "c"})),
        *(query(**f) for f in ({"timestamp": 0}, {"answers": ["a", "b"]}, {"answers": ["ab"]})),
        *(qrel(**f) for f in ({}, {"grade": 2}, {"evidence_id": "u"}, {"qrels_set": "official"})),
    ]
    prints = [fingerprint(tmp_path / str(i), *calls) for i, calls in enumerate(fills)]
    assert len(set(prints)) == len(fills)
