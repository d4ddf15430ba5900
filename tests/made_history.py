"""Histories of many nights, as long lists leave them, without the runs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import orjson

BEGAN = datetime(2026, 1, 1, 2, 30, tzinfo=UTC)
SLICES = {"all": 400, "lookup": 120, "multi-hop": 100, "temporal": 90, "knowledge-update": 90}
METRICS = ("recall@10", "hit@10", "ndcg@10", "mrr@10")

Line = dict[str, Any]
Edit = Callable[[Line, int], Line]


def made_history(
    path: Path,
    nights: int,
    systems: int,
    datasets: tuple[str, ...] = ("sample",),
    edit: Edit = lambda line, night: line,
) -> Path:
    """Write a history in which every number of every night is another one; `edit` changes lines.

    That is the worst case for the size of a page: most systems give the same numbers every night.
    """
    generator = np.random.default_rng(7)
    path.parent.mkdir(parents=True, exist_ok=True)
    last: dict[tuple[str, str], Line] = {}
    with open(path, "wb") as file:
        for night in range(nights):
            for dataset in datasets:
                for system in range(systems):
                    values = generator.normal(0.4 + 0.02 * system, 0.01, (len(SLICES), 4))
                    key = (dataset, f"system-{system}")
                    line = made_line(key, night, systems * len(datasets), values, last.get(key))
                    line = edit(line, night)
                    if line["state"] == "ok":
                        last[key] = line
                    file.write(orjson.dumps(line) + b"\n")
    return path


def made_line(
    key: tuple[str, str], night: int, of: int, values: np.ndarray, last: Line | None
) -> Line:
    """The line of one run with these values, a row a slice."""
    began = (BEGAN + timedelta(days=night)).isoformat(timespec="milliseconds")
    at = (BEGAN + timedelta(days=night, minutes=5)).isoformat(timespec="seconds")
    cells = {
        part: {
            metric: {
                "value": round(float(value), 6),
                "n": n,
                "low": round(float(value) - 0.04, 6),
                "high": round(float(value) + 0.04, 6),
            }
            for metric, value in zip(METRICS, row, strict=True)
        }
        for (part, n), row in zip(SLICES.items(), values, strict=True)
    }
    return {
        "version": 1,
        "night": began,
        "list_size": of,
        "dataset": key[0],
        "system": key[1],
        "finished": at,
        "state": "ok",
        "run": f"{key[0]}-turn-{key[1]}-0a1b2c3d",
        "queries": {"asked": 400, "failed": 0, "unmeasurable": 0},
        "data": {
            "name": key[0],
            "granularity": "turn",
            "text": "official",
            "split": "test",
            "fingerprint": "b089650b3963",
        },
        "k": 100,
        "protocol": "memory/1",
        "level": "turn",
        "versions": {"retriever": "1.0", "revision": None, "harness": "0.1.0", "commit": "-"},
        "results": cells,
        "intervals": {"cluster_by": "haystacks", "clusters": 50, "approximate": ""},
        "times": {"index_seconds": 1.5, "run_seconds": 4.0, "search_ms": 0.8},
        "change": {"state": "first"} if last is None else compared(cells, last),
        "changed_settings": [],
    }


def compared(cells: dict[str, Any], last: Line, p: float = 0.4) -> dict[str, Any]:
    """A change since another line that nothing shows, or with this p."""
    return {
        "state": "compared",
        "since": last["finished"],
        "alpha": 0.05,
        "clusters": 50,
        "cluster_by": "haystacks",
        "interval_method": "",
        "approximate": "",
        "unpaired": [0, 0],
        "results": {
            part: {
                metric: {
                    "before": last["results"][part][metric]["value"],
                    "difference": round(cell["value"] - last["results"][part][metric]["value"], 6),
                    "low": -0.02,
                    "high": 0.02,
                    "p": p,
                    "smallest_p": 0.0001,
                    "n": cell["n"],
                    "wins": 5,
                    "losses": 4,
                }
                for metric, cell in metrics.items()
            }
            for part, metrics in cells.items()
        },
    }


def failed(line: Line, error: str = "RunError") -> Line:
    """The same run, failed."""
    kept = ("version", "night", "list_size", "dataset", "system", "finished")
    return {**{name: line[name] for name in kept}, "state": "failed", "error": error}


def not_comparable(line: Line, reason: str) -> Line:
    """The same run, on other data than the last time."""
    change = {"state": "not comparable", "since": line["finished"], "reasons": [reason]}
    return {**line, "change": change}
