"""Scores a run folder from its rankings and writes the scores into it."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from msgspec.structs import replace as msgspec_replace

from harness.datasets.reader import Dataset
from harness.errors import UsageError
from harness.io.files import disk_errors, write_bytes
from harness.io.plugins import provider
from harness.io.records import write_json_record
from harness.records.run import MatchingRecord
from harness.records.scores import ScoreReport
from harness.runs.folder.rankings import read_run_rankings
from harness.runs.folder.run_folder import RunFolder, read_scores, write_scores
from harness.runs.folder.run_state import RUN_AGAIN
from harness.scoring.metrics import Metric
from harness.scoring.protocols import PROTOCOLS, Choices
from harness.scoring.ranks import Ties
from harness.scoring.score import score
from harness.scoring.score_columns import QueryStatus
from harness.scoring.scores import Scores

if TYPE_CHECKING:
    from harness.scoring.matching.matcher import TextHit


def score_run(
    folder: str | Path,
    dataset: Dataset,
    choices: Choices | None = None,
    *,
    semantic: float | None = None,
) -> Scores:
    """Scores a run folder from its rankings and writes the scores into it.

    `semantic` is the minimum cosine of similar texts; if given, accuracy by text similarity is
    measured too. Raises UsageError if the folder is not a run's, protocols do not fit, the folder
    cannot be written, or `semantic` lacks its model.

    Protocols, metrics and cut-offs of earlier scores are scored again, so none is lost.
    """
    folder = Path(folder)
    run = RunFolder(folder)
    if semantic is not None and dataset.manifest.ids_only:
        raise UsageError(f"{dataset.name} has ids only, no texts to compare; remove --semantic")
    record = run.record
    depth = record.settings.k
    known = query_outcomes(run, dataset)
    earlier = _earlier(folder)
    choices = choices or Choices()
    if earlier is not None and earlier.requested is not None:
        choices = choices.wider(earlier.requested)
    scores = score(dataset, read_run_rankings(run.rankings), choices, depth=depth, answered=known)
    report, by_text = scores.report, None
    if semantic is not None:
        semantic_of_run = provider("semantic_accuracy")
        result, by_text = semantic_of_run(run, dataset, known, choices or Choices(), semantic)
        report = msgspec_replace(report, semantic=result)
    elif earlier is not None and earlier.semantic is not None and _same_run(earlier, report):
        report = msgspec_replace(report, semantic=earlier.semantic)
    if record.hits is not None:
        report = msgspec_replace(report, hits=record.hits)
    scores = replace(scores, report=report)
    with disk_errors(folder, "make it writable: scores are stored in the run's folder"):
        write_bytes(folder / "scores.parquet", _parquet(scores.per_query))
        if report.semantic is None:
            (folder / "semantic.parquet").unlink(missing_ok=True)  # of scores that are replaced
        elif by_text is not None:
            write_bytes(folder / "semantic.parquet", _parquet(by_text))
        write_json_record(folder / "excluded.json", scores.excluded)
        write_scores(folder, report)
    return scores


def rescore(folder: Path, dataset: Dataset) -> ScoreReport:
    """Scores a run folder with the choices of its scores.json; writes nothing.

    Raises UsageError as `score_run`.
    """
    run, earlier = RunFolder(folder), read_scores(folder, check_inputs=False)
    asked = earlier.requested
    known = [one for one in earlier.protocols if one.protocol in PROTOCOLS]
    ties = [one.ties for one in known if one.ties != PROTOCOLS[one.protocol].ties]
    choices = Choices(
        protocols=asked.protocols if asked else (),
        ks=asked.ks if asked else (),
        metrics=[*map(Metric.parse, asked.metrics)] if asked else (),
        ties=Ties(ties[0]) if ties else None,
        missing=earlier.missing,
        answers=asked.answers if asked else False,
    )
    rankings, depth = read_run_rankings(run.rankings), run.record.settings.k
    outcomes = query_outcomes(run, dataset)
    report = score(dataset, rankings, choices, depth=depth, answered=outcomes).report
    return msgspec_replace(report, hits=run.record.hits)


def _earlier(folder: Path) -> ScoreReport | None:
    """Returns the scores in the folder; None if there are none that can be read."""
    try:
        return read_scores(folder, check_inputs=False)
    except UsageError:  # scoring replaces them
        return None


def _same_run(earlier: ScoreReport, report: ScoreReport) -> bool:
    """Tests whether two reports are of the same run, so that semantic accuracy still holds."""
    same = ("harness", "version", "dataset", "depth", "missing", "queries")
    return all(getattr(earlier, name) == getattr(report, name) for name in same)


def _parquet(table: pa.Table) -> bytes:
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(table, buffer)
    return buffer.getvalue()


def query_outcomes(run: RunFolder, dataset: Dataset) -> QueryStatus:
    """Returns the status of each query of a run, with the costs and the matching of returned
    texts."""
    known = query_status(run, dataset)
    if not run.hits.is_file():
        return known
    from harness.scoring.matching.matcher import by_query, expand, read_hits, unmeasurable
    from harness.scoring.tokens import text_tokens, token_counts

    record = run.record
    hits, k = read_hits(dataset, run.hits), record.settings.k
    rows = [row for _, mine in by_query(hits) for row in expand(mine, k)[0]]
    costs = text_tokens([row.hit.text if row.first else "" for row in rows])
    # A hit without a text costs what its documents do.
    plain = np.array([-1 if row.hit.text else row.document for row in rows], np.int32)
    costs += token_counts(dataset, plain)
    return replace(
        known,
        unmeasurable=unmeasurable(hits, dataset.n_queries),
        places_unresolved=sum(row.document < 0 for row in rows),
        tokens=costs,
        match=_said(record.hits.matching) if record.hits else "",
        texts=_texts(hits, dataset),
    )


def _texts(hits: list[TextHit], dataset: Dataset) -> list[list[str]]:
    """Returns the texts that each query returned; a hit without a text has its documents' text."""
    from harness.scoring.matching.matcher import by_query

    texts: list[list[str]] = [[] for _ in range(dataset.n_queries)]
    for query, mine in by_query(hits):
        for hit in mine:
            own = (
                [hit.text]
                if hit.text
                else dataset.documents.contents(np.array(hit.documents, np.int64))
            )
            texts[query].append(" ".join(own))
    return texts


