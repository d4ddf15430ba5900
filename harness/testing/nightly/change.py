"""What changed since the last time, and the line of a history that a run makes.

`harness.verdicts.history` says what stands in a line. Its `change` holds numbers paired by query,
where the two runs compare:

| key | what |
|---|---|
| state | `first`, `not comparable`, `unchanged` (every value of every query) or `compared` |
| since | when the run that it is compared with was finished |
| reasons | why it does not compare: `data fingerprint a -> b` |
| cells | slice -> metric -> before, difference, low, high, p, smallest, n, won, lost; where the two
  are not equally deep, of metrics that depth could not change |
| alpha, units, over, how | what tests and intervals rest on |
| max_drop | by how much a main metric may fall, as the list said; null: by anything |

`difference` is tonight less the last time, over the queries that both have a value for. p is that
of a randomisation test, not corrected; `smallest` the least that it could have been.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from harness.records.run import Measured, RunRecord
from harness.records.scores import MetricResult, ProtocolResult
from harness.scoring.uncertainty import named
from harness.testing.nightly.plan import plain
from harness.verdicts.compare.comparison import Cell, Options
from harness.verdicts.compare.scored import (
    Block,
    ScoredRun,
    by_depth,
    depths_refuse,
    differing,
    essentials,
    settings,
)
from harness.verdicts.compare.table import table
from harness.verdicts.history import VERSION, Line, Series

_DIGITS = 6


def change(
    now: ScoredRun,
    last: ScoredRun | None,
    metrics: Sequence[str],
    alpha: float,
    over: str,
    max_drop: float | None = None,
) -> dict[str, Any]:
    """Compare a run with the last one; both hold the one protocol that is compared."""
    if last is None:
        return {"state": "first"}
    since = last.run_record.finished
    blocks = list(dict.fromkeys([*last.blocks, *now.blocks]))
    reasons = [
        f"{row.what} {row.values[0]} -> {row.values[1]}"
        for row in differing(essentials((last, now), blocks))
    ]
    if depths_refuse([last, now], blocks, metrics):
        reasons.append(f"k {last.scores.depth} -> {now.scores.depth}")
    if reasons:
        return {"state": "not comparable", "since": since, "reasons": reasons}
    apart = by_depth([last, now], blocks[0])
    metrics = [metric for metric in metrics if metric not in apart]
    if metrics and _equal(now, last, blocks[0], metrics):
        return {"state": "unchanged", "since": since}
    options = Options(metrics=tuple(metrics), over=over)
    found = table([now, last], blocks[0], [(1, 0)], options) if metrics else None
    if found is None or not found.cells:
        # Never silence: what is compared by nothing is neither unchanged nor without a change.
        depths = [run.scores.depth for run in (last, now)]
        deep = f"k {depths[0]} -> {depths[1]}: " if depths[0] != depths[1] else ""
        reasons = [f"{deep}no metric in common"]
        return {"state": "not comparable", "since": since, "reasons": reasons}
    cells: dict[str, dict[str, Any]] = {}
    for cell in found.cells:
        cells.setdefault(cell.slice, {})[cell.metric] = _cell(cell)
    first = found.cells[0].pairs[0].found.difference
    return {
        "state": "compared",
        "since": since,
        "alpha": alpha,
        "max_drop": max_drop,
        "units": found.units,
        "over": found.over,
        "how": named(first.how, found.over),
        "rough": named(first.note, found.over),
        "dropped": list(found.dropped),
        "cells": cells,
    }


def _equal(now: ScoredRun, last: ScoredRun, block: Block, metrics: Sequence[str]) -> bool:
    """Whether both have the same value, or both none, for each query in each metric."""
    rows, others = now.rows(block), last.rows(block)
    return all(
        metric in others.table.column_names
        and np.array_equal(rows.values(metric), others.values(metric, rows.queries), equal_nan=True)
        for metric in metrics
    )


def _cell(cell: Cell) -> dict[str, Any]:
    found = cell.pairs[0].found
    difference = found.difference
    return {
        "before": _number(found.mean_a),
        "difference": _number(difference.value),
        "low": _number(difference.low),
        "high": _number(difference.high),
        "p": _number(found.test.p),
        "smallest": _number(found.test.smallest),
        "n": difference.n,
        "won": found.won,
        "lost": found.lost,
    }


def _number(value: float | None) -> float | None:
    """To six digits after the point, for a history; None for what is not known."""
    return None if value is None or math.isnan(value) else round(value, _DIGITS)


def changed(now: ScoredRun, last: ScoredRun) -> list[dict[str, str]]:
    """Settings that are not the same in two runs: what, before and now, as short text.

    Folders of files are left out: where a checkout stands is no setting.
    """
    rows = differing([_settings(last), _settings(now)])
    return [{"what": row.what, "before": row.values[0], "now": row.values[1]} for row in rows]


def _settings(run: ScoredRun) -> dict[str, str]:
    machine = run.run_record.machine
    return {
        **{name: plain(value) for name, value in settings(run).items()},
        "git commit": commit(run.run_record),
        "processor": (machine and machine.processor) or "-",
    }


def commit(record: RunRecord) -> str:
    """The first digits of a run's git commit, and whether there were changes; `-` without git."""
    if record.git is None:
        return "-"
    return f"{plain(record.git.commit)}{', with changes' if record.git.changed else ''}"


