"""Hold a run against thresholds and a baseline.

Thresholds by metric, ability and slice, and no significant drop against a baseline run. Status 1,
with a table of what fell, when one is missed. A check is open where no drop could have been shown:
status 2 when its number fell beyond what is allowed.
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


class GateCheck(OutputPart):
    """A rule of a gate; `message` is the finding, `signature` that of the number."""

    rule: str
    passed: bool
    message: str
    signature: str
    open: bool
    outcome: str


class GateOutput(Output, tag="harness.gate/1"):
    """harness gate."""

    passed: bool
    checks: list[GateCheck]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments and options."""
    parser.add_argument("run", metavar="RUN", help="a scored run: its folder or name")
    parser.add_argument("--config", metavar="FILE.toml", required=True, help="the thresholds")
    parser.add_argument("--baseline", metavar="RUN", help="the run that it must not fall below")
    add_results(parser)
    parser.add_argument("--junit", metavar="FILE.xml", help="write JUnit XML for CI services")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print JSON instead of tables")
    form.add_argument("--csv", action="store_true", help="print CSV instead of tables")
    parser.add_argument("--quiet", action="store_true", help="print what fell or is open alone")


def main(options: argparse.Namespace) -> int:
    """Checks, prints and writes. Returns 1 if a check failed, 2 if an open one has not passed."""
    from harness.analysis.gate import GateRules, gate, status, write_junit

    rules = GateRules.read(Path(options.config))
    folder = run_folder(options, options.run)
    baseline = run_folder(options, options.baseline) if options.baseline else None
    if (before := baseline or rules.baseline_folder) and before.resolve() == folder.resolve():
        raise UsageError(f"{options.run}: is the run and its baseline too, which shows nothing")
    checks = gate(folder, rules, baseline)
    if options.junit:
        write_junit(checks, folder.resolve().name, Path(options.junit))
    if options.json:
        found = [GateCheck(**asdict(check), outcome=check.outcome) for check in checks]
        print_json(GateOutput(passed=not status(checks), checks=found))
    elif options.csv:
        import csv

        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(("outcome", "passed", "rule", "message", "signature"))
        writer.writerows((c.outcome, c.passed, c.rule, c.message, c.signature) for c in checks)
    else:
        _show(options.run, checks, quiet=options.quiet)
    return status(checks)


def _show(run: str, checks: Sequence[GateResult], *, quiet: bool) -> None:
    """Prints the table, failed checks first."""
    from harness.io.terminal import grid

    opened = [check for check in checks if check.outcome == "open"]
    shown = sorted(checks, key=lambda check: ("FAIL", "open", "pass").index(check.outcome))
    if quiet:
        shown = [check for check in shown if check.outcome != "pass"]
    if shown:
        rows = [[check.outcome, check.rule, check.message] for check in shown]
        print(grid(rows, ["", "rule", "message"], keys=2))
    for check in shown:
        if check.outcome == "FAIL" and check.signature:
            print(f"{check.rule}: {check.signature}")
    if shown or not quiet:
        passed = sum(check.outcome == "pass" for check in checks)
        left = f", {len(opened)} open: no drop could have been shown" if opened else ""
        print(f"\n{run}: {passed} of {len(checks)} checks passed{left}")
