"""Which queries one run won, lost or tied against another, and by how much."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.errors import UsageError, near
from harness.statistics.paired import outcomes
from harness.verdicts.compare.scored import Block, ScoredRun


@dataclass(frozen=True)
class QueryDifference:
    """One query's value in two runs."""

    query: str
    ability: str
    category: str
    a: float
    b: float
    difference: float


@dataclass(frozen=True)
class WonLostTied:
    """Queries that run `a` won (largest difference first), lost (largest loss first) and tied;
    `unpaired` are the ids that only one of the two has a value for."""

    won: tuple[QueryDifference, ...]
    lost: tuple[QueryDifference, ...]
    tied: tuple[QueryDifference, ...]
    unpaired: tuple[str, ...]


def won_lost_tied(a: Path, b: Path, block: Block, metric: str) -> WonLostTied:
    """Compare two run folders query by query in one metric of one protocol.

    Raises UsageError for a protocol or a metric that one lacks, and for other queries.
    """
    runs = [ScoredRun.read(folder) for folder in (a, b)]
    for run in runs:
        if block not in run.blocks:
            names = [" ".join(known) for known in run.blocks]
            raise UsageError(f"{run.folder}: no protocol {' '.join(block)!r}; it has {names}")
        metrics = list(run.blocks[block]["slices"].get("all", {"metrics": {}})["metrics"])
        if metric not in metrics:
            raise UsageError(f"{run.folder}: no metric {metric!r}{near(metric, metrics)}")
    if runs[0].asked != runs[1].asked:
        raise UsageError(f"{a} and {b}: were asked other queries")
    rows = runs[0].rows(block)
    first, second = rows.values(metric), runs[1].rows(block).values(metric, rows.queries)
    outcome = outcomes(first, second)[:, 0]
    abilities, categories = rows.names("ability"), rows.names("category")

    def of(sign: int) -> tuple[QueryDifference, ...]:
        found = [
            QueryDifference(
                rows.queries[at],
                str(abilities[at]),
                str(categories[at]),
                float(first[at]),
                float(second[at]),
                float(first[at] - second[at]) if sign else 0.0,
            )
            for at in np.flatnonzero(outcome == sign)
        ]
        return tuple(sorted(found, key=lambda q: (-abs(q.difference), q.query)))

    alone = np.flatnonzero(np.isnan(first) != np.isnan(second))
    return WonLostTied(of(1), of(-1), of(0), tuple(rows.queries[at] for at in alone))
