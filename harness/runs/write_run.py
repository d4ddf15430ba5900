"""Writes the folder of a finished run: rankings, costs of queries, errors, and run.json."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np
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
from harness.runs.executors import Execution
from harness.runs.folder.checkpoint import Checkpoint
from harness.runs.folder.rankings import (
    RowRanking,
    as_rankings,
    percentiles,
    write_query_table,
    write_rankings,
)
from harness.runs.folder.run_folder import dataset_ref, write_record
from harness.runs.folder.run_state import CHECKPOINT, OWN_ANSWERS, RETRIED, RunStore
from harness.runs.provenance import git_state, machine, peak_memory, repeat_command, versions
from harness.runs.request import RunRequest
from harness.runs.results import QueryResult, WorkResult
from harness.runs.usage import Prices, add_counts, usage_record


@dataclass(frozen=True)
class RunOutcome:
    """The results of a run and its measurements."""

    request: RunRequest
    checkpoint: Checkpoint
    queries: list[QueryResult]
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
        if any(one.hits is not None for one in queries):
            from harness.runs.folder.hits import resolve_results

            matching = outcome.request.settings.matching
            hits = resolve_results(aside, dataset, queries, record.settings.k, matching)
            record = replace(record, hits=hits)
        rankings = as_rankings(dataset, _rankings(queries))
        write_rankings(rankings, aside, record.retriever.name)
        _write_queries(aside, dataset, queries)
        _write_own_answers(dataset, queries, aside / OWN_ANSWERS)
        write_errors(dataset, queries, aside / "errors.jsonl")
        write_errors(dataset, outcome.failed_before, aside / RETRIED)
        if any(one.error is not None for one in queries):
            shutil.copyfile(checkpoint.path, aside / CHECKPOINT)
        write_record(aside, record)


def _rankings(answers: Sequence[QueryResult]) -> list[RowRanking]:
    """Returns the answers' rankings; failed queries have none."""
    return [RowRanking(a.query, a.rows, a.scores) for a in answers if a.error is None]


def _write_queries(folder: Path, dataset: Dataset, answers: Sequence[QueryResult]) -> None:
    write_query_table(
        folder,
        [dataset.query_ids[one.query] for one in answers],
        [len(one.rows) for one in answers],
        seconds=[one.seconds for one in answers],
        confidence=[one.confidence for one in answers],
        abstained=[one.abstained for one in answers],
        failed=[one.error is not None for one in answers],
    )


def write_errors(dataset: Dataset, answers: Sequence[QueryResult], path: Path) -> None:
    """Writes a JSON line with the trace of each failed query; no file if none failed."""
    failed = [one for one in answers if one.error is not None]
    _write_lines(path, [{"query": dataset.query_ids[a.query], "error": a.error} for a in failed])


def _write_own_answers(dataset: Dataset, answers: Sequence[QueryResult], path: Path) -> None:
    """Writes a JSON line for each question that the system answered itself; no file for none."""
    own = [one for one in answers if one.answer is not None and one.error is None]
    ids = dataset.query_ids
    _write_lines(path, [{"question_id": ids[a.query], "hypothesis": a.answer} for a in own])


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
    failed = sum(one.error is not None for one in queries)
    empty = None
    if not all(len(one.rows) for one in queries):
        from harness.runs.empty_haystacks import find_empty

        empty = find_empty(request, queries)
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
            abstained=sum(one.abstained for one in queries),
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
            documents_beyond_k=sum(one.beyond_k for one in queries),
            duplicate_documents=sum(one.duplicates for one in queries),
            padding=sum(one.padding for one in queries),
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
    searches = np.array([one.seconds for one in queries if one.seconds is not None])
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


def _retried(queries: Sequence[QueryResult], before: Sequence[QueryResult]) -> Retried | None:
    """Counts queries that were repeated after a failure, and those that were then answered."""
    again = {one.query for one in before}
    answered = sum(one.error is None for one in queries if one.query in again)
    if not before:
        return None
    return Retried(queries=len(again), answered=answered, failures=len(before))


def _dropped_scores(answers: Sequence[QueryResult]) -> int:
    """Counts rankings that lose their scores because others have none: see `as_rankings`."""
    given = sum(a.scores is not None for a in answers if len(a.rows))
    return given if given < sum(len(a.rows) > 0 for a in answers) else 0


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
