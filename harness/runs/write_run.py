"""Writes the folder of a finished run: rankings, costs of queries, errors, and run.json."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from harness.datasets.reader import Dataset
from harness.records.run import (
    IndexTimes,
    Measured,
    PhaseSeconds,
    QueryCounts,
    Retried,
    RunNotes,
    RunRecord,
    RunSettings,
    Usage,
)
from harness.runfiles.arrow import integers
from harness.runs.executors import Execution
from harness.runs.folder.checkpoint import Checkpoint
from harness.runs.folder.rankings import (
    percentiles,
    query_ids,
    write_query_table,
    write_results,
)
from harness.runs.folder.run_folder import dataset_ref, write_record
from harness.runs.folder.run_state import CHECKPOINT, OWN_ANSWERS, RETRIED, RunStore
from harness.runs.provenance import git_state, machine, peak_memory, repeat_command, versions
from harness.runs.request import RunRequest
from harness.runs.results import QueryResult, ResultLog, ResultTable, WorkResult
from harness.runs.usage import Prices, add_counts, usage_record


@dataclass(frozen=True)
class RunOutcome:
    """The results of a run and its measurements."""

    request: RunRequest
    checkpoint: Checkpoint
    queries: ResultTable
    failed_before: list[QueryResult]
    execution: Execution
    resumed_queries: int
    seconds: PhaseSeconds


def write_run(store: RunStore, outcome: RunOutcome) -> None:
    """Writes the folder of a finished run, completely or not at all; resolves hits first.

    The folder includes the checkpoint if queries failed.
    """
    dataset, queries, checkpoint = outcome.request.dataset, outcome.queries, outcome.checkpoint
    record = run_record(outcome)
    with store.replaced(keep_previous=checkpoint.keeps_previous) as aside:
        if any(one.hits is not None for one in queries.others):
            from harness.runs.folder.hits import resolve_results

            matching, objects = outcome.request.settings.matching, queries.objects()
            hits = resolve_results(aside, dataset, objects, record.settings.k, matching)
            record, queries = replace(record, hits=hits), ResultLog(objects).last()[0]
        write_results(dataset, queries, aside, record.retriever.name)
        _write_queries(aside, dataset, queries)
        _write_own_answers(dataset, queries.others, aside / OWN_ANSWERS)
        write_errors(dataset, queries.others, aside / "errors.jsonl")
        write_errors(dataset, outcome.failed_before, aside / RETRIED)
        if queries.failed.any():
            shutil.copyfile(checkpoint.path, aside / CHECKPOINT)
        write_record(aside, record)


def _write_queries(folder: Path, dataset: Dataset, results: ResultTable) -> None:
    confidence, abstained = np.full(len(results), np.nan), np.zeros(len(results), bool)
    at = np.searchsorted(results.query, [one.query for one in results.others])
    confidence[at] = [
        np.nan if one.confidence is None else one.confidence for one in results.others
    ]
    abstained[at] = [one.abstained for one in results.others]
    write_query_table(
        folder,
        query_ids(dataset, results.query),
        integers(results.size.astype(np.int32)),
        seconds=_known(results.seconds),
        confidence=_known(confidence),
        abstained=abstained.tolist(),
        failed=results.failed.tolist(),
    )


def _known(values: npt.NDArray[np.float64]) -> pa.Array:
    """Converts numbers to Arrow, with null for NaN."""
    column = integers(values)
    return pc.if_else(pc.is_nan(column), pa.scalar(None, pa.float64()), column)


def write_errors(dataset: Dataset, answers: Sequence[QueryResult], path: Path) -> None:
    """Writes a JSON line with the trace of each failed query; no file if none failed."""
    failed = [one for one in answers if one.error is not None]
    _write_lines(path, [{"query": dataset.query_ids[a.query], "error": a.error} for a in failed])


def _write_own_answers(dataset: Dataset, answers: Sequence[QueryResult], path: Path) -> None:
    """Writes a JSON line for each question that the system answered itself; no file for none."""
    own = [one for one in answers if one.answer is not None and one.error is None]
    lines = [{"question_id": dataset.query_ids[a.query], "hypothesis": a.answer} for a in own]
    _write_lines(path, lines)


def _write_lines(path: Path, rows: Sequence[dict[str, str | None]]) -> None:
    if rows:
        path.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))


def run_record(outcome: RunOutcome) -> RunRecord:
    """Returns run.json of a finished run, without its hits."""
    request, queries = outcome.request, outcome.queries
    dataset, settings = request.dataset, request.settings
    results, before = outcome.checkpoint.done, outcome.failed_before
    # Each process runs its items in order, so its last report is its total.
    reported = {one.process: one.reported for one in results if one.reported is not None}
    failed, others = int(queries.failed.sum()), queries.others
    empty = None
    if not queries.size.all() or (queries.scored.any() and not queries.scores.any()):
        from harness.runs.empty_haystacks import find_empty

        empty = find_empty(request, queries.objects())
    return RunRecord(
        run_version=1,
        # Lists identify a run by folder and time; two nightly runs may end within one second.
        finished=datetime.now(UTC).isoformat(timespec="milliseconds"),
        dataset=dataset_ref(dataset),
        retriever=replace(
            request.about,
            ids="dataset" if getattr(request.built, "returns_dataset_ids", False) else "handles",
            sees_gold_labels=request.sees_gold_labels,
        ),
        settings=_settings_record(outcome),
        queries=QueryCounts(
            asked=len(queries),
            answered=len(queries) - failed,
            failed=failed,
            abstained=sum(one.abstained for one in others),
        ),
        name=settings.name or None,
        submitted_by=settings.submitted_by or None,
        command=repeat_command(dataset, request.retriever, request.plan.k, settings),
        resumed_queries=outcome.resumed_queries,
        cut_off_attempts=len(outcome.checkpoint.cut_off),
        retried=_retried(queries, before),
        cached_haystacks=_cached(results),
        empty_haystacks=empty,
        notes=RunNotes(
            documents_beyond_k=sum(one.beyond_k for one in others),
            duplicate_documents=sum(one.duplicates for one in others),
            padding=sum(one.padding for one in others),
            scores_dropped=_dropped_scores(queries),
            self_excluded=dataset.manifest.exclude_self,
        ),
        measured=_measured(outcome),
        reported=[*reported.values()],
        versions=versions(),
        machine=machine(),
        git=git_state(),
    )


def _settings_record(outcome: RunOutcome) -> RunSettings:
    request, execution = outcome.request, outcome.execution
    settings = request.settings
    return RunSettings(
        k=request.plan.k,
        limit=settings.limit,
        seed=settings.seed,
        workers=execution.workers,
        batch_size=request.batch_size,
        concurrency=settings.concurrency if settings.concurrency > 1 else None,
        query_timeout=settings.query_timeout,
        index_timeout=settings.index_timeout,
        retries=settings.retries or None,
        prices={model: dict(prices) for model, prices in settings.prices.items()},
        sandbox=request.sandbox,
        cluster=execution.cluster,
    )


def _measured(outcome: RunOutcome) -> Measured:
    """Returns times, usage and memory."""
    execution, results, queries = outcome.execution, outcome.checkpoint.done, outcome.queries
    searches = queries.seconds[~np.isnan(queries.seconds)]
    ingestion, searching = _usage(results, len(queries), outcome.request.settings.prices)
    # The workers of a cluster are not children of this process.
    children = execution.workers > 1 or outcome.request.sandbox is not None
    return Measured(
        seconds=outcome.seconds,
        index=_index_times([one for one in results if one.index_seconds is not None]),
        ingestion=ingestion,
        searching=searching,
        search_ms=percentiles(searches * 1000),
        peak_memory_bytes=peak_memory(workers=execution.cluster is None and children),
    )


def _cached(results: Sequence[WorkResult]) -> int:
    """Counts haystacks that only an earlier run indexed."""
    indexed = {one.haystack for one in results if one.index_seconds is not None}
    return len({one.haystack for one in results if one.cached} - indexed)


def _retried(queries: ResultTable, before: Sequence[QueryResult]) -> Retried | None:
    """Counts queries that were repeated after a failure, and those that were then answered."""
    again = {one.query for one in before}
    answered = len(again) - int(np.isin(queries.query[queries.failed], [*again]).sum())
    if not before:
        return None
    return Retried(queries=len(again), answered=answered, failures=len(before))


def _dropped_scores(results: ResultTable) -> int:
    """Counts rankings that lose their scores because others have none: see `write_results`."""
    given = int(results.scored[results.size > 0].sum())
    return given if given < int((results.size > 0).sum()) else 0


def _index_times(indexed: Sequence[WorkResult]) -> IndexTimes | None:
    times = np.array([one.index_seconds for one in indexed], float)
    haystack_ms = percentiles(times * 1000)
    if haystack_ms is None:
        return None
    return IndexTimes(
        haystacks=len({one.haystack for one in indexed}),
        builds=len(indexed),
        documents=sum(one.documents for one in indexed),
        seconds=float(times.sum()),
        haystack_ms=haystack_ms,
    )


def _usage(
    results: Sequence[WorkResult], queries: int, prices: Prices
) -> tuple[Usage | None, Usage | None]:
    """Returns the usage of ingestion and of search, as the system counted it."""
    ingestion = add_counts(one.ingestion_usage or {} for one in results)
    searching = add_counts(one.usage or {} for one in results)
    searching = {name: n for name, n in searching.items() if n > 0}
    found = usage_record(searching, prices)
    if found is not None and found.usd is not None and queries:
        found = replace(found, usd_per_1000_queries=found.usd / queries * 1000)
    return usage_record(ingestion, prices), found
