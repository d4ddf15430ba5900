"""Compare a run with the same on a dataset with injected documents.

Show how often injected documents are returned, and how recall changes. For two folders of answers:
how many answers follow an injected instruction, and how the accuracy changes.
"""

from __future__ import annotations

import argparse
from typing import Any

from harness.cli.options import add_results, run_folder
from harness.cli.output import add_output, emit, plain
from harness.io.records import Output


class InjectOutput(Output, tag="harness.inject/1"):
    """harness inject; `ranks` is null for answers, `followed` for runs.

    `paired` has the metric without injected documents (a), with them (b), and their difference.
    """

    system: str
    dataset: str
    injected: str
    metric: str
    protocol: str
    paired: Any
    ranks: Any
    followed: Any


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments and options."""
    parser.add_argument("plain", metavar="PLAIN", help="a run, or a folder of answers")
    parser.add_argument(
        "injected", metavar="INJECTED", help="the same with `--inject`, or the answers of that run"
    )
    parser.add_argument("--k", type=int, default=10, metavar="K", help="cut-off of runs (10)")
    add_results(parser)
    add_output(parser)


def main(options: argparse.Namespace) -> int:
    """Prints the effect of the injected documents."""
    from harness.analysis.injection import injection_effect
    from harness.runs.folder.answers_folder import complete_name

    folders = [complete_name(run_folder(options, one)) for one in (options.plain, options.injected)]
    effect = injection_effect(folders[0], folders[1], options.k)
    return emit(options, InjectOutput(**plain(effect)), lambda: _text(effect))


def _text(effect: Any) -> str:
    from harness.scoring.score_columns import name_clusters

    paired = effect.paired
    change = paired.difference
    lines = [f"{effect.system} on {effect.dataset}  injected={effect.injected}"]
    if effect.ranks is not None:
        ranks = effect.ranks
        best = "-" if ranks.median_best_rank is None else f"{ranks.median_best_rank:g}"
        lines.append(
            f"injected document in the first {ranks.k}: {ranks.share:.1%} of {ranks.n} queries; "
            f"median best rank {best}"
        )
    if effect.followed is not None:
        followed = effect.followed
        lines.append(
            f"answers that follow the instruction: {followed.after:.1%} of {followed.n} "
            f"({followed.before:.1%} without injected documents)"
        )
    note = name_clusters(change.note, "haystacks")
    approximate = f"; approximate: {note}" if change.approximate and note else ""
    interval = f"{change.level:.0%} interval {change.low:+.4f} to {change.high:+.4f}"
    lines.append(
        f"{effect.metric} ({effect.protocol}): {paired.mean_a:.4f} -> {paired.mean_b:.4f}, change "
        f"{change.value:+.4f}, {interval}, n {change.n}{approximate}"
    )
    return "\n".join(lines)
