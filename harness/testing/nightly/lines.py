"""The line of a history that one run makes; `harness.verdicts.history` says what stands in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.testing.nightly.change import commit, number
from harness.verdicts.compare.scored import Block, ScoredRun
from harness.verdicts.history import VERSION, Line, Series

MAIN = ("recall@10", "hit@10", "ndcg@10", "mrr@10")
"""The metrics that a list is read by."""


def main_metrics(cells: Mapping[str, Any], asked: Sequence[str] = ()) -> list[str]:
    """The main metrics among those of a slice, then those that were asked for by name.

    Where there is none at 10, for the list has other cut-offs, the deepest of each family.
    """
    found = []
    for name in MAIN:
        family = name.partition("@")[0]
        deep = [m for m in cells if m.partition("@")[0] == family and m.partition("@")[2]]
        deepest = max(deep, key=lambda m: int(m.partition("@")[2]), default=None)
        if name in cells:
            found.append(name)
        elif deepest is not None:
            found.append(deepest)
    return list(dict.fromkeys([*found, *(name for name in asked if name in cells)]))


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
    record, scores = run.record, run.scores
    found = run.blocks[block]
    retriever, measured = record["retriever"], record.get("measured") or {}
    data = scores["dataset"]
    return {
        **_head(night, of, series, record["finished"]),
        "state": "ok",
        "run": run.folder.name,
        "queries": {
            "asked": scores["queries"]["asked"],
            "failed": scores["queries"]["failed"],
            "not_measurable": (scores.get("hits") or {}).get("queries_not_measurable", 0),
        },
        "data": {
            **{name: data[name] for name in ("name", "granularity", "text", "split")},
            "fingerprint": data["fingerprint"][:12],
        },
        "k": scores["depth"],
        "protocol": f"{block[0]}/{found['version']}",
        "unit": block[1],
        "versions": {
            "retriever": retriever.get("version"),
            "revision": retriever.get("revision"),
            "harness": scores["harness"],
            "commit": commit(record),
        },
        "cells": {
            name: {metric: _cell(cell) for metric, cell in part["metrics"].items()}
            for name, part in found["slices"].items()
        },
        "intervals": _intervals(found),
        "times": times(measured),
        "change": change,
        "changed": list(changed),
    }


def times(measured: Mapping[str, Any]) -> dict[str, float | None]:
    """Seconds of indexing and of the whole run, and the median search in milliseconds."""
    return {
        "index_seconds": number((measured.get("index") or {}).get("seconds")),
        "run_seconds": number((measured.get("seconds") or {}).get("run")),
        "search_ms": number((measured.get("search_ms") or {}).get("p50")),
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


def _cell(cell: Mapping[str, Any]) -> dict[str, Any]:
    interval = cell.get("interval") or {}
    return {
        "value": number(cell["value"]),
        "n": cell["n"],
        "low": number(interval.get("low")),
        "high": number(interval.get("high")),
    }


def _intervals(block: Mapping[str, Any]) -> dict[str, Any]:
    """How the intervals over all queries were made: said once for all metrics."""
    for cell in block["slices"].get("all", {"metrics": {}})["metrics"].values():
        if "interval" in cell:
            return {name: cell["interval"].get(name) for name in ("over", "units", "rough")}
    return {}
