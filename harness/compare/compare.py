"""Compares scored runs, paired by query; refuses those whose numbers do not compare."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from harness.compare.comparable import differing, essentials, settings, shared_blocks
from harness.compare.comparison import Comparison, Group, Options
from harness.compare.scored import Block, ScoredRun
from harness.compare.table import table
from harness.errors import UsageError, near
from harness.statistics.corrections import CORRECTIONS

TESTS = ("t", "wilcoxon")
"""Tests on request, beside the randomisation test."""


def compare(
    folders: Sequence[Path],
    options: Options | None = None,
) -> Comparison:
    """Compare run folders that have been scored.

    Raises UsageError
    for fewer than two folders, one that is no scored run, unknown options, and, unless
    `options.anyway`, runs that do not compare: the message names each difference.
    """
    options = options or Options()
    _check(options)
    if len(folders) < 2:
        raise UsageError("a comparison needs two run folders or more")
    runs = [ScoredRun.read(folder) for folder in folders]
    labels = names_of(folders)
    blocks = shared_blocks(runs, options.protocols)
    if not blocks:
        named, known = options.protocols, sorted({name for run in runs for name, _ in run.blocks})
        raise UsageError(f"no run was scored under {', '.join(named)}{near(named[0], known)}")
    _check_metrics(options.metrics, runs, blocks)
    required = [essentials(run, blocks) for run in runs]
    differences = differing(required)
    if differences and not options.anyway:
        names = " / ".join(labels)
        raise UsageError(
            f"these runs do not compare ({names}): {'; '.join(map(str, differences))}; "
            "`harness compare --anyway` shows them apart"
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
    """Runs whose essentials agree, under every protocol in which they do."""
    blocks = [
        block
        for block in shared_blocks(runs, options.protocols)
        if all(block in run.blocks for run in runs)
        and not differing([essentials(run, [block]) for run in runs])
    ]
    pairs = list(combinations(range(len(runs)), 2))
    return Group(
        runs=tuple(labels),
        systems=tuple(run.record["retriever"]["name"] for run in runs),
        failed=tuple(run.scores["queries"]["failed"] for run in runs),
        essentials=essentials(runs[0], blocks),
        settings=tuple(differing([settings(run) for run in runs])),
        tables=tuple(table(runs, block, pairs, options) for block in blocks),
    )


def names_of(folders: Sequence[Path]) -> list[str]:
    """What to call each run: its folder's name, or the whole path where two are the same."""
    names = [folder.resolve().name for folder in folders]
    if len(set(names)) < len(names):
        return [str(folder) for folder in folders]
    return names


def _check_metrics(
    metrics: Sequence[str], runs: Sequence[ScoredRun], blocks: Sequence[Block]
) -> None:
    """Every metric must be known under one of the protocols at least."""
    found = [run.blocks[block]["slices"] for run in runs for block in blocks if block in run.blocks]
    known = {metric for slices in found for part in slices.values() for metric in part["metrics"]}
    for metric in metrics:
        if metric not in known:
            raise UsageError(
                f"metric {metric!r} is in none of the runs' scores{near(metric, sorted(known))}; "
                f"`harness score FOLDER --metrics {metric}` computes it"
            )


def _check(options: Options) -> None:
    if options.correction not in CORRECTIONS:
        known = near(options.correction, list(CORRECTIONS))
        raise UsageError(f"unknown correction {options.correction!r}{known}")
    if options.over not in ("auto", "haystacks", "queries"):
        raise UsageError(f"resample over auto, haystacks or queries, not {options.over!r}")
    for test in options.tests:
        if test not in TESTS:
            raise UsageError(f"unknown test {test!r}{near(test, list(TESTS))}")
    if options.equivalence is not None and not options.equivalence > 0:
        raise UsageError(f"the margin of equivalence must be above 0, not {options.equivalence}")
    if not (0 < options.level < 1 and 0 < options.power < 1 and options.resamples >= 1):
        raise UsageError(
            f"level {options.level} and power {options.power} must be between 0 and 1, and "
            f"resamples {options.resamples} 1 or more"
        )
