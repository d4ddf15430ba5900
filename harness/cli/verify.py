"""Recompute a run's numbers with independent packages.

Check the checksums of the folder, and recompute the numbers of scores.json from the rankings and
the qrels with pytrec_eval, SciPy and NumPy, without the harness's scorer. Print what differs and
what was not recomputed. Exit status 1 if a number differs or a checksum is wrong.
"""

from __future__ import annotations

import argparse
from typing import Any

from harness.cli.options import DatasetOptions, add_options, add_results, load_plugins, run_folder
from harness.cli.output import PerformedCheck, add_output, plain, print_json
from harness.io.records import Output


class VerifyOutput(Output, tag="harness.verify/1"):
    """harness verify; `not_recomputed` counts numbers by kind, `from_table` those that were
    recomputed from scores.parquet only."""

    run: str
    agrees: bool
    numbers: int
    recomputed: int
    from_table: int
    compared: dict[str, int]
    checks: list[PerformedCheck]
    differences: list[Any]
    not_recomputed: dict[str, int]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments and options."""
    parser.add_argument(
        "run", metavar="RUN", help="folder or name of a scored run; or a submission"
    )
    add_results(parser)
    add_options(parser, DatasetOptions, only=("plugin", "source"))
    add_output(parser)


def main(options: argparse.Namespace) -> int:
    """Verifies a run and prints the result. Returns 1 if something does not agree."""
    from harness.analysis.verify.render import as_json, lines
    from harness.analysis.verify.verify import verify
    from harness.runs.folder.score_folder import rescore

    load_plugins(options)
    verdict = verify(run_folder(options, options.run), source=options.source, rescore=rescore)
    if options.json:
        print_json(VerifyOutput(**plain(as_json(verdict))))
    elif found := lines(verdict, quiet=options.quiet):
        print("\n".join(found))
    return 0 if verdict.agrees else 1
