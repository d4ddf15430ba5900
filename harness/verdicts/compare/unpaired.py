"""Two runs on different queries, as split traffic leaves them: nothing to pair, so unpaired tests.

Weaker than a paired comparison of as many queries; where both answered the same ones, pair them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.errors import UsageError, near
from harness.statistics.corrections import holm
from harness.statistics.unpaired import UnpairedComparison, compare_unpaired
from harness.verdicts.compare.comparable import differing, essentials, shared_blocks
from harness.verdicts.compare.scored import ScoredRun
from harness.verdicts.compare.table import slice_masks

_PROPORTIONS = ("hit", "recall_all", "exact_match", "success")
WHY = "the runs scored different queries, so there is nothing to pair"


@dataclass(frozen=True)
class Row:
    """One metric over one slice; `p` is the permutation test's, Holm-corrected over slices."""

    protocol: str
    slice: str
    metric: str
    found: UnpairedComparison
    p: float


def compare_split(
    folders: tuple[Path, Path], metrics: Sequence[str], protocol: str = "", seed: int = 0
) -> list[Row]:
    """Compare two runs query group against query group, under the first protocol in common.

    Raises UsageError for runs that differ in more than their queries, that scored a query both, and
    for metrics that one lacks. Queries that share one of several haystacks are one unit.
    """
    runs = [ScoredRun.read(folder) for folder in folders]
    blocks = shared_blocks(runs, [protocol] if protocol else [])
    if not blocks or any(blocks[0] not in run.blocks for run in runs):
        raise UsageError(f"the runs have no protocol {protocol or 'in common'}")
    block = blocks[0]
    other = [
        d for d in differing([essentials(r, [block]) for r in runs]) if "queries" not in d.what
    ]
    if other:
        raise UsageError(f"these runs differ in more than queries: {'; '.join(map(str, other))}")
    rows = [run.rows(block) for run in runs]
    found = []
    for metric in metrics:
        for run in runs:
            known = list(run.blocks[block]["slices"].get("all", {"metrics": {}})["metrics"])
            if metric not in known:
                raise UsageError(f"{run.folder}: no metric {metric!r}{near(metric, known)}")
        values = [mine.values(metric) for mine in rows]
        scored = [
            {q for q, v in zip(mine.queries, column, strict=True) if not np.isnan(v)}
            for mine, column in zip(rows, values, strict=True)
        ]
        if both := scored[0] & scored[1]:
            raise UsageError(
                f"{len(both)} queries were scored in both runs: compare those by pairs, without "
                "--unpaired"
            )
        clusters = [np.array(mine.haystacks()) for mine in rows]
        shared = [1 < len(set(c.tolist())) < len(c) for c in clusters]
        masks = [slice_masks(mine, by_category=False) for mine in rows]
        binary = metric.partition("@")[0] in _PROPORTIONS
        cells = []
        for name in masks[0]:
            picked = [m[name] & ~np.isnan(v) for m, v in zip(masks, values, strict=True)]
            if name != "answerable" and all(mask.any() for mask in picked):
                a, b = (v[mask] for v, mask in zip(values, picked, strict=True))
                units = [
                    labels[mask] if any(shared) else None
                    for labels, mask in zip(clusters, picked, strict=True)
                ]
                cells.append(
                    (name, compare_unpaired(a, b, *units, seed=seed, proportions=binary)[0])
                )
        corrected = holm([cell.permutation.p for _, cell in cells])
        found += [
            Row(f"{block[0]}, {block[1]}", name, metric, cell, float(p))
            for (name, cell), p in zip(cells, corrected, strict=True)
        ]
    return found


def render_split(rows: Sequence[Row]) -> str:
    """As a person reads it."""
    from tabulate import tabulate

    lines = [
        [
            row.slice,
            row.metric,
            f"{row.found.mean_a:.4f}",
            f"{row.found.mean_b:.4f}",
            f"{row.found.n_a} / {row.found.n_b}",
            f"{row.found.difference:+.4f}",
            "-" if np.isnan(row.found.low) else f"[{row.found.low:+.4f}, {row.found.high:+.4f}]",
            "<0.0001" if row.p < 0.0001 else f"{row.p:.4f}",
            "-" if np.isnan(row.found.effect_size) else f"{row.found.effect_size:.2f}",
        ]
        for row in rows
    ]
    head = ["slice", "metric", "A", "B", "n", "difference", "95% interval", "p (holm)", "d"]
    methods = ", ".join(dict.fromkeys(row.found.method for row in rows))
    notes = "; ".join(dict.fromkeys(row.found.note for row in rows if row.found.rough))
    text = [
        f"unpaired: {WHY}. Weaker than a paired comparison of as many.",
        tabulate(lines, head, disable_numparse=True),
        f"intervals: {methods}{f'; rough: {notes}' if notes else ''}; p: permutation test over "
        f"{'haystacks' if rows and rows[0].found.units_a < rows[0].found.n_a else 'queries'}; d: "
        "Cohen's",
    ]
    return "\n\n".join(text)
