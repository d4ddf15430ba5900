"""Small prepared datasets and rankings, made on the spot with the writer alone."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from resealed import reseal

from harness.datasets.manifest import Manifest, RawFile
from harness.datasets.reader import Dataset
from harness.datasets.writer import DatasetWriter
from harness.runfiles.rankings import Rankings
from harness.runfiles.readers import read_rankings
from harness.scoring.metrics import Metric
from harness.scoring.qrels import from_dict
from harness.scoring.ranks import Qrels, Ranked, Ties, rank_judged

Fill = Callable[[DatasetWriter], object]
Fills = list[Fill]


def prepared(
    folder: Path,
    *fills: Fill,
    unknown_documents: str = "refuse",
    granularity: str = "turn",
    exclude_self: bool = False,
    text: str = "official",
    split: str = "test",
    name: str = "small",
) -> Dataset:
    """The dataset that the `fills` write, one after the other."""
    folder.mkdir(parents=True)
    with DatasetWriter(folder, unknown_documents=unknown_documents) as out:
        for fill in fills:
            fill(out)
        out.finish()
        manifest = Manifest(
            name=name,
            granularity=granularity,
            text=text,
            split=split,
            licence="CC0-1.0",
            source="here",
            adapter_version=1,
            raw=[
                RawFile(name="a", path="/a", bytes=1, modified_ns=2, sha256="00", status="pinned")
            ],
            repairs=out.repairs,
            counts=out.counts,
            files=out.files,
            fingerprint=out.fingerprint,
            created="2024-01-01T00:00:00+00:00",
            exclude_self=exclude_self,
            qrels_sets=out.qrels_sets,
        )
    manifest.write(folder)
    dataset = Dataset(folder)
    assert msgspec.structs.replace(dataset.manifest, checksums=None) == manifest
    assert manifest.matches(folder)
    return dataset


def one_corpus(
    folder: Path,
    documents: Sequence[str],
    judged: Mapping[str, Mapping[str, int]],
    *,
    query: Mapping[str, Mapping[str, Any]] | None = None,
    texts: Mapping[str, str] | None = None,
    **view: Any,
) -> Dataset:
    """Documents (ids) that all queries share; `query` gives a query's other fields."""

    def fill(out: DatasetWriter) -> None:
        for id_ in documents:
            out.document(id_, (texts or {}).get(id_, id_))
        out.haystack("all")
        for id_, grades in judged.items():
            out.query(id_, id_, "all", **(query or {}).get(id_, {}))
            for document, grade in grades.items():
                if document in documents:
                    out.qrel(id_, document, grade)
                else:
                    out.qrel(id_, -1, grade, document_id=document)

    return prepared(folder, fill, unknown_documents="keep", **view)


def lists(run: Mapping[str, Sequence[str]]) -> Rankings:
    """Rankings without scores, from `{query: documents, best first}`."""
    sizes = [len(documents) for documents in run.values()]
    ids = pa.array([d for documents in run.values() for d in documents], pa.string())
    query = np.repeat(np.arange(len(run), dtype=np.int32), sizes)
    return Rankings(list(run), query, pa.chunked_array([ids]), None)


def ranked(
    run: Mapping[str, Sequence[str]] | Mapping[str, Mapping[str, float]],
    qrels: Mapping[str, Mapping[str, int]] | Qrels,
    ties: Ties = Ties.ORDER,
) -> Ranked:
    """Ranks of what `qrels` judges; a run of lists is in its own order."""
    columns = qrels if isinstance(qrels, Qrels) else from_dict(qrels)
    first = next(iter(run.values()), [])
    rankings = read_rankings(run) if isinstance(first, Mapping) else lists(run)  # type: ignore[arg-type]
    return rank_judged(rankings, columns, ties)


def in_three_haystacks(folder: Path, out: Path) -> Path:
    """A copy of a scored run, as if its questions had been asked of three haystacks."""
    copy = Path(shutil.copytree(folder, out / folder.name))
    scores = pq.read_table(copy / "scores.parquet")
    names = [
        f"h{int(hashlib.sha256(query.encode()).hexdigest(), 16) % 3}"
        for query in scores["query"].to_pylist()
    ]
    at = scores.column_names.index("haystack")
    pq.write_table(scores.set_column(at, "haystack", [names]), copy / "scores.parquet")
    return reseal(copy)


def value(metric: str, of: Ranked) -> float:
    """The metric's value for a single query."""
    (only,) = Metric.parse(metric)(of)
    return float(only)
