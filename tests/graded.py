"""A small dataset with given grades, in BEIR's format; its files are nobody's published ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import orjson

from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset


def graded(folder: Path, grades: Callable[[int], Sequence[int]], n: int = 40) -> Dataset:
    """A dataset of n queries; `grades` gives those of the documents judged for each."""
    (folder / "qrels").mkdir(parents=True)
    words = ["harbour", "ferry", "noon", "bread", "night", "river", "stone", "glass", "paper"]
    texts = {f"d{i}": " ".join(words[i % 7 : i % 7 + 4]) for i in range(30)}
    corpus = [{"_id": id_, "title": "", "text": text} for id_, text in texts.items()]
    queries = [{"_id": f"q{i}", "text": words[i % 9]} for i in range(n)]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (folder / f"{name}.jsonl").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    judged = [
        f"q{i}\td{(i + j) % 30}\t{grade}" for i in range(n) for j, grade in enumerate(grades(i))
    ]
    header = "query-id\tcorpus-id\tscore"
    (folder / "qrels" / "test.tsv").write_text("\n".join([header, *judged]) + "\n")
    return open_dataset("beir/scifact", source=folder)
