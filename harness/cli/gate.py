"""harness gate: is a run good enough, and no worse than the one before?"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from pathlib import Path

from harness.cli.options import Verbs


def add(verbs: Verbs) -> None:
    """Register the command."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "gate",
        help="hold a run against thresholds and a baseline",
        description=(
            "Thresholds by metric, ability and slice, and no significant drop against a baseline "
            "run. Status 1, with a table of what fell, when one is missed. Open is a check where "
            "no drop could have been shown: one beyond what is allowed fails there, noise or not."
        ),
        allow_abbrev=False,
    )
    parser.add_argument("run", metavar="RUN", help="a scored run folder")
    parser.add_argument("--config", metavar="FILE.toml", required=True, help="the thresholds")
    parser.add_argument("--baseline", metavar="RUN", help="the run that it must not fall below")
    parser.add_argument("--junit", metavar="FILE.xml", help="write JUnit XML for CI services")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--csv", action="store_true", help="print CSV instead of tables")
    parser.add_argument("--quiet", action="store_true", help="print what fell or is open alone")
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> int:
    """Check, print, write. Status 1 when a check failed."""
    from harness.verdicts.gate import Rules, gate, write_junit

    folder = Path(options.run)
    baseline = Path(options.baseline) if options.baseline else None
    checks = gate(folder, Rules.read(Path(options.config)), baseline)
    fell = [check for check in checks if not check.passed]
    opened = [check for check in checks if check.outcome == "open"]
    if options.junit:
        write_junit(checks, folder.resolve().name, Path(options.junit))
    if options.json:
        import orjson

        found = [{**asdict(check), "outcome": check.outcome} for check in checks]
        print(orjson.dumps({"passed": not fell, "open": len(opened), "checks": found}).decode())
        return 1 if fell else 0
    if options.csv:
        import csv

        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(("outcome", "rule", "found", "signature"))
        writer.writerows((c.outcome, c.rule, c.said, c.signature) for c in checks)
        return 1 if fell else 0
    from tabulate import tabulate

    order = ("FAIL", "open", "pass")
    shown = sorted(checks, key=lambda check: order.index(check.outcome))
    if options.quiet:
        shown = shown[: len(fell) + len(opened)]
    if shown:
        rows = [[check.outcome, check.rule, check.said] for check in shown]
        print(tabulate(rows, ["", "rule", "found"], disable_numparse=True))
    for check in fell:
        if check.signature:
            print(f"{check.rule}: {check.signature}")
    if shown or not options.quiet:
        left = f", {len(opened)} open (no drop could have been shown)" if opened else ""
        passed = len(checks) - len(fell) - len(opened)
        print(f"\n{folder}: {passed} of {len(checks)} checks passed{left}")
    return 1 if fell else 0
