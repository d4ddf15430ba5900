"""What a finished run leaves in its folder: rankings, what each query cost, errors, provenance."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from harness.dataset.reader import Dataset, last_of_base
from harness.files import folder_aside
from harness.runs import money
from harness.runs.folder.from_hits import Ranking, as_rankings, resolve_into
from harness.runs.folder.run_folder import (
    JOURNAL,
    OURS,
    OWN_ANSWERS,
    RETRIED,
    RUN_VERSION,
    dataset_record,
    previous_folder,
    write_rankings,
    write_record,
)
from harness.runs.git import git_state
from harness.runs.journal import last_answers
from harness.runs.outcome import Answer, Outcome
from harness.runs.provenance import machine, peak_memory, versions
from harness.scoring.matching.hits import Hit

if TYPE_CHECKING:
    from harness.scoring.matching.found import Matching

_NAMED = 5
"""Haystacks that a record names of those in which nothing was found."""


def write_run(
    folder: Path,
    dataset: Dataset,
    outcomes: Sequence[Outcome],
    record: dict[str, Any],
    seconds: dict[str, Any],
    matching: Matching | None = None,
    *,
    keep_previous: bool = True,
    journal: Path | None = None,
) -> None:
    """Write everything of a finished run, whole or not at all; hits are resolved first.

    `outcomes` in the order in which they came: of a query that was asked again the last answer
    counts. `journal` is kept where queries failed.

    A run that stands there already is kept at `previous_folder`, or else replaced but for what is
    not its own.
    """
    import pyarrow.parquet as pq

    answers, before = last_answers(outcomes)
    there = (folder / "run.json").is_file()
    place = previous_folder(folder) if there and keep_previous else None
    with folder_aside(folder, ours=None if place else OURS, keep=place) as aside:
        if any(answer.hits is not None for answer in answers):
            hits = [hit for answer in answers for hit in _hits(answer)]
            k = record["settings"]["k"]
            ranked, about = resolve_into(aside, dataset, hits, k, matching)
            record = {**record, "hits": about}
            for answer in answers:
                if answer.query in ranked:
                    found = ranked[answer.query]
                    answer.rows, answer.scores = found.rows, found.scores
        rankings = as_rankings(dataset, _rankings(answers))
        write_rankings(rankings, aside, record["retriever"]["name"])
        pq.write_table(_query_table(dataset, answers), aside / "queries.parquet")
        _write_said(dataset, answers, aside / OWN_ANSWERS)
        write_errors(dataset, answers, aside / "errors.jsonl")
        write_errors(dataset, before, aside / RETRIED)
        if before:
            record = {**record, "retried": _retried(answers, before)}
        if journal is not None and any(answer.error is not None for answer in answers):
            shutil.copyfile(journal, aside / JOURNAL)
        write_record(aside, _run_json(dataset, outcomes, answers, record, seconds))


def _rankings(answers: Sequence[Answer]) -> list[Ranking]:
    """The answers' rankings; failed queries have none."""
    return [Ranking(a.query, a.rows, a.scores) for a in answers if a.error is None]


def _hits(answer: Answer) -> list[Hit]:
    """An answer as hits; one that gave documents has a hit without a text for each."""
    if answer.hits is None:
        scores = [None] * len(answer.rows) if answer.scores is None else answer.scores.tolist()
        rows = enumerate(zip(answer.rows.tolist(), scores, strict=True), 1)
        return [Hit(answer.query, i, "", [row], score) for i, (row, score) in rows]
    return [
        Hit(answer.query, i, hit["text"], hit["rows"], hit["score"], hit["unknown"])
        for i, hit in enumerate(answer.hits, 1)
    ]


def _query_table(dataset: Dataset, answers: Sequence[Answer]) -> pa.Table:
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


def _write_said(dataset: Dataset, answers: Sequence[Answer], path: Path) -> None:
    """One JSON line a question that the system answered itself; no file where it answers none."""
    import orjson

    lines = [
        orjson.dumps({"question_id": dataset.query_ids[a.query], "hypothesis": a.said}) + b"\n"
        for a in answers
        if a.said is not None and a.error is None
    ]
    if lines:
        path.write_bytes(b"".join(lines))


def write_errors(dataset: Dataset, answers: Sequence[Answer], path: Path) -> None:
    """One JSON line a failed query, with its trace; no file when none failed."""
    import orjson

    lines = [
        orjson.dumps({"query": dataset.query_ids[a.query], "error": a.error}) + b"\n"
        for a in answers
        if a.error is not None
    ]
    if lines:
        path.write_bytes(b"".join(lines))


