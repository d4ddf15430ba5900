"""The statistics of one protocol, for all slices and metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from harness.analysis.compare.behind import behind
from harness.analysis.compare.comparison import Cell, Options, Pair, Table
from harness.analysis.scored_run import Block, BlockRows, ScoredRun, Values, by_depth
from harness.errors import UsageError
from harness.records.scores import ProtocolResult
from harness.schema import Ability
from harness.stats.clusters import to_clusters
from harness.stats.intervals import MeanInterval, mean_intervals
from harness.stats.joint import JointTest, few, joint_tests
from harness.stats.paired import (
    EQUAL,
    Equivalence,
    PairedComparison,
    compare_paired,
    equivalence,
    paired_t,
    wilcoxon,
)
from harness.stats.resampling import Resampling

Flags = npt.NDArray[np.bool_]
Places = tuple[int, int]


def table(
    runs: Sequence[ScoredRun],
    block: Block,
    pairs: Sequence[Places],
    options: Options,
) -> Table:
    """Compare runs under one common protocol, on the same queries."""
    rows = [run.rows(block) for run in runs]
    first = rows[0]
    scored = _scored(rows, [run.blocks[block] for run in runs])
    masks = {
        name: mask & scored
        for name, mask in slice_masks(first, by_category=options.categories).items()
    }
    masks = _distinct(masks)
    apart = by_depth(runs, block)
    metrics, left_out = _metrics([run.blocks[block] for run in runs], masks, apart, options)
    wanted = [(name, metric) for name in masks for metric in metrics[name]]
    labels = first.haystacks()
    clusters = clusters_of(labels, options.cluster_by)
    cluster_by = "queries" if clusters is None else "haystacks"
    if options.average == "haystacks" and cluster_by == "queries":
        raise UsageError(
            "--average haystacks needs independent haystacks with several queries each: omit "
            "--average"
        )
    matrices = [_matrix(mine, first.queries, masks, wanted) for mine in rows]
    # Means over other queries do not compare: queries that one run lacks are excluded from all.
    lacking = np.logical_or.reduce([np.isnan(matrix) for matrix in matrices])
    dropped = tuple(_dropped(matrix, lacking) for matrix in matrices)
    for matrix in matrices:
        matrix[lacking] = np.nan
    independent = np.array(first.queries if clusters is None else labels)[~lacking.all(axis=1)]
    arguments = Resampling(
        level=options.level,
        resamples=options.resamples,
        seed=options.seed,
        of_means=options.average == "haystacks",
    )
    if options.average == "haystacks":
        # Each haystack is one observation from here on.
        matrices, clusters = [_by_haystack(matrix, labels) for matrix in matrices], None
    means = [mean_intervals(m, clusters, level=options.level, bounds=(0, 1)) for m in matrices]
    found = {
        (a, b): compare_paired(
            matrices[a], matrices[b], clusters, bounds=(-1, 1), power=options.power, **arguments
        )
        for a, b in pairs
    }
    others = {
        places: _others(matrices[places[0]], matrices[places[1]], clusters, options)
        for places in pairs
    }
    by_t = few(to_clusters(matrices[0], clusters), of_means=arguments["of_means"])
    joint = _joint(matrices, clusters, pairs, options.power, arguments)
    cells = _cells(wanted, means, found, joint, others, 1 - options.level)
    return Table(
        protocol=f"{block[0]}/{runs[0].blocks[block].version}",
        level=block[1],
        cluster_by=cluster_by,
        clusters=len(set(independent.tolist())),
        cells=cells,
        tests=len(cells) * len(pairs),
        test="t" if by_t else "sign flips",
        left_out=left_out,
        dropped=dropped,
        average=options.average,
        behind=behind(runs, block, pairs, None if cluster_by == "queries" else labels),
    )


def _joint(
    matrices: Sequence[Values],
    clusters: Sequence[str] | None,
    pairs: Sequence[Places],
    power: float,
    resampling: Resampling,
) -> dict[Places, list[JointTest]]:
    """The tests of all pairs and columns, as one family."""
    if not pairs:
        return {}
    differences = np.concatenate([matrices[b] - matrices[a] for a, b in pairs], axis=1)
    differences[np.abs(differences) <= EQUAL] = 0.0
    tests = joint_tests(differences, clusters, power=power, **resampling)
    n = matrices[0].shape[1]
    return {places: tests[at * n : (at + 1) * n] for at, places in enumerate(pairs)}


def _by_haystack(matrix: Values, haystacks: Sequence[str]) -> Values:
    """The mean of each haystack's queries, one row per haystack."""
    units = to_clusters(matrix, haystacks)
    means = units.by_cluster()
    return np.where(means.present, means.sums, np.nan)


def _dropped(matrix: Values, lacking: Flags) -> int:
    """Queries with a value in this run, but not in another."""
    return int((~np.isnan(matrix) & lacking).any(axis=1).sum())


