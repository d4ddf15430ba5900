"""Report an A/B test from its event log.

Print the report of an A/B test from its event log; the test may still be running. Create the test
in Python: from harness import ABTest.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from harness.cli.options import number, parameters
from harness.cli.output import add_output, print_json
from harness.errors import UsageError, suggest
from harness.io.records import Output


class ABTestOutput(Output, tag="harness.abtest/1"):
    """Output of harness abtest: a report for each event log; `log` is its path."""

    reports: list[dict[str, Any]]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments and options."""
    parser.add_argument(
        "log", metavar="LOG", help="an event log, or a folder with event logs (*.jsonl)"
    )
    parser.add_argument(
        "--min-effect",
        action="append",
        metavar="METRIC=DIFFERENCE",
        help="difference to detect; the report has the units that this needs; repeatable",
    )
    parser.add_argument(
        "--level",
        type=number,
        default=0.95,
        help="confidence level of the intervals (default 0.95)",
    )
    add_output(parser)


def main(options: argparse.Namespace) -> int:
    """Prints the report of each event log."""
    from harness.extensions.online.abtest.ab_test import report
    from harness.extensions.online.abtest.report import SplitReport
    from harness.io.records import convert, to_plain

    path = Path(options.log)
    logs = sorted(path.glob("*.jsonl")) if path.is_dir() else [path]
    if not logs:
        raise UsageError(f"{path}: this folder has no event log (*.jsonl)")
    effects = None
    if options.min_effect:
        given = parameters(options.min_effect, "--min-effect")
        effects = convert(given, dict[str, float], "--min-effect")
    reports = [report(log, level=options.level, min_effects=effects) for log in logs]
    names = {m.name for one in reports if isinstance(one, SplitReport) for m in one.metrics}
    for name in effects or ():
        if names and name not in names:
            known = suggest(name, sorted(names))
            raise UsageError(f"--min-effect {name}: {path} has no such metric{known}")
    if options.json:
        rows = [{"log": str(log), **to_plain(one)} for log, one in zip(logs, reports, strict=True)]
        print_json(ABTestOutput(reports=rows))
    elif not options.quiet:
        print("\n\n".join(map(str, reports)))
    return 0
