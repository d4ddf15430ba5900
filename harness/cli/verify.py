"""Recompute a run's published numbers by another way.

Make the numbers of scores.json again from the run's rankings and an export of the judgements, by
plain Python of their definitions, and by pytrec_eval and trec_eval where those are installed; say
what agrees to how many digits, and what was not looked at. Nothing of it is the harness's scorer.
Status 1 when a number differs, or the folder's files do not belong together.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.cli.options import add_results, load_plugins, run_folder
from harness.cli.output import add_output, plain, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments and options."""
    parser.add_argument(
        "run", metavar="RUN", help="a scored run: its folder or name; or a submission"
    )
    add_results(parser)
    parser.add_argument(
        "--trec-eval", metavar="FILE", help="the program trec_eval (the one on PATH)"
    )
    parser.add_argument("--source", metavar="PATH", help="the raw files of its dataset")
    parser.add_argument(
        "--plugin", action="append", metavar="FILE.py", help="registers retrievers and datasets"
    )
    add_output(parser)


def main(options: argparse.Namespace) -> int:
    """Verify and print. Status 1 when something does not agree."""
    from harness.verdicts.verify.render import as_json, lines
    from harness.verdicts.verify.verify import verify

    load_plugins(options)
    verdict = verify(
        run_folder(options, options.run),
        source=options.source,
        program=Path(options.trec_eval) if options.trec_eval else None,
    )
    if options.json:
        from harness.cli.output_records import VerifyOutput

        print_json(VerifyOutput(**plain(as_json(verdict))))
    elif found := lines(verdict, quiet=options.quiet):
        print("\n".join(found))
    return 0 if verdict.agrees else 1
