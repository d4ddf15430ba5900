"""A prepared dataset as a repository in MTEB's layout, which mteb and the dataset `mteb` read.

Tables in Parquet, and a README.md that says which is which: `corpus`, `queries`, `qrels`, and
`top_ranked` where queries are answered from a part of the documents, the list of each query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from harness.datasets.reader import Dataset

_CORPUS = pa.schema([("id", pa.string()), ("title", pa.string()), ("text", pa.string())])
_QUERIES = pa.schema([("id", pa.string()), ("text", pa.string())])
_QRELS = pa.schema([("query-id", pa.string()), ("corpus-id", pa.string()), ("score", pa.int32())])
_TOP_RANKED = pa.schema([("query-id", pa.string()), ("corpus-ids", pa.list_(pa.string()))])

Rows = npt.NDArray[np.int32]

_ROWS = 1 << 14
_LISTED = 1 << 20  # documents of top_ranked that are in memory at a time


def write_mteb(
    dataset: Dataset,
    folder: Path,
    names: Sequence[str],
    key: Iterable[tuple[str, str, int]],
    *,
    whole: bool,
) -> None:
    """Write the tables and the card into `folder`.

    `names` are those of the documents, by row; `key` is query, document and grade of each
    judgement; `whole`: every query is answered from all documents.
    """
    split = dataset.manifest.split.replace("-", "_")  # the hub's splits have no hyphens
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
        titles = part["title"].fill_null("")  # mteb joins them by a space where there is one
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