def slice_masks(rows: BlockRows, *, by_category: bool) -> dict[str, Flags]:
    """Queries of each slice, named as in scores.json."""
    abilities, categories = rows.names("ability"), rows.names("category")
    masks = {"all": np.ones(len(abilities), bool)}
    masks["answerable"] = abilities != str(Ability.ABSTENTION)
    masks |= {str(ability): abilities == str(ability) for ability in Ability}
    if by_category:
        masks |= {f"category:{c}": categories == c for c in np.unique(categories) if c}
    return masks


def _distinct(masks: Mapping[str, Flags]) -> dict[str, Flags]:
    """Non-empty slices, without duplicates, so that none is tested twice."""
    kept: dict[bytes, str] = {}
    for name, mask in masks.items():
        if mask.any():
            kept.setdefault(mask.tobytes(), name)
    return {name: masks[name] for name in kept.values()}


def _scored(rows: Sequence[BlockRows], blocks: Sequence[ProtocolResult]) -> Flags:
    """Queries with a value in a run, in the order of the first run's rows."""
    scored = np.zeros(len(rows[0].queries), bool)
    for mine, block in zip(rows, blocks, strict=True):
        for metric in block.overall:
            scored |= ~np.isnan(mine.values(metric, rows[0].queries))
    return scored


def _metrics(
    blocks: Sequence[ProtocolResult],
    masks: Mapping[str, Flags],
    apart: Mapping[str, str],
    options: Options,
) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Metrics of each slice that all runs have, and why others are excluded."""
    known = [block.overall for block in blocks]
    order = list(dict.fromkeys(metric for cells in known for metric in cells))
    left_out: dict[str, str] = {}
    metrics: dict[str, list[str]] = {name: [] for name in masks}
    for metric in dict.fromkeys(options.metrics) or order:
        if metric not in order:
            continue
        if not all(metric in cells for cells in known):
            left_out[metric] = (
                f"not every run is deep enough for it: {apart[metric]}"
                if metric in apart
                else "not every run was scored by it"
            )
            continue
        if metric in apart:
            left_out[metric] = f"depth could change it: {apart[metric]}"
            continue
        for name, mine in metrics.items():
            found = [block.find(metric, name) for block in blocks]
            if all(one is not None and one.value is not None for one in found):
                mine.append(metric)
            elif any(one is not None and one.value is None for one in found):
                left_out[metric] = "some rankings are too short to know it"
    return metrics, left_out


def _matrix(
    rows: BlockRows,
    queries: Sequence[str],
    masks: Mapping[str, Flags],
    wanted: Sequence[tuple[str, str]],
) -> npt.NDArray[np.float64]:
    """A column for each (slice, metric), NaN outside the slice."""
    values = {metric: rows.values(metric, queries) for _, metric in wanted}
    matrix = np.full((len(queries), len(wanted)), np.nan)
    for at, (name, metric) in enumerate(wanted):
        matrix[masks[name], at] = values[metric][masks[name]]
    return matrix


def clusters_of(haystacks: Sequence[str], cluster_by: str) -> Sequence[str] | None:
    """The haystack of each query, if haystacks are the independent units; else None.

    A single haystack for all queries, as in BEIR, is not a cluster. Raises UsageError for another
    `cluster_by`.
    """
    if cluster_by not in ("auto", "haystacks", "queries"):
        raise UsageError(f"cluster_by must be auto, haystacks or queries, not {cluster_by!r}")
    n = len(set(haystacks))
    if cluster_by == "queries" or (cluster_by == "auto" and (n < 2 or n == len(haystacks))):
        return None
    return haystacks


Others = tuple[dict[str, float], Equivalence | None]
"""p values of additional tests by name, and the equivalence test."""


def _others(
    a: Values, b: Values, clusters: Sequence[str] | None, options: Options
) -> Sequence[Others]:
    """Additional tests, one result per column."""
    columns = range(a.shape[1])
    p: list[dict[str, float]] = [{} for _ in columns]
    if "t" in options.tests:
        for at, result in enumerate(paired_t(a, b, clusters)):
            p[at]["t"] = result.p
    if "wilcoxon" in options.tests:
        for at, result in enumerate(wilcoxon(a, b)):
            p[at]["wilcoxon"] = result.p
    if options.equivalence is None:
        return [(values, None) for values in p]
    shown = equivalence(a, b, options.equivalence, clusters, alpha=1 - options.level)
    return list(zip(p, shown, strict=True))


def _cells(
    wanted: Sequence[tuple[str, str]],
    means: Sequence[Sequence[MeanInterval]],
    found: Mapping[Places, Sequence[PairedComparison]],
    joint: Mapping[Places, Sequence[JointTest]],
    others: Mapping[Places, Sequence[Others]],
    alpha: float,
) -> tuple[Cell, ...]:
    """All slices and metrics, with the p of every pair."""
    cells = []
    for at, (name, metric) in enumerate(wanted):
        pairs = []
        for places, compared in found.items():
            test = joint[places][at]
            shown = test.p <= alpha  # False for NaN
            known = test.detectable if test.detectable <= 1 else math.nan
            more = others[places][at]
            open = not shown and test.least > alpha
            pairs.append(Pair(*places, compared[at], test.p, shown, known, open, *more))
        cells.append(Cell(name, metric, tuple(mine[at] for mine in means), tuple(pairs)))
    return tuple(cells)
