"""Measures a retriever under load: recall, memory, and the levels of a plan."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from harness.datasets.reader import Dataset
from harness.extensions.online.load.generator import (
    LoadGenerator,
    LoadPlan,
    Traffic,
    failed,
    latencies,
    percentiles,
    service_times,
    timed_out,
)
from harness.extensions.online.load.records import LoadLevel
from harness.runs.folder.rankings import RowRanking, as_rankings
from harness.runs.results import QueryResult
from harness.scoring.metrics import Metric
from harness.scoring.protocols import PROTOCOLS
from harness.scoring.ranks import Qrels, from_dataset, rank_judged


def busiest_haystack(dataset: Dataset) -> int:
    """Returns the haystack with the most queries; of several, the largest."""
    counts = np.bincount(dataset.query_haystack, minlength=len(dataset.haystack_ids))
    most = np.flatnonzero(counts == counts.max()).tolist()
    return max(most, key=lambda haystack: int(dataset.haystack_sizes[haystack]))


def measure_level(
    dataset: Dataset,
    plan: LoadPlan,
    queries: Sequence[int],
    ask: Callable[[int], QueryResult],
    settle: Callable[[QueryResult], None],
    recall_k: int,
) -> tuple[LoadLevel, Traffic]:
    """Sends the requests of a level and summarises them."""
    traffic = LoadGenerator(plan, queries, ask, settle).run()
    return summarise(dataset, traffic, recall_k), traffic


def summarise(dataset: Dataset, traffic: Traffic, recall_k: int) -> LoadLevel:
    """Counts the requests of a level and computes its latency and recall."""
    requests, plan = traffic.requests, traffic.plan
    waited, lower_bounds = latencies(traffic)
    results = [one.result for one in requests if one.result is not None]
    errors = [one.result.error for one in requests if one.result is not None and failed(one)]
    late = sum(timed_out(one) for one in requests)
    unanswered = len(requests) - len(results)
    answered = len(results) - len(errors) - late
    return LoadLevel(
        clients=plan.clients,
        rate=plan.rate,
        seconds=traffic.elapsed,
        requests=len(requests) + len(traffic.unsent),
        answered=answered,
        failed=len(errors),
        timed_out=late,
        unanswered=unanswered,
        unsent=len(traffic.unsent),
        per_second=answered / traffic.elapsed if traffic.elapsed else 0.0,
        latency=percentiles(waited),
        service=percentiles(service_times(traffic)),
        lower_bounds=lower_bounds,
        most_in_flight=traffic.most_in_flight,
        recall=recall(dataset, results, recall_k),
        memory_bytes=memory(),
        first_error=errors[0] if errors else None,
    )


def recall(dataset: Dataset, results: Sequence[QueryResult], k: int) -> float | None:
    """Returns the mean recall@k of results, of which several may be of one query.

    As under the protocol memory/1: a failed query counts 0, one without relevant documents does not
    count. None if no query counts, and if texts were returned without their source documents.
    """
    if any(hit.text and not hit.rows for one in results for hit in one.hits or ()):
        return None
    rows = [_rows(one) for one in results]
    # Equal results are scored once.
    numbers: dict[tuple[int, bytes], int] = {}
    kind = [
        numbers.setdefault((one.query, row.tobytes()), len(numbers))
        for one, row in zip(results, rows, strict=True)
    ]
    first = np.unique(kind, return_index=True)[1].tolist()
    ranked = [RowRanking(results[i].query, rows[i], None) for i in first]
    rankings = replace(as_rankings(dataset, ranked), query_ids=[str(i) for i in range(len(first))])
    protocol = PROTOCOLS["memory"]
    judged = rank_judged(
        rankings,
        _copies(from_dataset(dataset, protocol.key), [one.query for one in ranked]),
        protocol.ties,
    )
    values = np.nan_to_num(Metric.parse(f"recall@{k}")(judged))
    counted = judged.has_relevant[kind]
    return float(values[kind][counted].mean()) if counted.any() else None


def _rows(result: QueryResult) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
    """Returns the documents of a result, best first; those of its texts once each."""
    if result.hits is None:
        return result.rows
    return np.array([*dict.fromkeys(row for hit in result.hits for row in hit.rows)], np.int32)


def _copies(qrels: Qrels, queries: Sequence[int]) -> Qrels:
    """Returns the judgements of each of these queries, repeated ones as separate queries."""
    starts = np.searchsorted(qrels.query, np.arange(qrels.n + 1))
    counts = np.diff(starts)[list(queries)]
    copy = np.repeat(np.arange(len(queries)), counts)
    row = np.arange(counts.sum()) + np.repeat(
        starts[list(queries)] - (np.cumsum(counts) - counts), counts
    )
    items = np.unique(copy << 32 | qrels.evidence_id[row], return_inverse=True)[1]
    return Qrels(
        [str(i) for i in range(len(queries))],
        copy.astype(np.int32),
        qrels.document.take(row),
        qrels.grade[row],
        items.astype(np.int32),
    )


def memory() -> int | None:
    """Returns the resident memory in bytes of this process and its children; None where /proc is
    missing."""
    if not Path("/proc/self/statm").exists():
        return None
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            parents.setdefault(int(fields[1]), []).append(int(folder.name))
    found, waiting = 0, [os.getpid()]
    while waiting:
        process = waiting.pop()
        waiting += parents.get(process, [])
        with suppress(OSError):  # it has ended
            pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
            found += pages * os.sysconf("SC_PAGE_SIZE")
    return found
