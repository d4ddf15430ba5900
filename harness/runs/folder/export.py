"""Writes the rankings of a run as one file for other tools, TREC and JSONL in batches.

The retrieval log of LongMemEval's official scripts, an input of their generation, has a line per
question: the record of the raw file, found through the prepared dataset, with `retrieval_results`.
Ids are changed as in the script: `answer` becomes `noans` in ids of sessions with `answer` that are
not gold. `metrics` are those of print_retrieval_metrics.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from harness.datasets.export import has_unique_ids, unique_ids
from harness.datasets.reader import Dataset
from harness.errors import UsageError, suggest
from harness.io.files import disk_errors, file_aside
from harness.io.plugins import provider
from harness.runfiles.write import RankedBatch, read_blocks, write_jsonl, write_trec
from harness.runs.folder.rankings import read_run_rankings, trec_tag
from harness.runs.folder.run_dataset import dataset_of_run
from harness.runs.folder.run_folder import RunFolder, read_scores_by_query
from harness.scoring.resolve import find_rows, resolve

FLAT = ("trec", "parquet", "jsonl")
"""Formats of rankings only, for runs on any dataset."""

FORMATS = (*FLAT, "ir-metadata", "longmemeval")


def export_run(folder: Path, out: Path, format: str, source: str | None = None) -> int:
    """Writes the rankings of a run to `out`: `trec`, `ir-metadata` (TREC, the run described in
    comments), `parquet` (query, document, rank, score), `jsonl` (a line per query), or
    `longmemeval`, the retrieval log of the official scripts.

    The TREC formats name documents as `harness datasets export` does: `haystack/id` if documents
    share an id. Returns the number of excluded ranks: a log excludes texts that match no document.
    `source` is the path of the dataset's raw files, if they have moved. The file is written
    completely or not at all.

    Raises UsageError if the folder is not a run's, for an unknown format, an existing file, one
    that cannot be written, ids that TREC's format cannot hold, and a log of another dataset.
    """
    if format not in FORMATS:
        raise UsageError(f"unknown export format {format!r}{suggest(format, list(FORMATS))}")
    if out.exists():
        raise UsageError(f"{out}: exists; name a new file")
    run = RunFolder(folder)
    system = trec_tag(run.record.retriever.name)
    remedy, left_out = "name another file with --out", 0
    with disk_errors(out.parent, remedy), file_aside(out) as aside:
        if format == "parquet":
            shutil.copyfile(run.rankings, aside)
        elif format == "jsonl":
            write_jsonl(read_blocks(run.rankings), aside)
        elif format == "longmemeval":
            left_out = write_log(folder, aside, source)
        else:
            header = provider("ir_metadata")(folder) if format == "ir-metadata" else b""
            try:
                named = _with_unique_ids(read_blocks(run.rankings), folder, source)
                write_trec(named, aside, system, header)
            except UsageError as error:
                raise UsageError(f"{folder}: {error}; export as parquet or jsonl") from None
    return left_out


def _with_unique_ids(
    blocks: Iterator[RankedBatch], folder: Path, source: str | None
) -> Iterator[RankedBatch]:
    """Yields the blocks with the ids of `unique_ids`; other ids are unchanged."""
    dataset = dataset_of_run(folder, source=source)
    if has_unique_ids(dataset):
        yield from blocks
        return
    names, row_of = pa.array(unique_ids(dataset)), dataset.query_rows
    for block in blocks:
        rows_of_queries = [row_of.get(name, -1) for name in block.query_ids.to_pylist()]
        query = np.array(rows_of_queries, np.int32)[block.query]
        ids = pa.chunked_array([block.document])
        row = np.where(query < 0, -1, find_rows(dataset, np.maximum(query, 0), ids))
        named = pc.if_else(
            pa.array(row >= 0), names.take(pa.array(np.maximum(row, 0))), block.document
        )
        yield replace(block, document=named)


_PROTOCOL = "longmemeval-470"  # the questions that the official printing script uses
_KEY = "longmemeval-official"
_NAMES = {"hit": "recall_any", "recall_all": "recall_all", "ndcg_b2": "ndcg_any"}
_LEVELS = {"session": "session", "turn": "turn", "turn>session": "session"}


def write_log(folder: Path, out: Path, source: str | None = None) -> int:
    """Writes the log of a run; returns the number of excluded ranks without a document.

    Raises UsageError for a dataset other than LongMemEval with its texts, and if the raw file of
    the run is missing (or is not at `source`).
    """
    import orjson

    from harness.datasets.adapters.json_stream import records

    run = RunFolder(folder)
    name = run.record.dataset.name
    if name.partition("/")[0] != "longmemeval" or name.endswith("-ids"):
        raise UsageError(f"{folder}: was run on {name}; the official log is of LongMemEval's files")
    dataset = dataset_of_run(folder, source=source)
    raw = Path(dataset.manifest.raw[0].path)
    if not raw.is_file() or raw.stat().st_size != dataset.manifest.raw[0].bytes:
        raise UsageError(
            f"{raw}: the file that was run on is not there any more; add --source PATH"
        )
    ranked, left_out = _ranked(run, dataset)
    metrics = _metrics(folder)
    with out.open("wb") as file:
        for record in records(raw):
            question, value = record.value["question_id"], record.value
            if question in ranked:
                sessions, dates = value["haystack_session_ids"], value["haystack_dates"]
                found = {
                    "query": record.value["question"],
                    "ranked_items": [*_items(ranked[question], sessions, dates)],
                    "metrics": metrics.get(question, {"session": {}, "turn": {}}),
                }
                line = orjson.dumps({**record.value, "retrieval_results": found})
                file.write(line + b"\n")
    return left_out


def _ranked(run: RunFolder, dataset: Dataset) -> tuple[dict[str, list[tuple[str, str]]], int]:
    """Returns the ids, as the script writes them, and texts of each ranking; counts excluded
    ranks."""
    rankings = read_run_rankings(run.rankings)
    resolved = resolve(rankings, dataset)
    texts = dataset.documents.contents(np.maximum(resolved.row, 0))
    ids = dataset.documents.column("id", np.maximum(resolved.row, 0)).to_pylist()
    sessions = dataset.documents.column("session", np.maximum(resolved.row, 0)).to_pylist()
    judged = dataset.qrels(_KEY)
    pairs = zip(judged.query.tolist(), judged.document.tolist(), judged.grade.tolist(), strict=True)
    gold = {(query, row) for query, row, grade in pairs if grade >= 1}
    found: dict[str, list[tuple[str, str]]] = {query: [] for query in rankings.query_ids}
    left_out = 0
    for at, (query, row) in enumerate(
        zip(resolved.query.tolist(), resolved.row.tolist(), strict=True)
    ):
        if row < 0:
            left_out += 1
            continue
        id_ = ids[at] if "#" not in ids[at] else original_id(ids[at], sessions[at])
        if "answer" in sessions[at] and (query, row) not in gold:
            id_ = id_.replace("answer", "noans")
        found[dataset.query_ids[query]].append((id_, texts[at]))
    return found, left_out


def original_id(id_: str, session: str) -> str:
    """Returns the raw file's id for a copy of a session (`ID#2`) or for its turn (`ID#2_7`)."""
    copy = id_.removeprefix(f"{session}#")
    return id_ if copy == id_ else session + copy.lstrip("0123456789")


