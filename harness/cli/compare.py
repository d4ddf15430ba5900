"""Compare runs query by query: differences, intervals, corrected tests.

Runs must have the same data, granularity, protocol and queries; otherwise the error lists the
differences. If depths differ, metrics that depend on the depth are excluded.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import UNSET, UnsetType

from harness.analysis.compare.options import Options
from harness.cli.options import add_options, add_results, run_folder, values_of
from harness.cli.output import add_output, plain, print_json, refuse
from harness.errors import UsageError
from harness.io.records import Output

if TYPE_CHECKING:
    from harness.analysis.compare.side_by_side import SideBySide

_FORMATS = ("terminal", "markdown", "latex", "csv", "json")


class CompareOutput(Output, tag="harness.compare/1"):
    """harness compare; `queries` with --queries."""

    runs: list[str]
    differences: list[Any]
    groups: list[Any]
    options: dict[str, Any]
    queries: dict[str, Any] | UnsetType = UNSET


class CompareUnpairedOutput(Output, tag="harness.compare-unpaired/1"):
    """harness compare --unpaired."""

    reason: str
    rows: list[Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments and options."""
    parser.add_argument("runs", nargs="+", metavar="RUN", help="two runs or more: OLD NEW")
    parser.add_argument(
        "--full",
        action="store_true",
        help="add intervals of means, detectable differences, effect sizes, wins; wide lines",
    )
    parser.add_argument(
        "--protocol", action="append", metavar="NAME", help="protocol (default: all common ones)"
    )
    parser.add_argument("--metrics", metavar="M,M,...", help="metrics to test and print")
    add_options(parser, Options, defaults=True)
    parser.add_argument(
        "--queries", type=int, metavar="N", help="print the N largest wins and losses"
    )
    parser.add_argument(
        "--top", type=int, default=10, metavar="K", help="number of ranks with --queries (10)"
    )
    parser.add_argument("--share", action="store_true", help="omit texts with --queries")
    parser.add_argument("--source", metavar="PATH", help="raw files of the dataset, for --queries")
    parser.add_argument(
        "--unpaired", action="store_true", help="compare two runs on different queries"
    )
    add_results(parser)
    parser.add_argument("--format", choices=_FORMATS, default="terminal")
    add_output(parser)


def main(options: argparse.Namespace) -> int:
    """Compares runs and prints the result."""
    from harness.analysis.compare.compare import compare
    from harness.analysis.compare.render import render, shown_of, shown_of_answers
    from harness.runs.folder.answers_folder import complete_name, is_answers
    from harness.runs.folder.run_state import require_run
    from harness.scoring.protocols import metric_name, protocol

    folders = [complete_name(run_folder(options, run)) for run in options.runs]
    of_answers = [*map(is_answers, folders)]
    if not any(of_answers):  # the protocols of answers are their judges
        options.protocol = [protocol(name).name for name in options.protocol or ()]
    for folder, answers in zip(folders, of_answers, strict=True):
        if not answers:
            require_run(folder)
    metrics: tuple[str, ...] = ()
    if options.metrics:
        asked = options.metrics.split(",")
        metrics = tuple(dict.fromkeys(asked if any(of_answers) else map(metric_name, asked)))
    _check(options, folders)
    if options.unpaired:
        return _unpaired(options, folders, metrics)
    unit: str | None = None
    protocols = tuple(options.protocol or ())
    if not metrics and options.format not in ("csv", "json"):
        if not protocols:
            protocols, metrics, unit = shown_of(folders[0])
        elif any(of_answers):
            metrics = shown_of_answers(folders[0], protocols)
        else:
            chosen = [protocol(name) for name in protocols]
            metrics = tuple(m.format(k=10) for one in chosen if one.module for m in one.metrics)
    comparison = compare(
        folders,
        Options(protocols=protocols, metrics=metrics, **values_of(options, Options)),
    )
    if options.format == "json":
        found = comparison.as_dict()
        if options.queries:
            found["queries"] = _queries(options, folders)
        print_json(CompareOutput(**plain(found)))
        return 0
    if options.quiet:
        return 0
    print(render(comparison, options.format, metrics, unit, full=options.full))
    if options.queries:
        print(_shown_queries(options, folders))
    return 0


