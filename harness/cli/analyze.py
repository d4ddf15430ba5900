"""Classify why a run missed evidence.

Assign one cause to every evidence item that is not in the top k, by fixed rules (--rules), from the
rankings, the documents and the qrels.
"""

from __future__ import annotations

import argparse
from typing import Any

from harness.cli.options import DatasetOptions, add_options, add_results, load_plugins, run_folder
from harness.cli.output import add_output, plain, print_json, refuse
from harness.errors import UsageError
from harness.io.records import Output
from harness.records.scores import MetricResult, ScoredDataset


class AnalyzeOutput(Output, tag="harness.analyze/1"):
    """harness analyze; `errata` has the numbers by both sets of judgements."""

    run: str
    system: str
    dataset: ScoredDataset
    k: int
    depth: int
    depth_message: str
    scored: int
    excluded: dict[str, int]
    pieces: dict[str, int]
    results: dict[str, dict[str, MetricResult]]
    queries: list[Any]
    similarity: float | None
    errata: Any
    missed: int
    causes: dict[str, dict[str, int]]
    places: dict[str, dict[str, int]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments and options."""
    parser.add_argument("run", nargs="?", metavar="RUN", help="folder or name of a run")
    add_results(parser)
    parser.add_argument(
        "--k", type=int, default=10, help="rank after which evidence counts as missed (default: 10)"
    )
    parser.add_argument(
        "--errata",
        metavar="FILE",
        help="file of corrections to the qrels, to compare results with and without them",
    )
    parser.add_argument(
        "--semantic",
        action="store_true",
        help="also compute semantic similarity with MiniLM (extra: minilm)",
    )
    parser.add_argument(
        "--examples",
        type=int,
        default=3,
        metavar="N",
        help="number of examples to print, with texts (default: 3)",
    )
    parser.add_argument(
        "--share", action="store_true", help="print ids and numbers only, no texts of the dataset"
    )
    parser.add_argument("--rules", action="store_true", help="print the rules and exit")
    add_options(parser, DatasetOptions, only=("plugin", "source"))
    add_output(parser)


def main(options: argparse.Namespace) -> int:
    """Analyzes a run and prints the result."""
    if options.rules:
        if options.run is not None:
            raise UsageError("--rules prints only the rules; remove the run")
        refuse(options, "with --rules", "errata", "semantic", "share", "json", "quiet", "source")
        import inspect

        from harness.analysis.analyze import causes

        print(inspect.getdoc(causes))
        return 0
    if options.run is None:
        raise UsageError("a run folder is missing; `harness analyze --rules` needs none")

    from harness.analysis.analyze.analyze import analyze
    from harness.analysis.analyze.render import ReportTexts, as_dict, render
    from harness.runs.folder.run_dataset import dataset_of_run
    from harness.runs.folder.run_folder import RunFolder

    if options.json:
        refuse(options, "with --json, which contains all of them", examples=3)
    load_plugins(options)
    folder = run_folder(options, options.run)
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such run folder; `harness score` makes one of a run file")
    dataset = dataset_of_run(folder, source=options.source)
    embed = None
    if options.semantic:
        from harness.io.plugins import provider

        embed = provider("text_vectors")("harness analyze --semantic")
    found = analyze(folder, dataset, options.k, errata=options.errata, embed=embed)
    texts = None if options.share else ReportTexts(RunFolder(folder), dataset, found.depth)
    if options.json:
        values = as_dict(found, texts)
        computed = {name: plain(values[name]) for name in ("queries", "similarity", "errata")}
        print_json(AnalyzeOutput(**{**values, **computed}))
    elif not options.quiet:
        print(render(found, texts, options.examples))
    return 0
