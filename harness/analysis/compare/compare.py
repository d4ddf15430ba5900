"""Compares scored runs, paired by query; refuses runs that do not compare.

Two runs on different queries, as from split traffic, are compared by unpaired tests. These are
weaker than a paired comparison of as many queries, and refused if both runs answered the same ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from harness.analysis.compare.comparison import Comparison, Group, Options
from harness.analysis.compare.table import slice_masks, table
from harness.analysis.scored_run import (
    Block,
    ScoredRun,
    by_depth,
    depths_refuse,
    differing,
    essentials,
    record_of,
    settings,
    shared_blocks,
)
from harness.datasets.manifest import injected_part
from harness.errors import UsageError, suggest
from harness.stats.proportions import holm
from harness.stats.unpaired import UnpairedComparison, compare_unpaired

TESTS = ("t", "wilcoxon")
"""Additional tests on request, without correction."""
_NOTHING_COMMON = (
    "no query was scored in all of these runs; two runs on different queries are compared by "
    "`harness compare A B --unpaired`"
)


def compare(
    folders: Sequence[str | Path],
    options: Options | None = None,
) -> Comparison:
    """Compare run folders that have been scored, query by query.

    `compare([old, new])["recall@10"].pairs[0].found.difference` is the mean of the new run
    minus that of the old one, with its interval: above 0 is an improvement. Raises UsageError for
    fewer than two folders, folders that are no scored runs, unknown options, and, unless
    `options.force`, runs that do not compare: the message names each difference.
    """
    options = options or Options()
    _check(options)
    if len(folders) < 2:
        raise UsageError("a comparison needs two run folders or more")
    paths = [Path(folder) for folder in folders]
    runs = [ScoredRun.read(path) for path in paths]
    labels = names_of(paths)
    blocks = shared_blocks(runs, options.protocols)
    if not blocks:
        wanted, known = options.protocols, sorted({name for run in runs for name, _ in run.blocks})
        raise UsageError(f"no run was scored under {', '.join(wanted)}{suggest(wanted[0], known)}")
    _check_metrics(options.metrics, runs, blocks)
    required = essentials(runs, blocks)
    remedy = depths_refuse(runs, blocks, options.metrics)
    if remedy:
        required = [
            {**found, "k": str(run.scores.depth)} for run, found in zip(runs, required, strict=True)
        ]
    differences = differing(required)
    if differences and not options.force:
        asked = [{*run.asked} for run in runs]
        if {row.what for row in differences} == {"queries asked"} and not set.intersection(*asked):
            raise UsageError(_NOTHING_COMMON)
        names = " / ".join(labels)
        if any(injected_part(run.scores.dataset.split) for run in runs):
            remedy = remedy or "`harness inject PLAIN INJECTED` compares injected documents"
        raise UsageError(
            f"these runs cannot be compared ({names}): {'; '.join(map(str, differences))}; "
            f"{f'{remedy}; ' if remedy else ''}`harness compare --force` lists them apart"
        )
    groups: dict[tuple[Any, ...], list[int]] = {}
    for at, found in enumerate(required):
        groups.setdefault(tuple(sorted(found.items())), []).append(at)
    return Comparison(
        runs=tuple(labels),
        differences=tuple(differences),
        groups=tuple(
            _group([runs[at] for at in members], [labels[at] for at in members], options)
            for members in groups.values()
        ),
        options=options,
    )


def _group(
    runs: Sequence[ScoredRun],
    labels: Sequence[str],
    options: Options,
) -> Group:
    """Groups of runs with the same essential settings, with their common protocols."""
    blocks = [
        block
        for block in shared_blocks(runs, options.protocols)
        if all(block in run.blocks for run in runs) and not differing(essentials(runs, [block]))
    ]
    pairs = list(combinations(range(len(runs)), 2))
    tables = tuple(table(runs, block, pairs, options) for block in blocks)
    found = [pair.found for one in tables for cell in one.cells for pair in cell.pairs]
    if found and not any(pair.difference.n for pair in found):
        raise UsageError(_NOTHING_COMMON)
    depths = dict.fromkeys(str(run.scores.depth) for run in runs)
    return Group(
        runs=tuple(labels),
        systems=tuple(run.title for run in runs),
        failed=tuple(run.scores.queries.failed for run in runs),
        returned=tuple(run.scores.returned for run in runs),
        essentials=essentials(runs, blocks)[0] | {"k": " / ".join(depths)},
        settings=tuple(differing([settings(run) for run in runs])),
        tables=tables,
    )


def names_of(folders: Sequence[Path]) -> list[str]:
    """The display name of each run: its name, else its folder's, or the path if two are equal."""
    given = [_name(folder) for folder in folders]
    names = [
        str(name or folder.resolve().name) for name, folder in zip(given, folders, strict=True)
    ]
    if len(set(names)) < len(names):
        return [str(folder) for folder in folders]
    return names


