"""Repositories in MTEB's layout, as they stand on the hub: tables in files, and a card."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from harness.datasets.reader import Dataset

Row = dict[str, Any]

SMALL: dict[str, list[Row]] = {
    "corpus": [
        {"_id": "d1", "title": "Harbours", "text": "The ferry leaves at noon."},
        {"_id": "d2", "title": "", "text": "Bread rises overnight."},
        {"_id": "d3", "title": "", "text": "A boat with a leaking hull."},
    ],
    "queries": [
        {"_id": "q1", "text": "When does the ferry leave?"},
        {"_id": "q2", "text": "What rises?"},
        {"_id": "q3", "text": "not judged"},
    ],
    "default": [
        {"query-id": "q1", "corpus-id": "d1", "score": 2},
        {"query-id": "q2", "corpus-id": "d2", "score": 1},
        {"query-id": "q2", "corpus-id": "d1", "score": 0},
    ],
}
"""As old BEIR sets stand there: `default` for the judgements, `_id`, grades."""


def write(
    folder: Path, tables: Mapping[str, list[Row]], kind: str = "parquet", split: str = "test"
) -> Path:
    """A repository: each table is a config, in `parquet` (as push_to_hub names it) or `jsonl`."""
    card = "---\nlicense: mit\nconfigs:\n"
    for name, rows in tables.items():
        (folder / name).mkdir(parents=True)
        if kind == "parquet":
            pattern = f"{name}/{split}-*"
            path = folder / name / f"{split}-00000-of-00001.parquet"
            pq.write_table(pa.Table.from_pylist(rows), path)
        else:
            pattern = f"{name}/{split}.jsonl"
            text = "".join(json.dumps(row) + "\n" for row in rows)
            (folder / pattern).write_text(text)
        card += f"- config_name: {name}\n  data_files:\n  - split: {split}\n    path: {pattern}\n"
    (folder / "README.md").write_text(card + "---\n# A card\n")
    return folder


def in_subsets(dataset: Dataset, prefix: str = "") -> dict[str, list[Row]]:
    """A dataset as LMEB keeps one: a subset a category, each with the whole corpus under ids that
    are unique, and for each query the list of its haystack."""
    documents = list(dataset.documents)
    names = [""] * len(documents)
    for number, name in enumerate(dataset.haystack_ids):
        for row in dataset.haystack_rows(number).tolist():
            names[row] = f"{prefix}{name}:{documents[row].id}"
    corpus = [{"id": n, "title": "", "text": d.text} for n, d in zip(names, documents, strict=True)]
    key, tables = dataset.qrels(), dict[str, list[Row]]()
    for category in dict.fromkeys(dataset.categories.tolist()):
        subset = category.replace("-", "_")
        rows = [i for i, one in enumerate(dataset.categories) if one == category]
        judged = set(rows) & set(key.query.tolist())
        tables[f"{subset}-corpus"] = corpus
        tables[f"{subset}-queries"] = [
            {"id": dataset.query_ids[i], "text": dataset.query(i).text} for i in rows if i in judged
        ]
        tables[f"{subset}-qrels"] = [
            {"query-id": dataset.query_ids[q], "corpus-id": names[d], "score": int(g)}
            for q, d, g in zip(key.query.tolist(), key.document.tolist(), key.grade, strict=True)
            if q in judged
        ]
        tables[f"{subset}-top_ranked"] = [
            {
                "query-id": dataset.query_ids[i],
                "corpus-ids": [
                    names[row] for row in dataset.haystack_rows(int(dataset.query_haystack[i]))
                ],
            }
            for i in rows
            if i in judged
        ]
    return tables