def _check(options: argparse.Namespace, folders: list[Path]) -> None:
    """Raises UsageError for options that exclude each other, or would change nothing."""
    if options.json:
        if options.format not in ("terminal", "json"):
            raise UsageError(f"--json and --format {options.format} exclude each other; name one")
        options.format = "json"
    if options.queries and (len(folders) != 2 or options.format not in ("terminal", "json")):
        raise UsageError("--queries needs two runs, and --format terminal or json")
    if options.format in ("csv", "json"):
        refuse(options, f"with {options.format.upper()}, which has all columns", "full")
    if not options.queries:
        refuse(options, "without --queries", "share", "source", top=10)
    elif options.format == "json":
        refuse(options, "with JSON, which has no texts", "share")
    if len({folder.resolve() for folder in folders}) < len(folders):
        raise UsageError("a run was given twice; name two different runs")


def _unpaired(options: argparse.Namespace, folders: list[Path], metrics: tuple[str, ...]) -> int:
    """Compares two groups of different queries."""
    from harness.analysis.compare.compare import WHY, compare_split
    from harness.analysis.compare.render import SHOWN, render_split

    if len(folders) != 2:
        raise UsageError(f"--unpaired compares two runs, not {len(folders)}")
    refuse(
        options,
        "with --unpaired, whose queries have no pairs",
        *("full", "categories", "tests", "equivalence", "queries", "force"),
        cluster_by="auto",
        average="queries",
        resamples=10_000,
    )
    if options.format not in ("terminal", "json"):
        raise UsageError(f"--unpaired is printed for the terminal or as JSON, not {options.format}")
    if len(options.protocol or ()) > 1:
        raise UsageError("--unpaired compares under one --protocol; name one")
    protocol = (options.protocol or [""])[0]
    rows = compare_split((folders[0], folders[1]), metrics or SHOWN, protocol)
    if options.format == "json":
        print_json(CompareUnpairedOutput(reason=WHY, rows=plain(rows)))
    elif not options.quiet:
        for letter, folder in zip("AB", folders, strict=True):
            print(f"{letter} = {folder.resolve().name}")
        print(f"\n{render_split(rows)}")
    return 0


@dataclass(frozen=True)
class _Queries:
    """The largest wins and losses between two runs, and the counts of all queries."""

    metric: str
    protocol: str
    level: str
    counts: dict[str, int]
    wins: list[SideBySide]
    losses: list[SideBySide]


def _queries(options: argparse.Namespace, folders: list[Path]) -> _Queries:
    """Returns the queries with the largest differences, with evidence and both rankings."""
    from harness.analysis.compare.side_by_side import side_by_side, win_tie_loss
    from harness.runs.folder.run_dataset import dataset_of_run
    from harness.runs.folder.run_folder import read_scores
    from harness.scoring.scores import main_protocol

    main = main_protocol(read_scores(folders[0]).protocols)
    if main is None:
        raise UsageError(f"{folders[0]}: no query was scored; choose another run")
    metric = (options.metrics or "recall@10").split(",")[0]
    block = ((options.protocol or [main.protocol])[0], main.level)
    found = win_tie_loss(folders[0], folders[1], block, metric)
    dataset = dataset_of_run(folders[0], source=options.source)
    pair = (folders[0], folders[1])
    return _Queries(
        metric=metric,
        protocol=block[0],
        level=block[1],
        counts={part: len(getattr(found, part)) for part in ("wins", "losses", "ties")},
        wins=side_by_side(dataset, pair, found.wins[: options.queries], options.top),
        losses=side_by_side(dataset, pair, found.losses[: options.queries], options.top),
    )


def _shown_queries(options: argparse.Namespace, folders: list[Path]) -> str:
    from harness.analysis.compare.side_by_side import render_queries
    from harness.runs.folder.run_dataset import dataset_of_run

    found = _queries(options, folders)
    dataset = None if options.share else dataset_of_run(folders[0], source=options.source)
    counts = "  ".join(f"{part}={n}" for part, n in found.counts.items())
    parts = [f"metric={found.metric}  protocol={found.protocol}  level={found.level}  {counts}"]
    for title, queries in (("wins", found.wins), ("losses", found.losses)):
        if queries:
            parts.append(f"Largest {title} of B:\n\n{render_queries(queries, dataset)}")
    return "\n" + "\n\n".join(parts)
