"""Runs over small haystacks, made on the spot: each with the fault that a test is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.runs.folder.imported import ImportOptions, import_rankings

Record = dict[str, Any]


def dataset_of(
    folder: Path, documents: Sequence[Record], queries: Sequence[Record], gold: Sequence[Record]
) -> Dataset:
    """A dataset of one's own files."""
    folder.mkdir(parents=True)
    for name, records in (("documents", documents), ("queries", queries), ("qrels", gold)):
        _lines(folder / f"{name}.jsonl", records)
    return open_dataset("labelled", source=folder)


def run_of(
    dataset: Dataset, out: Path, rankings: Mapping[str, Mapping[str, float]], k: int
) -> Path:
    """The run folder of rankings, {query: {document: score}}, that could hold k documents."""
    lines = [
        {"query": query, "documents": list(found), "scores": list(found.values())}
        for query, found in rankings.items()
    ]
    return _imported(dataset, out, lines, k)


def run_of_texts(dataset: Dataset, out: Path, texts: Mapping[str, Sequence[str]], k: int) -> Path:
    """The run folder of a system that returns texts of its own."""
    lines = [{"query": q, "hits": [{"text": t} for t in found]} for q, found in texts.items()]
    return _imported(dataset, out, lines, k)


def _imported(dataset: Dataset, out: Path, lines: Sequence[Record], k: int) -> Path:
    file = out / "run.jsonl"
    out.mkdir(parents=True, exist_ok=True)
    _lines(file, lines)
    return import_rankings(file, dataset, ImportOptions(out, "made", k))


def _lines(path: Path, records: Sequence[Record]) -> None:
    path.write_bytes(b"".join(orjson.dumps(record) + b"\n" for record in records))
