"""harness compare: which run is better, and can one believe it."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.cli.options import Verbs

_FORMATS = ("terminal", "markdown", "latex", "csv", "json")


def add(verbs: Verbs) -> None:
    """Register the command."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "compare",
        help="compare runs: intervals, paired tests, what could have been shown",
        description=(
            "Compare scored run folders query by query. Runs on other data, at another "
            "granularity, depth, protocol or query set are refused, with each difference named."
        ),
        allow_abbrev=False,
    )
    parser.add_argument("runs", nargs="+", metavar="RUN", help="run folders, two or more")
    parser.add_argument("--protocol", action="append", metavar="NAME", help="(those in common)")
    parser.add_argument("--metrics", metavar="M,M,...", help="metrics to test and show")
    parser.add_argument("--categories", action="store_true", help="by the dataset's own too")
    parser.add_argument(
        "--over",
        choices=("auto", "haystacks", "queries"),
        default="auto",
        help="what is independent; queries that share one of several haystacks are not",
    )
    parser.add_argument("--correction", choices=("holm", "benjamini-hochberg"), default="holm")
    parser.add_argument(
        "--tests", metavar="T,T", help="t and wilcoxon, beside the randomisation test"
    )
    parser.add_argument(
        "--equivalence", type=float, metavar="MARGIN", help="test for a difference below MARGIN"
    )
    parser.add_argument("--resamples", type=int, default=10_000, metavar="N")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--queries", type=int, metavar="N", help="show the N most won and most lost queries too"
    )
    parser.add_argument("--top", type=int, default=10, metavar="K", help="ranks to show there (10)")
    parser.add_argument("--share", action="store_true", help="show ids there and no texts")
    parser.add_argument("--source", metavar="PATH", help="raw files of the dataset, for --queries")
    parser.add_argument("--anyway", action="store_true", help="show them apart instead of refusing")
    parser.add_argument("--format", choices=_FORMATS, default="terminal")
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> int:
    """Compare and print."""
    from harness.cli.tables import main_block
    from harness.compare.compare import compare
    from harness.compare.comparison import Options
    from harness.compare.render import SHOWN, render
    from harness.files import read_json
    from harness.scoring.metrics import parse_metrics
    from harness.scoring.protocols import protocol

    for name in options.protocol or ():
        protocol(name)
    metrics = tuple(map(str, parse_metrics(options.metrics))) if options.metrics else ()
    folders = [Path(run) for run in options.runs]
    unit = None
    protocols = tuple(options.protocol or ())
    if not protocols and not metrics and options.format not in ("csv", "json"):
        # Tests that nobody reads would only make the correction stricter.
        main = main_block(read_json(folders[0] / "scores.json")["protocols"])
        if main is not None and "all" in main["slices"]:
            protocols = (main["protocol"],)
            metrics = tuple(m for m in SHOWN if m in main["slices"]["all"]["metrics"])
            unit = main["unit"]
    comparison = compare(
        folders,
        Options(
            protocols=protocols,
            metrics=metrics,
            categories=options.categories,
            over=options.over,
            correction=options.correction,
            resamples=options.resamples,
            seed=options.seed,
            tests=tuple(options.tests.split(",")) if options.tests else (),
            equivalence=options.equivalence,
            anyway=options.anyway,
        ),
    )
    if options.format == "json":
        import orjson

        print(orjson.dumps(comparison.as_dict(), option=orjson.OPT_NON_STR_KEYS).decode())
    else:
        print(render(comparison, options.format, metrics, unit))
    if options.queries:
        print(_queries(options, folders))
    return 0


def _queries(options: argparse.Namespace, folders: list[Path]) -> str:
    """The queries that tell two runs apart most, with evidence and both rankings."""
    from harness.cli.tables import main_block
    from harness.compare.queries import won_lost_tied
    from harness.compare.side_by_side import render_queries, side_by_side
    from harness.errors import UsageError
    from harness.files import read_json
    from harness.results.dataset_of_run import dataset_of_run

    if len(folders) != 2:
        raise UsageError("--queries lays two runs beside each other; name two")
    main = main_block(read_json(folders[0] / "scores.json")["protocols"])
    metric = (options.metrics or "recall@10").split(",")[0]
    block = ((options.protocol or [main["protocol"]])[0], main["unit"])
    found = won_lost_tied(folders[0], folders[1], block, metric)
    dataset = dataset_of_run(folders[0], source=options.source)
    names = (folders[0].resolve().name, folders[1].resolve().name)
    parts = [
        f"{metric} of {' '.join(block)}: {names[0]} won {len(found.won)}, lost {len(found.lost)}, "
        f"tied {len(found.tied)}"
    ]
    for title, queries in (("won", found.won), ("lost", found.lost)):
        shown = side_by_side(
            dataset, (folders[0], folders[1]), queries[: options.queries], options.top
        )
        if shown:
            texts = None if options.share else dataset
            parts.append(f"-- most {title} by {names[0]}\n\n{render_queries(shown, names, texts)}")
    return "\n\n".join(["", *parts])
