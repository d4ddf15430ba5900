"""Check a run against thresholds and a baseline.

Exit status: 0 if all checks pass, 1 if one fails, 3 if none fails but a drop is inconclusive, 2 for
wrong use.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.options import add_results, run_folder
from harness.cli.output import print_json
from harness.errors import UsageError
from harness.io.records import Output, OutputPart

if TYPE_CHECKING:
    from harness.analysis.gate import GateResult

_FORMATS = ("table", "markdown", "github", "csv", "json")


class GateCheck(OutputPart):
    """A rule of a gate; `outcome` is pass, fail or inconclusive."""

    rule: str
    outcome: str
    message: str
    signature: str


class GateOutput(Output, tag="harness.gate/1"):
    """harness gate; `passed` if the exit status is 0."""

    passed: bool
    checks: list[GateCheck]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments and options."""
    parser.add_argument("run", metavar="RUN", help="a scored run: its folder or name")
    parser.add_argument("--config", metavar="FILE.toml", required=True, help="file of rules")
    parser.add_argument("--baseline", metavar="RUN", help="run to compare with, for [[no_drop]]")
    add_results(parser)
    parser.add_argument("--junit", metavar="FILE.xml", help="write JUnit XML for CI services")
    form = parser.add_mutually_exclusive_group()
    form.add_argument(
        "--format",
        choices=_FORMATS,
        default="table",
        help="form of the output; github: annotations of a workflow",
    )
    form.add_argument("--json", action="store_true", help="print JSON, as --format json")
    parser.add_argument(
        "--quiet", action="store_true", help="print only failed and inconclusive checks"
    )


def main(options: argparse.Namespace) -> int:
    """Checks, prints and writes. Returns the exit status of `harness.analysis.gate.status`."""
    from harness.analysis.gate import GateRules, gate, status, write_junit

    rules = GateRules.read(Path(options.config))
    folder = run_folder(options, options.run)
    baseline = run_folder(options, options.baseline) if options.baseline else None
    if (before := baseline or rules.baseline_folder) and before.resolve() == folder.resolve():
        raise UsageError(f"{options.run}: is its own baseline; name another run")
    checks = gate(folder, rules, baseline)
    allowed = rules.allow_inconclusive
    found = status(checks, allow_inconclusive=allowed)
    if options.junit:
        name = folder.resolve().name
        write_junit(checks, name, Path(options.junit), allow_inconclusive=allowed)
    if options.json or options.format == "json":
        printed = [GateCheck(**asdict(check)) for check in checks]
        print_json(GateOutput(passed=not found, checks=printed))
    elif options.format == "csv":
        import csv

        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(("outcome", "rule", "message", "signature"))
        writer.writerows((c.outcome, c.rule, c.message, c.signature) for c in checks)
    else:
        _print(options, checks, allowed)
    return found


def _print(options: argparse.Namespace, checks: Sequence[GateResult], allowed: bool) -> None:
    """Prints failed checks first, then inconclusive ones."""
    order = ("fail", "inconclusive", "pass")
    outcomes = [str(check.outcome) for check in checks]
    words = {"fail": "failed", "inconclusive": "inconclusive"}
    counts = [f"{outcomes.count(one)} {words[one]}" for one in order[:2] if one in outcomes]
    passed = f"{outcomes.count('pass')} of {len(checks)} checks passed"
    line = f"{options.run}: {', '.join([passed, *counts])}"
    shown = sorted(checks, key=lambda check: order.index(check.outcome))
    if options.quiet:
        shown = [check for check in shown if check.outcome != "pass"]
    if options.format == "github":
        _annotate(options.run, shown, allowed)
    elif shown:
        _tabulate(shown, options.format)
    if shown or not options.quiet:
        print(line if options.format == "github" else f"\n{line}")


def _tabulate(checks: Sequence[GateResult], form: str) -> None:
    from harness.io.terminal import grid

    names = ["FAIL" if check.outcome == "fail" else str(check.outcome) for check in checks]
    rows = [[name, check.rule, check.message] for name, check in zip(names, checks, strict=True)]
    header = ["outcome", "rule", "message"]
    if form == "markdown":
        cells = [[cell.replace("|", "\\|") for cell in row] for row in rows]
        print(grid(cells, header, style="github"))
        return
    print(grid(rows, header, keys=2))
    for check in checks:
        if check.outcome == "fail" and check.signature:
            print(f"{check.rule}: {check.signature}")


def _annotate(run: str, checks: Sequence[GateResult], allowed: bool) -> None:
    """Prints workflow commands, which GitHub shows as annotations of a job."""
    for check in checks:
        if check.outcome != "pass":
            warning = allowed and check.outcome == "inconclusive"
            title = _escaped(f"gate {run}: {check.rule}").replace(":", "%3A").replace(",", "%2C")
            print(f"::{'warning' if warning else 'error'} title={title}::{_escaped(check.message)}")


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
