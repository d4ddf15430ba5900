"""Writes the folder of a finished run: rankings, costs of queries, errors, and run.json."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from msgspec.structs import replace

from harness.dataset.reader import Dataset, last_of_base
from harness.files import folder_aside
from harness.records.run import (
    EmptyHaystacks,
    IndexTimes,
    Measured,
    Percentiles,
    QueryCounts,
    Retried,
    RunNotes,
    RunRecord,
    Usage,
)
from harness.runs import money
from harness.runs.checkpoint import last_results
from harness.runs.folder.from_hits import Ranking, as_rankings, resolve_into
from harness.runs.folder.run_folder import (
    CHECKPOINT,
    OURS,
    OWN_ANSWERS,
    RETRIED,
    previous_folder,
    write_rankings,
    write_record,
)
from harness.runs.provenance import peak_memory
from harness.runs.results import QueryResult, WorkResult
from harness.scoring.matching.hits import TextHit

if TYPE_CHECKING:
    from harness.scoring.matching.found import Matching

_NAMED = 5
"""Haystacks that a record names of those in which nothing was found."""


def write_run(
    folder: Path,
    dataset: Dataset,
    results: Sequence[WorkResult],
    record: RunRecord,
    matching: Matching | None = None,
    *,
    keep_previous: bool = True,
    checkpoint: Path | None = None,
) -> None:
    """Writes everything of a finished run, whole or not at all; hits are resolved first.

    `record` is run.json without what `results` add to it. `results` are in the order in which they
    came: the last result of a query counts. `checkpoint` is kept where queries failed.

    A run that is in `folder` already moves to `previous_folder`, or else is replaced but for the
    user's own files.
    """
    import pyarrow.parquet as pq

    queries, before = last_results(results)
    exists = (folder / "run.json").is_file()
    previous = previous_folder(folder) if exists and keep_previous else None
    record = _completed(record, dataset, results, queries, before)
    with folder_aside(folder, ours=None if previous else OURS, keep=previous) as aside:
        if any(one.hits is not None for one in queries):
            hits = [hit for one in queries for hit in _hits(one)]
            ranked, resolved = resolve_into(aside, dataset, hits, record.settings.k, matching)
            record = replace(record, hits=resolved)
            for one in queries:
                if one.query in ranked:
                    found = ranked[one.query]
                    one.rows, one.scores = found.rows, found.scores
        rankings = as_rankings(dataset, _rankings(queries))
        write_rankings(rankings, aside, record.retriever.name)
        pq.write_table(_query_table(dataset, queries), aside / "queries.parquet")
        _write_own_answers(dataset, queries, aside / OWN_ANSWERS)
        write_errors(dataset, queries, aside / "errors.jsonl")
        write_errors(dataset, before, aside / RETRIED)
        if checkpoint is not None and any(one.error is not None for one in queries):
            shutil.copyfile(checkpoint, aside / CHECKPOINT)
        write_record(aside, record)


def _rankings(answers: Sequence[QueryResult]) -> list[Ranking]:
    """The answers' rankings; failed queries have none."""
    return [Ranking(a.query, a.rows, a.scores) for a in answers if a.error is None]


def _hits(answer: QueryResult) -> list[TextHit]:
    """An answer as hits; one that gave documents has a hit without a text for each."""
    if answer.hits is None:
        scores = [None] * len(answer.rows) if answer.scores is None else answer.scores.tolist()
        rows = enumerate(zip(answer.rows.tolist(), scores, strict=True), 1)
        return [TextHit(answer.query, i, "", [row], score) for i, (row, score) in rows]
    return [
        TextHit(answer.query, i, hit.text, hit.rows, hit.score, hit.unknown)
        for i, hit in enumerate(answer.hits, 1)
    ]


def _query_table(dataset: Dataset, answers: Sequence[QueryResult]) -> pa.Table:
    return pa.table(
        {
            "query": [dataset.query_ids[a.query] for a in answers],
            "seconds": pa.array([a.seconds for a in answers], pa.float64()),
            "returned": pa.array([len(a.rows) for a in answers], pa.int32()),
            "confidence": pa.array([a.confidence for a in answers], pa.float64()),
            "abstained": [a.abstained for a in answers],
            "failed": [a.error is not None for a in answers],
        }
    )


def _write_own_answers(dataset: Dataset, answers: Sequence[QueryResult], path: Path) -> None:
    """One JSON line a question that the system answered itself; no file where it answers none."""
    import orjson

    lines = [
        orjson.dumps({"question_id": dataset.query_ids[a.query], "hypothesis": a.answer}) + b"\n"
        for a in answers
        if a.answer is not None and a.error is None
    ]
    if lines:
        path.write_bytes(b"".join(lines))


def write_errors(dataset: Dataset, answers: Sequence[QueryResult], path: Path) -> None:
    """One JSON line a failed query, with its trace; no file when none failed."""
    import orjson

    lines = [
        orjson.dumps({"query": dataset.query_ids[a.query], "error": a.error}) + b"\n"
        for a in answers
        if a.error is not None
    ]
    if lines:
        path.write_bytes(b"".join(lines))


