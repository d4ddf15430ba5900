"""harness gate: is a run good enough, and no worse than the one before?"""

from __future__ import annotations

import argparse
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
            "run. Status 1, with a table of what fell, when one is missed."
        ),
        allow_abbrev=False,
    )
    parser.add_argument("run", metavar="RUN", help="a scored run folder")
    parser.add_argument("--config", metavar="FILE.toml", required=True, help="the thresholds")
    parser.add_argument("--baseline", metavar="RUN", help="the run that it must not fall below")
    parser.add_argument("--junit", metavar="FILE.xml", help="write JUnit XML for CI services")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--quiet", action="store_true", help="print nothing but what fell")
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> int:
    """Check, print, write. Status 1 when a check failed."""
    from harness.verdicts.gate import Rules, gate, write_junit

    folder = Path(options.run)
    baseline = Path(options.baseline) if options.baseline else None
    checks = gate(folder, Rules.read(Path(options.config)), baseline)
    fell = [check for check in checks if not check.passed]
    if options.junit:
        write_junit(checks, folder.resolve().name, Path(options.junit))
    if options.json:
        import orjson

        print(orjson.dumps({"passed": not fell, "checks": [asdict(c) for c in checks]}).decode())
        return 1 if fell else 0
    from tabulate import tabulate

    shown = fell if options.quiet else sorted(checks, key=lambda check: check.passed)
    rows = [["pass" if check.passed else "FAIL", check.rule, check.said] for check in shown]
    if rows:
        print(tabulate(rows, ["", "rule", "found"], disable_numparse=True))
    for check in fell:
        if check.signature:
            print(f"{check.rule}: {check.signature}")
    if fell or not options.quiet:
        print(f"\n{folder}: {len(checks) - len(fell)} of {len(checks)} checks passed")
    return 1 if fell else 0