def _name(folder: Path) -> str | None:
    return record_of(folder).name


def _check_metrics(
    metrics: Sequence[str], runs: Sequence[ScoredRun], blocks: Sequence[Block]
) -> None:
    """Raise UsageError for a metric that no protocol has."""
    found = [run.blocks[block].slices for run in runs for block in blocks if block in run.blocks]
    known = {metric for slices in found for part in slices.values() for metric in part.metrics}
    for metric in metrics:
        if metric not in known:
            raise UsageError(
                f"metric {metric!r} is in none of the runs' scores{suggest(metric, sorted(known))}"
                f"; `harness score FOLDER --metrics {metric}` computes it"
            )


def _check(options: Options) -> None:
    if options.average not in ("queries", "haystacks"):
        raise UsageError(f"a mean is over queries or haystacks, not {options.average!r}")
    for test in options.tests:
        if test not in TESTS:
            raise UsageError(f"unknown test {test!r}{suggest(test, list(TESTS))}")
    if options.equivalence is not None and not options.equivalence > 0:
        raise UsageError(f"the margin of equivalence must be above 0, not {options.equivalence}")
    if not (0 < options.level < 1 and 0 < options.power < 1 and options.resamples >= 1):
        raise UsageError(
            f"level {options.level} and power {options.power} must be between 0 and 1, and "
            f"resamples {options.resamples} 1 or more"
        )


# -- Runs on different queries, as from split traffic ----------------------------------------------

_PROPORTIONS = ("hit", "recall_all", "exact_match", "success")
WHY = "the runs scored different queries"


@dataclass(frozen=True)
class ComparisonRow:
    """One metric over one slice; `p` is Holm-corrected over all rows.

    In `found`, a is the second run, the new one, and b the first: above 0 is an improvement.
    """

    protocol: str
    slice: str
    metric: str
    found: UnpairedComparison
    p: float


def compare_split(
    folders: tuple[Path, Path], metrics: Sequence[str], protocol: str = ""
) -> list[ComparisonRow]:
    """Compare the queries of an old run with those of a new one, by the first protocol they share.

    Raises UsageError for runs with other differences, for queries that both scored, and for metrics
    that one lacks. Queries that share one of several haystacks are one unit.
    """
    runs = [ScoredRun.read(folder) for folder in folders]
    blocks = shared_blocks(runs, [protocol] if protocol else [])
    if not blocks or any(blocks[0] not in run.blocks for run in runs):
        raise UsageError(
            f"the runs have no protocol {protocol or 'in common'}; `harness score RUN` adds one"
        )
    block = blocks[0]
    other = [d for d in differing(essentials(runs, [block])) if "queries" not in d.what]
    if other:
        raise UsageError(f"these runs differ in more than queries: {'; '.join(map(str, other))}")
    rows = [run.rows(block) for run in runs]
    apart = by_depth(runs, block)
    found = []
    for metric in metrics:
        if metric in apart:
            raise UsageError(
                f"{metric} does not compare, as depth could change it: {apart[metric]}"
            )
        for run in runs:
            known = list(run.blocks[block].overall)
            if metric not in known:
                raise UsageError(f"{run.folder}: no metric {metric!r}{suggest(metric, known)}")
        values = [mine.values(metric) for mine in rows]
        scored = [
            {q for q, v in zip(mine.queries, column, strict=True) if not np.isnan(v)}
            for mine, column in zip(rows, values, strict=True)
        ]
        if both := scored[0] & scored[1]:
            raise UsageError(
                f"{len(both)} queries were scored in both runs: compare the runs without --unpaired"
            )
        clusters = [np.array(mine.haystacks()) for mine in rows]
        shared = [1 < len(set(c.tolist())) < len(c) for c in clusters]
        masks = [slice_masks(mine, by_category=False) for mine in rows]
        binary = metric.partition("@")[0] in _PROPORTIONS
        for name in masks[0]:
            picked = [m[name] & ~np.isnan(v) for m, v in zip(masks, values, strict=True)]
            if name != "answerable" and all(mask.any() for mask in picked):
                old, new = (v[mask] for v, mask in zip(values, picked, strict=True))
                units = [
                    labels[mask] if any(shared) else None
                    for labels, mask in zip(clusters, picked, strict=True)
                ]
                (one,) = compare_unpaired(new, old, *reversed(units), proportions=binary)
                found.append((name, metric, one))
    corrected = holm([one.p for _, _, one in found])
    return [
        ComparisonRow(f"{block[0]}, {block[1]}", name, metric, one, float(p))
        for (name, metric, one), p in zip(found, corrected, strict=True)
    ]