# -- The line of a history -------------------------------------------------------------------------


def failed_line(night: str, of: int, series: Series, at: str, error: str) -> Line:
    """The line of a run that gave no numbers; `error` is the kind of its error."""
    return {**_head(night, of, series, at), "state": "failed", "error": error}


def ran_line(
    night: str,
    of: int,
    series: Series,
    run: ScoredRun,
    block: Block,
    change: Mapping[str, Any],
    changed: Sequence[Mapping[str, str]],
) -> Line:
    """The line of a run that was scored; `run` holds the main metrics of one protocol."""
    record, scores = run.run_record, run.scores
    found = run.blocks[block]
    data, hits = scores.dataset, scores.hits or {}
    return {
        **_head(night, of, series, record.finished),
        "state": "ok",
        "run": run.folder.name,
        "queries": {
            "asked": scores.queries.asked,
            "failed": scores.queries.failed,
            "not_measurable": hits.get("queries_not_measurable", 0),
        },
        "data": {
            **{name: getattr(data, name) for name in ("name", "granularity", "text", "split")},
            "fingerprint": data.fingerprint[:12],
        },
        "k": scores.depth,
        "protocol": found.name,
        "level": block[1],
        "versions": {
            "retriever": record.retriever.version,
            "revision": record.retriever.revision,
            "harness": scores.harness,
            "commit": commit(record),
        },
        "cells": {
            name: {metric: _value_cell(result) for metric, result in part.metrics.items()}
            for name, part in found.slices.items()
        },
        "intervals": _intervals(found),
        "times": times(record.measured),
        "change": change,
        "changed": list(changed),
    }


def times(measured: Measured | None) -> dict[str, float | None]:
    """Seconds of indexing and of the whole run, and the median search in milliseconds."""
    measured = measured or Measured()
    index, search = measured.index, measured.search_ms
    return {
        "index_seconds": _number(index.seconds if index else None),
        "run_seconds": _number(measured.seconds.run),
        "search_ms": _number(search.p50 if search else None),
    }


def _head(night: str, of: int, series: Series, at: str) -> Line:
    dataset, system = series
    return {
        "version": VERSION,
        "night": night,
        "of": of,
        "dataset": dataset,
        "system": system,
        "at": at,
    }


def _value_cell(result: MetricResult) -> dict[str, float | None]:
    interval = result.interval
    return {
        "value": _number(result.value),
        "n": result.n,
        "low": _number(interval.low) if interval else None,
        "high": _number(interval.high) if interval else None,
    }


def _intervals(protocol: ProtocolResult) -> dict[str, Any]:
    """How the intervals over all queries were computed: once for all metrics."""
    for result in protocol.overall.values():
        if (interval := result.interval) is not None:
            return {
                "cluster_by": interval.cluster_by,
                "clusters": interval.clusters,
                "approximate": interval.approximate,
            }
    return {}