def _items(
    ranked: list[tuple[str, str]], sessions: list[str], said_at: list[str]
) -> Iterator[dict[str, str]]:
    """Yields ranked_items; the n-th item of a session's id has the n-th date of that session."""
    dates: dict[str, list[str]] = {}
    for session, date in zip(sessions, said_at, strict=True):
        dates.setdefault(session, []).append(date)
    met = Counter[str]()
    for id_, text in ranked:
        plain = id_.replace("noans", "answer")
        session = plain if plain in dates else plain.rpartition("_")[0]
        of = dates.get(session, [""])
        yield {"corpus_id": id_, "text": text, "timestamp": of[min(met[id_], len(of) - 1)]}
        met[id_] += 1


def _metrics(folder: Path) -> dict[str, dict[str, dict[str, float]]]:
    """Returns metrics by question and level, with the official script's names; empty for a run
    without scores."""
    if not (folder / "scores.json").is_file():
        return {}
    table = read_scores_by_query(folder)[1].filter(pc.field("protocol") == _PROTOCOL)
    found: dict[str, dict[str, dict[str, float]]] = {}
    for row in table.to_pylist():
        level = found.setdefault(row["query"], {"session": {}, "turn": {}})[_LEVELS[row["level"]]]
        for column, value in row.items():
            metric, at, k = column.partition("@")
            if at and metric in _NAMES and value is not None:
                level[f"{_NAMES[metric]}@{k}"] = value
    return found
