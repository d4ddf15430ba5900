"""From hits that are texts, and rows of the document table, to the rankings in a run's folder."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from harness.dataset.reader import Dataset
from harness.errors import UsageError
from harness.files import disk_errors, folder_aside
from harness.rankings.rankings import Rankings, read_rankings
from harness.records.run import HitsRecord, MatchingRecord
from harness.runs.folder.run_folder import (
    OURS,
    RunFolder,
    folder_name,
    write_rankings,
    write_record,
)
from harness.scoring.matching.found import Matching
from harness.scoring.matching.hits import (
    UNRESOLVED,
    TextHit,
    by_query,
    expand,
    hits_record,
    read_hits,
    write_hits,
)


@dataclass(frozen=True)
class Ranking:
    """One query's ranking as rows of the document table, best first.

    A row of -1 is a place whose document is not known.
    """

    query: int
    rows: npt.NDArray[np.int32]
    scores: npt.NDArray[np.float64] | None


def as_rankings(dataset: Dataset, ranked: Sequence[Ranking]) -> Rankings:
    """The rankings as columns, with the dataset's ids.

    Where some came with scores and others without, all are kept by order alone.
    """
    sizes = [len(one.rows) for one in ranked]
    rows = np.concatenate([np.zeros(0, np.int32), *(one.rows for one in ranked)])
    score = None
    if all(one.scores is not None for one in ranked if len(one.rows)):
        parts = (one.scores for one in ranked if one.scores is not None)
        score = np.concatenate([np.zeros(0), *parts])
    return Rankings(
        [dataset.query_ids[one.query] for one in ranked],
        np.repeat(np.arange(len(ranked), dtype=np.int32), sizes),
        _ids(dataset, rows, np.array(sizes, np.int64)),
        score,
    )


def resolve_into(
    folder: Path,
    dataset: Dataset,
    hits: Sequence[TextHit],
    k: int,
    matching: Matching | None = None,
) -> tuple[dict[int, Ranking], HitsRecord]:
    """Resolve hits and write hits.parquet; returns each query's ranking, and how it went.

    Rankings are cut at k documents. What is returned second stands in run.json as `hits`.
    """
    settings = matching or Matching()
    embed = None
    if settings.semantic is not None:
        from harness.retrievers.minilm import unit_vectors

        embed = unit_vectors("matching by meaning")
    from harness.scoring.matching.matcher import resolve_hits

    resolve_hits(dataset, hits, settings, embed)
    write_hits(dataset, hits, folder / "hits.parquet")
    rankings: dict[int, Ranking] = {}
    beyond = 0
    for query, mine in by_query(hits):
        rows, cut = expand(mine, k)
        beyond += cut
        scores = None
        if all(hit.score is not None for hit in mine):
            scores = np.array([row.hit.score for row in rows], np.float64)
        documents = np.array([row.document for row in rows], np.int32)
        rankings[query] = Ranking(query, documents, scores)
    return rankings, hits_record(hits, beyond, matching_record(settings))


def matching_record(matching: Matching) -> MatchingRecord:
    """Records the thresholds of text matching."""
    return MatchingRecord(f1=matching.f1, semantic=matching.semantic)


def resolve_again(folder: Path, dataset: Dataset, matching: Matching) -> Path:
    """A copy of a run whose texts are resolved by other settings, beside it; its texts are kept.

    Raises UsageError for a run without texts of the system's own.
    """
    run = RunFolder(folder)
    if not run.hits.is_file():
        raise UsageError(f"{folder}: its system returned documents, so there is nothing to match")
    record = run.record
    k, name = record.settings.k, record.retriever.name
    copy = folder.parent / folder_name(
        dataset, name, {"run": folder.name, "matching": asdict(matching)}
    )
    with disk_errors(folder.parent, "make it writable"), folder_aside(copy, ours=OURS) as aside:
        ranked, resolved = resolve_into(aside, dataset, read_hits(dataset, run.hits), k, matching)
        queries = read_rankings(run.rankings).query_ids
        write_queries(aside, dataset, ranked, queries, name)
        for file in ("queries.parquet", "errors.jsonl"):
            if (folder / file).is_file():
                shutil.copy(folder / file, aside / file)
        write_record(aside, msgspec.structs.replace(record, hits=resolved))
    return copy


def write_queries(
    folder: Path,
    dataset: Dataset,
    ranked: dict[int, Ranking],
    queries: Sequence[str],
    system: str,
) -> None:
    """Write the rankings of `queries`; those without a hit were answered with nothing."""
    row = {name: i for i, name in enumerate(dataset.query_ids)}
    nothing = np.zeros(0, np.int32)
    all_ = [ranked.get(row[q], Ranking(row[q], nothing, np.zeros(0))) for q in queries]
    write_rankings(as_rankings(dataset, all_), folder, system)


def _ids(
    dataset: Dataset, rows: npt.NDArray[np.int32], sizes: npt.NDArray[np.int64]
) -> pa.ChunkedArray:
    document: Any = dataset.documents.column("id", np.maximum(rows, 0))
    if (rows < 0).any():
        starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
        place = np.arange(len(rows)) - starts + 1
        names = document.to_pylist()
        for at in np.flatnonzero(rows < 0):
            names[at] = f"{UNRESOLVED}{place[at]}"
        document = pa.array(names, pa.string())
    return pa.chunked_array([document]) if isinstance(document, pa.Array) else document
