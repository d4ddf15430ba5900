"""From hits that are texts, and rows of the document table, to the rankings in a run's folder."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import msgspec
import numpy as np

from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.io.files import disk_errors, folder_aside
from harness.io.plugins import provided
from harness.records.run import HitsRecord, MatchingRecord
from harness.runfiles.rankings import read_rankings
from harness.runs.folder.rankings import Ranking, as_rankings, write_rankings
from harness.runs.folder.run_folder import RunFolder, folder_name, write_record
from harness.runs.folder.store import OURS
from harness.scoring.matching.matcher import (
    Matching,
    TextHit,
    by_query,
    expand,
    hits_record,
    read_hits,
    write_hits,
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
        embed = provided("text_vectors")("matching by meaning")
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
    return rankings, hits_record(
        hits, beyond, MatchingRecord(f1=settings.f1, semantic=settings.semantic)
    )


def resolve_again(folder: Path, dataset: Dataset, matching: Matching) -> Path:
    """Make a copy of a run whose texts are resolved by other settings, beside it; its texts are
    kept.

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