def _run_json(
    dataset: Dataset,
    outcomes: Sequence[Outcome],
    answers: Sequence[Answer],
    record: dict[str, Any],
    seconds: dict[str, Any],
) -> dict[str, Any]:
    searches = np.array([a.seconds for a in answers if a.seconds is not None])
    # A process runs its units in their order, so that the last report of each is its sum.
    reported = {o.process: o.reported for o in outcomes if o.reported is not None}
    measured = {
        "seconds": {name: value for name, value in seconds.items() if value is not None},
        "index": _index_times([o for o in outcomes if o.index_seconds is not None]),
        **_used(outcomes, len(answers), record["settings"].get("prices", {})),
        "search_ms": _percentiles(searches * 1000),
        "peak_memory_bytes": peak_memory(
            # Those of a cluster are no children of this process.
            workers="cluster" not in record["settings"]
            and (record["settings"]["workers"] > 1 or bool(record["settings"]["isolated_by"]))
        ),
    }
    return {
        "run_version": RUN_VERSION,
        # Lists know a run by its folder and this: two nights may run it within one second.
        "finished": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "dataset": dataset_record(dataset),
        **record,
        "queries": {
            "asked": len(answers),
            "answered": sum(a.error is None for a in answers),
            "failed": sum(a.error is not None for a in answers),
            "abstained": sum(a.abstained for a in answers),
        },
        **({"kept_haystacks": kept} if (kept := _kept(outcomes)) else {}),
        **({"empty_haystacks": empty} if (empty := _empty(dataset, answers)) else {}),
        "notes": {
            "documents_beyond_k_left_out": sum(a.cut for a in answers),
            "repeated_documents_left_out": sum(a.repeated for a in answers),
            "padding_left_out": sum(a.padded for a in answers),
            "answers_sorted_by_score": sum(a.reordered for a in answers),
            "answers_whose_scores_were_dropped": _dropped_scores(answers),
            "own_document_left_out": dataset.manifest.exclude_self,
        },
        # What nobody measured or said is absent.
        "measured": {name: value for name, value in measured.items() if value is not None},
        **({"reported_by_the_system": [*reported.values()]} if reported else {}),
        "versions": versions(),
        "machine": machine(),
        "git": git_state(),
    }


def _kept(outcomes: Sequence[Outcome]) -> int:
    """Haystacks that nobody had to take in, since an earlier run did."""
    taken_in = {o.haystack for o in outcomes if o.index_seconds is not None}
    return len({o.haystack for o in outcomes if o.kept} - taken_in)


def _retried(answers: Sequence[Answer], before: Sequence[Answer]) -> dict[str, int]:
    """How many queries were asked again after a failure, and how many then were answered."""
    again = {answer.query for answer in before}
    answered = sum(a.error is None for a in answers if a.query in again)
    return {"queries": len(again), "answered": answered, "failures": len(before)}


def _empty(dataset: Dataset, given: Sequence[Answer]) -> dict[str, Any] | None:
    """Haystacks with documents of which no query was answered with anything.

    None where there is none. To say that there is no answer is one; a failure is counted elsewhere.
    """
    answers: dict[int, list[Answer]] = {}
    for answer in given:
        haystack = int(dataset.query_haystack[answer.query])
        if dataset.manifest.as_of:  # whose questions are of many times, and may be one each
            haystack = last_of_base(dataset.haystack_ids, haystack)
        mine = answers.setdefault(haystack, [])
        if answer.error is None:
            mine.append(answer)
    empty = [
        haystack
        for haystack, mine in sorted(answers.items())
        if mine and dataset.haystack_size(haystack) and not any(map(_said_something, mine))
    ]
    if not empty:
        return None
    first = [dataset.haystack_bases[haystack] for haystack in empty[:_NAMED]]
    queries = sum(len(answers[haystack]) for haystack in empty)
    return {"n": len(empty), "of": len(answers), "queries": queries, "first": first}


def _said_something(answer: Answer) -> bool:
    return bool(len(answer.rows) or answer.hits or answer.abstained)


def _dropped_scores(answers: Sequence[Answer]) -> int:
    """Answers with scores, where others came without: see `as_rankings`."""
    given = sum(a.scores is not None for a in answers if len(a.rows))
    return given if given < sum(len(a.rows) > 0 for a in answers) else 0


def _index_times(indexed: Sequence[Outcome]) -> dict[str, Any] | None:
    if not indexed:
        return None
    times = np.array([o.index_seconds for o in indexed], float)
    return {
        "haystacks": len({o.haystack for o in indexed}),
        "times": len(indexed),  # more than haystacks where several processes took one
        "documents": sum(o.documents for o in indexed),
        "seconds": float(times.sum()),
        "haystack_ms": _percentiles(times * 1000),
    }


def _used(outcomes: Sequence[Outcome], questions: int, prices: money.Prices) -> dict[str, Any]:
    """What the system says that taking in the haystacks, and searching them, has used and cost."""
    # What was told in the midst of a haystack is part of what is told at its end.
    last = {(o.account, o.unit): o.ingested for o in outcomes if o.ingested}
    ingestion = money.total(last.values())
    by_account = {o.account: o.used for o in outcomes if o.used is not None}
    used = money.total(by_account.values())
    searching = {name: n for name, n in money.rose(used, ingestion).items() if n > 0}
    found = money.in_record(searching, prices)
    if found and "usd" in found and questions:
        found["usd_a_thousand_questions"] = found["usd"] / questions * 1000
    return {"ingestion": money.in_record(ingestion, prices), "searching": found}


def _percentiles(values: np.ndarray[Any, np.dtype[np.float64]]) -> dict[str, float] | None:
    if len(values) == 0:
        return None
    p50, p95, p99 = np.percentile(values, [50, 95, 99])
    return {"mean": float(values.mean()), "p50": float(p50), "p95": float(p95), "p99": float(p99)}
