"""Small datasets for the tests of runs, and readers that try to guess from what they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pyarrow.parquet as pq

from harness.datasets.reader import Dataset
from harness.datasets.registry import open_dataset
from harness.records.scores import MetricResult
from harness.retrievers.contract import Corpus, Question
from harness.runs.folder.run_folder import RunFolder, read_scores

Records = list[dict[str, Any]]


def labelled(
    folder: Path, documents: Records, queries: Records, gold: dict[str, list[str]]
) -> Dataset:
    """A dataset of one's own files."""
    folder.mkdir(parents=True, exist_ok=True)
    judgements = [{"query": q, "document": d} for q, ids in gold.items() for d in ids]
    for name, records in (
        ("documents", documents),
        ("queries", queries),
        ("qrels", judgements),
    ):
        lines = [orjson.dumps(record) for record in records]
        (folder / f"{name}.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    return open_dataset("labelled", source=folder)


def gold_first(folder: Path, haystacks: int, size: int, **common: Any) -> Dataset:
    """A question a haystack; its one gold document stands first in the file."""
    documents = [
        {"id": f"{'gold' if i == 0 else 'filler'}-{h}-{i}", "text": f"note {h} {i}"}
        | {"haystack": f"h{h}", **common}
        for h in range(haystacks)
        for i in range(size)
    ]
    queries = [{"id": f"q{h}", "text": f"ask {h}", "haystack": f"h{h}"} for h in range(haystacks)]
    gold = {f"q{h}": [f"gold-{h}-0"] for h in range(haystacks)}
    return labelled(folder, documents, queries, gold)


def cell(folder: Path, metric: str, protocol: str = "memory", part: str = "all") -> MetricResult:
    """One number of a scored run, with its random baseline."""
    result = next(one for one in read_scores(folder).protocols if one.protocol == protocol)
    return result.slices[part].metrics[metric]


def ranked(folder: Path) -> dict[str, list[str]]:
    """The documents of each query, best first."""
    table = pq.read_table(RunFolder(folder).rankings)
    found: dict[str, list[str]] = {}
    for query, document in zip(
        table["query"].to_pylist(), table["document"].to_pylist(), strict=True
    ):
        found.setdefault(query, []).append(document)
    return found


class ByHandle:
    """Ranks by the number in the handle."""

    def index(self, corpus: Corpus) -> None:
        self.order = sorted(corpus.handles, key=lambda handle: int(handle[1:]))

    def search(self, queries: Sequence[Question], k: int) -> list[list[str]]:
        return [self.order[:k] for _ in queries]


class ByPosition:
    """Ranks in the order in which it was shown the documents."""

    def index(self, corpus: Corpus) -> None:
        self.size = len(corpus)

    def search(self, queries: Sequence[Question], k: int) -> list[list[int]]:
        return [list(range(min(k, self.size))) for _ in queries]


class BySession:
    """Ranks by the number in the session's handle, then by that of the document's."""

    def index(self, corpus: Corpus) -> None:
        ordered = sorted(corpus, key=lambda d: (int((d.session or "s0")[1:]), int(d.id[1:])))
        self.order = [document.id for document in ordered]

    def search(self, queries: Sequence[Question], k: int) -> list[list[str]]:
        return [self.order[:k] for _ in queries]


READERS = (ByHandle, ByPosition, BySession)