def _completed(
    record: RunRecord,
    dataset: Dataset,
    results: Sequence[WorkResult],
    queries: Sequence[QueryResult],
    before: Sequence[QueryResult],
) -> RunRecord:
    """Adds to the record of a run what its results say, and when it finished."""
    # A process runs its items in their order, so that the last report of each is its sum.
    reported = {one.process: one.reported for one in results if one.reported is not None}
    failed = sum(one.error is not None for one in queries)
    return replace(
        record,
        # Lists identify a run by its folder and this: two nights may run it within one second.
        finished=datetime.now(UTC).isoformat(timespec="milliseconds"),
        queries=QueryCounts(
            asked=len(queries),
            answered=len(queries) - failed,
            failed=failed,
            abstained=sum(one.abstained for one in queries),
        ),
        retried=_retried(queries, before),
        cached_haystacks=_cached(results),
        empty_haystacks=_empty(dataset, queries),
        notes=RunNotes(
            documents_beyond_k=sum(one.beyond_k for one in queries),
            duplicate_documents=sum(one.duplicates for one in queries),
            padding=sum(one.padding for one in queries),
            sorted_by_score=sum(one.sorted_by_score for one in queries),
            scores_dropped=_dropped_scores(queries),
            self_excluded=dataset.manifest.exclude_self,
        ),
        measured=_measured(record, results, queries),
        reported=[*reported.values()],
    )


def _measured(
    record: RunRecord, results: Sequence[WorkResult], queries: Sequence[QueryResult]
) -> Measured:
    """Adds times, usage and memory to the seconds that the record has already."""
    settings = record.settings
    searches = np.array([one.seconds for one in queries if one.seconds is not None])
    ingestion, searching = _usage(results, len(queries), settings.prices)
    # The workers of a cluster are no children of this process.
    children = (settings.workers or 1) > 1 or settings.sandbox is not None
    return replace(
        record.measured or Measured(),
        index=_index_times([one for one in results if one.index_seconds is not None]),
        ingestion=ingestion,
        searching=searching,
        search_ms=percentiles(searches * 1000),
        peak_memory_bytes=peak_memory(workers=settings.cluster is None and children),
    )


def _cached(results: Sequence[WorkResult]) -> int:
    """Counts haystacks that only an earlier run indexed."""
    indexed = {one.haystack for one in results if one.index_seconds is not None}
    return len({one.haystack for one in results if one.cached} - indexed)


def _retried(queries: Sequence[QueryResult], before: Sequence[QueryResult]) -> Retried | None:
    """Counts queries that were asked again after a failure, and those that then were answered."""
    again = {one.query for one in before}
    answered = sum(one.error is None for one in queries if one.query in again)
    if not before:
        return None
    return Retried(queries=len(again), answered=answered, failures=len(before))


def _empty(dataset: Dataset, given: Sequence[QueryResult]) -> EmptyHaystacks | None:
    """Counts haystacks with documents of which no query was answered with anything.

    None where there is none. An abstention is an answer; a failure is counted elsewhere.
    """
    results: dict[int, list[QueryResult]] = {}
    for one in given:
        haystack = int(dataset.query_haystack[one.query])
        if dataset.manifest.as_of:  # whose questions are of many times, and may be one each
            haystack = last_of_base(dataset.haystack_ids, haystack)
        mine = results.setdefault(haystack, [])
        if one.error is None:
            mine.append(one)
    empty = [
        haystack
        for haystack, mine in sorted(results.items())
        if mine and dataset.haystack_size(haystack) and not any(map(_has_output, mine))
    ]
    if not empty:
        return None
    return EmptyHaystacks(
        n=len(empty),
        total=len(results),
        queries=sum(len(results[haystack]) for haystack in empty),
        examples=[dataset.haystack_bases[haystack] for haystack in empty[:_NAMED]],
    )


def _has_output(result: QueryResult) -> bool:
    return bool(len(result.rows) or result.hits or result.abstained)


def _dropped_scores(answers: Sequence[QueryResult]) -> int:
    """QueryResults with scores, where others came without: see `as_rankings`."""
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
    results: Sequence[WorkResult], queries: int, prices: money.Prices
) -> tuple[Usage | None, Usage | None]:
    """Returns what the system counted while it indexed, and while it searched."""
    # What was reported in the midst of a haystack is part of what is reported at its end.
    last = {(one.account, one.item): one.ingestion_usage for one in results if one.ingestion_usage}
    ingestion = money.total(last.values())
    by_account = {one.account: one.usage for one in results if one.usage is not None}
    used = money.total(by_account.values())
    searching = {name: n for name, n in money.usage_delta(used, ingestion).items() if n > 0}
    found = money.usage(searching, prices)
    if found is not None and found.usd is not None and queries:
        found = replace(found, usd_per_1000_queries=found.usd / queries * 1000)
    return money.usage(ingestion, prices), found


def percentiles(values: np.ndarray[Any, np.dtype[np.float64]]) -> Percentiles | None:
    """Summarises durations; None for none."""
    if len(values) == 0:
        return None
    p50, p95, p99 = np.percentile(values, [50, 95, 99])
    return Percentiles(mean=float(values.mean()), p50=float(p50), p95=float(p95), p99=float(p99))
