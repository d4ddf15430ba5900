"""Compares a run with the last one of its series, and builds its history line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from harness.analysis.compare.comparison import Cell, Options
from harness.analysis.compare.table import clusters_of, table
from harness.analysis.scored_run import (
    Block,
    ScoredRun,
    by_depth,
    depths_refuse,
    differing,
    essentials,
    settings,
)
from harness.extensions.site.history import (
    ChangedSetting,
    DropTest,
    HistoryQueries,
    HistoryTimes,
    HistoryVersions,
    IntervalNote,
    LineChange,
    LineDataset,
    MetricChange,
    ScoredLine,
    ShortMean,
)
from harness.records.run import Measured, RunRecord
from harness.records.scores import MetricResult, ProtocolResult
from harness.runs.run_labels import short_text
from harness.scoring.score_columns import name_clusters
from harness.stats.margin import margin_tests
from harness.stats.paired import EQUAL

_DIGITS = 6


def compare_with_last(
    now: ScoredRun,
    last: ScoredRun | None,
    metrics: Sequence[str],
    alpha: float,
    cluster_by: str,
    max_drop: float | None = None,
) -> LineChange:
    """Compares a run with the last one; both have only the compared protocol."""
    if last is None:
        return LineChange(state="first")
    since = last.run_record.finished
    blocks = list(dict.fromkeys([*last.blocks, *now.blocks]))
    reasons = [
        f"{row.what} {row.values[0]} -> {row.values[1]}"
        for row in differing(essentials((last, now), blocks))
    ]
    if depths_refuse([last, now], blocks, metrics):
        reasons.append(f"k {last.scores.depth} -> {now.scores.depth}")
    if reasons:
        return LineChange(state="not comparable", since=since, reasons=reasons)
    apart = by_depth([last, now], blocks[0])
    metrics = [metric for metric in metrics if metric not in apart]
    if metrics and _equal(now, last, blocks[0], metrics):
        return LineChange(state="unchanged", since=since)
    options = Options(metrics=tuple(metrics), cluster_by=cluster_by)
    found = table([now, last], blocks[0], [(1, 0)], options) if metrics else None
    if found is None or not found.cells:
        # Always give a reason: a run without a comparison is not "unchanged".
        depths = [run.scores.depth for run in (last, now)]
        deep = f"k {depths[0]} -> {depths[1]}: " if depths[0] != depths[1] else ""
        reasons = [f"{deep}no metric in common"]
        return LineChange(state="not comparable", since=since, reasons=reasons)
    results: dict[str, dict[str, MetricChange]] = {}
    for cell in found.cells:
        results.setdefault(cell.slice, {})[cell.metric] = _metric_change(cell)
    if max_drop is not None:
        main = results.get("all", {})
        tests = _drop_tests(now, last, blocks[0], [*main], cluster_by, (max_drop, alpha))
        for metric, test in tests.items():
            main[metric] = replace(main[metric], drop=test)
    first = found.cells[0].pairs[0].found.difference
    return LineChange(
        state="compared",
        since=since,
        alpha=alpha,
        max_drop=max_drop,
        test=found.test,
        clusters=found.clusters,
        cluster_by=found.cluster_by,
        interval_method=name_clusters(first.how, found.cluster_by),
        approximate=name_clusters(first.note, found.cluster_by),
        unpaired=list(found.dropped),
        results=results,
    )


def _equal(now: ScoredRun, last: ScoredRun, block: Block, metrics: Sequence[str]) -> bool:
    """Returns whether each query has the same value, or none, in both for each metric."""
    rows, others = now.rows(block), last.rows(block)
    return all(
        metric in others.table.column_names
        and np.array_equal(rows.values(metric), others.values(metric, rows.queries), equal_nan=True)
        for metric in metrics
    )


def _metric_change(cell: Cell) -> MetricChange:
    found = cell.pairs[0].found
    difference = found.difference
    return MetricChange(
        before=_number(found.mean_a),
        difference=_number(difference.value),
        low=_number(difference.low),
        high=_number(difference.high),
        p=_number(found.test.p),
        smallest_p=_number(found.test.smallest),
        n=difference.n,
        wins=found.wins,
        losses=found.losses,
    )


def _drop_tests(
    now: ScoredRun,
    last: ScoredRun,
    block: Block,
    metrics: Sequence[str],
    cluster_by: str,
    rule: tuple[float, float],
) -> dict[str, DropTest]:
    """Returns the tests of metrics against the allowed drop; `rule` is `max_drop` and alpha."""
    rows, others = last.rows(block), now.rows(block)
    columns = [rows.values(name) - others.values(name, rows.queries) for name in metrics]
    differences = np.stack(columns, axis=1)
    differences[np.abs(differences) <= EQUAL] = 0.0
    clusters = clusters_of(rows.haystacks(), cluster_by)
    max_drop, alpha = rule
    tests = margin_tests(differences, [max_drop] * len(metrics), clusters, alpha=alpha)
    return {
        name: DropTest(
            mean=round(test.mean, _DIGITS),
            low=round(test.low, _DIGITS),
            high=round(test.high, _DIGITS),
            p_above=round(test.p_above, _DIGITS),
            p_below=round(test.p_below, _DIGITS),
            clusters=test.clusters,
            undecided=test.undecided,
        )
        for name, test in zip(metrics, tests, strict=True)
        if test.clusters
    }


def _number(value: float | None) -> float | None:
    """Rounds to six decimals for a history; None if unknown."""
    return None if value is None or math.isnan(value) else round(value, _DIGITS)


def changed_settings(now: ScoredRun, last: ScoredRun) -> list[ChangedSetting]:
    """Returns the settings that differ between two runs, as short text.

    Folders are ignored, because the location of a checkout is not a setting.
    """
    rows = differing([_settings(last), _settings(now)])
    return [
        ChangedSetting(setting=row.what, before=row.values[0], now=row.values[1]) for row in rows
    ]


def _settings(run: ScoredRun) -> dict[str, str]:
    machine = run.run_record.machine
    return {
        **{name: short_text(value) for name, value in settings(run).items()},
        "git commit": commit(run.run_record),
        "processor": (machine and machine.processor) or "-",
    }


def commit(record: RunRecord) -> str:
    """Returns the short git commit of a run, and whether there were changes; `-` without git."""
    if record.git is None:
        return "-"
    return f"{short_text(record.git.commit)}{', with changes' if record.git.changed else ''}"


def scored_line(
    head: Mapping[str, Any],
    run: ScoredRun,
    block: Block,
    change: LineChange,
    changed: Sequence[ChangedSetting],
) -> ScoredLine:
    """Builds the line of a scored run; `run` has the main metrics of one protocol.

    `head` has the fields of `LineHead` except `finished`.
    """
    record, scores = run.run_record, run.scores
    found = run.blocks[block]
    data = scores.dataset
    return ScoredLine(
        **head,
        finished=record.finished,
        run=run.folder.name,
        queries=HistoryQueries(
            asked=scores.queries.asked,
            failed=scores.queries.failed,
            unmeasurable=scores.hits.unmeasurable_queries if scores.hits else 0,
        ),
        data=LineDataset(
            name=data.name,
            granularity=data.granularity,
            text=data.text,
            split=data.split,
            fingerprint=data.fingerprint[:12],
        ),
        k=scores.depth,
        protocol=found.name,
        level=block[1],
        versions=HistoryVersions(
            retriever=record.retriever.version,
            revision=record.retriever.revision,
            harness=scores.harness,
            commit=commit(record),
        ),
        results={
            name: {metric: _short_mean(result) for metric, result in part.metrics.items()}
            for name, part in found.slices.items()
        },
        intervals=_intervals(found),
        times=run_times(record.measured),
        change=change,
        changed_settings=list(changed),
    )


def run_times(measured: Measured | None) -> HistoryTimes:
    """Returns the times of a run."""
    measured = measured or Measured()
    index, search = measured.index, measured.search_ms
    return HistoryTimes(
        index_seconds=_number(index.seconds if index else None),
        run_seconds=_number(measured.seconds.run),
        search_ms=_number(search.p50 if search else None),
    )


def _short_mean(result: MetricResult) -> ShortMean:
    interval = result.interval
    return ShortMean(
        value=_number(result.value),
        n=result.n,
        low=_number(interval.low) if interval else None,
        high=_number(interval.high) if interval else None,
    )


def _intervals(protocol: ProtocolResult) -> IntervalNote | None:
    """Returns how the intervals over all queries were computed: once for all metrics."""
    intervals = (result.interval for result in protocol.overall.values())
    first = next(filter(None, intervals), None)
    if first is None:
        return None
    return IntervalNote(
        cluster_by=first.cluster_by, clusters=first.clusters, approximate=first.approximate
    )
