"""Resolves the texts (hits) that a system returned to documents, in a run folder."""

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
from harness.io.plugins import provider
from harness.records.run import HitsRecord, MatchingRecord
from harness.runs.folder.rankings import (
    RowRanking,
    as_rankings,
    read_run_rankings,
    write_rankings,
)
from harness.runs.folder.run_folder import RunFolder, folder_name, write_record
from harness.runs.folder.run_state import OURS
from harness.runs.results import QueryResult
from harness.scoring.matching.matcher import (
    Matching,
    TextHit,
    by_query,
    expand,
    hits_record,
    read_hits,
    resolve_hits,
    write_hits,
)


def write_resolved_hits(
    folder: Path,
    dataset: Dataset,
    hits: Sequence[TextHit],
    k: int,
    matching: Matching | None = None,
) -> tuple[dict[int, RowRanking], HitsRecord]:
    """Resolves hits to documents and writes hits.parquet.

    Returns each query's ranking, cut at k documents, and the `hits` of run.json.
    """
    settings = matching or Matching()
    embed = None
    if settings.semantic is not None:
        embed = provider("text_vectors")("matching by meaning")
    resolve_hits(dataset, hits, settings, embed)
    write_hits(dataset, hits, folder / "hits.parquet")
    rankings: dict[int, RowRanking] = {}
    beyond = 0
    for query, mine in by_query(hits):
        rows, cut = expand(mine, k)
        beyond += cut
        scores = None
        if all(hit.score is not None for hit in mine):
            scores = np.array([row.hit.score for row in rows], np.float64)
        documents = np.array([row.document for row in rows], np.int32)
        rankings[query] = RowRanking(query, documents, scores)
    return rankings, hits_record(
        hits, beyond, MatchingRecord(f1=settings.f1, semantic=settings.semantic)
    )


def copy_with_matching(folder: Path, dataset: Dataset, matching: Matching) -> Path:
    """Copies a run, with its hits resolved by other settings, to a folder next to it.

    Raises UsageError if the system of the run returned documents instead of texts.
    """
    run = RunFolder(folder)
    if not run.hits.is_file():
        raise UsageError(f"{folder}: its system returned documents, not texts to match")
    record = run.record
    k, name = record.settings.k, record.retriever.name
    copy = folder.parent / folder_name(
        dataset, name, {"run": folder.name, "matching": asdict(matching)}
    )
    with disk_errors(folder.parent, "make it writable"), folder_aside(copy, ours=OURS) as aside:
        hits = read_hits(dataset, run.hits)
        ranked, resolved = write_resolved_hits(aside, dataset, hits, k, matching)
        queries = read_run_rankings(run.rankings).query_ids
        write_hit_rankings(aside, dataset, ranked, queries, name)
        for file in ("queries.parquet", "errors.jsonl"):
            if (folder / file).is_file():
                shutil.copy(folder / file, aside / file)
        write_record(aside, msgspec.structs.replace(record, hits=resolved))
    return copy


def write_hit_rankings(
    folder: Path,
    dataset: Dataset,
    ranked: dict[int, RowRanking],
    queries: Sequence[str],
    system: str,
) -> None:
    """Writes the rankings of resolved hits; a query without a hit gets an empty ranking."""
    row = dataset.query_rows
    nothing = np.zeros(0, np.int32)
    all_ = [ranked.get(row[q], RowRanking(row[q], nothing, np.zeros(0))) for q in queries]
    write_rankings(as_rankings(dataset, all_), folder, system)


def resolve_results(
    folder: Path,
    dataset: Dataset,
    results: Sequence[QueryResult],
    k: int,
    matching: Matching | None = None,
) -> HitsRecord:
    """Resolves the texts of results and writes hits.parquet; sets the rankings of the results."""
    hits = [hit for one in results for hit in _text_hits(one)]
    ranked, resolved = write_resolved_hits(folder, dataset, hits, k, matching)
    for one in results:
        if one.query in ranked:
            one.rows, one.scores = ranked[one.query].rows, ranked[one.query].scores
    return resolved


def _text_hits(result: QueryResult) -> list[TextHit]:
    """Converts a result to hits; without texts, each document becomes a hit without a text."""
    if result.hits is None:
        scores = [None] * len(result.rows) if result.scores is None else result.scores.tolist()
        rows = enumerate(zip(result.rows.tolist(), scores, strict=True), 1)
        return [TextHit(result.query, i, "", [row], score) for i, (row, score) in rows]
    return [
        TextHit(result.query, i, hit.text, hit.rows, hit.score, hit.unknown, hit.sessions)
        for i, hit in enumerate(result.hits, 1)
    ]