def _said(matching: MatchingRecord) -> str:
    """Returns how texts were resolved, for signatures; sources and containment always apply
    first."""
    said = f"token-f1>={matching.f1:g}"
    return said if matching.semantic is None else f"{said},semantic>={matching.semantic:g}"


def query_status(run: RunFolder, dataset: Dataset) -> QueryStatus:
    """Reads the status of each query from queries.parquet; without it, all count as asked.

    Raises UsageError if queries of the run are missing in it.
    """
    table = run.queries
    n = dataset.n_queries
    if table is None:
        return QueryStatus.everything(n)
    expected = min(run.record.settings.limit or n, n)
    if run.record.executed and len(table) != expected:
        raise UsageError(
            f"{run.path}: has {len(table)} queries of {expected} that it was to ask; {RUN_AGAIN}"
        )
    known = dataset.query_rows
    at = np.array([known[name] for name in table["query"].to_pylist()], np.int64)
    asked, failed, abstained = (np.zeros(n, bool) for _ in range(3))
    confidence = np.full(n, np.nan)
    asked[at] = True
    failed[at] = table["failed"].to_numpy(zero_copy_only=False)
    abstained[at] = table["abstained"].to_numpy(zero_copy_only=False)
    confidence[at] = table["confidence"].to_numpy(zero_copy_only=False).astype(float)
    repeated = run.record.notes.duplicate_documents
    return QueryStatus(asked, asked & ~failed, failed, confidence, abstained, repeated=repeated)
