"""harness abtest: what a running or finished A/B test shows."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.cli.options import Verbs, number
from harness.cli.output import add_output, print_json
from harness.errors import UsageError, near


def add(verbs: Verbs) -> None:
    """Register the command."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "abtest",
        help="the report of an A/B test from its journal",
        description=(
            "Print what an A/B test shows so far, from the journal that ABTest writes; the test "
            "may be running. The test itself is made in Python: from harness import ABTest."
        ),
        allow_abbrev=False,
    )
    parser.add_argument(
        "journal", metavar="JOURNAL", help="a journal, or a folder with journals (*.jsonl)"
    )
    parser.add_argument(
        "--wanted",
        action="append",
        metavar="METRIC=DIFFERENCE",
        help="a difference to show: how many units that takes; may be repeated",
    )
    parser.add_argument("--level", type=number, default=0.95, help="of the intervals, 0.95")
    add_output(parser)
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> int:
    """Print the report of each journal."""
    from harness.live.abtest.ab_test import report

    place = Path(options.journal)
    journals = sorted(place.glob("*.jsonl")) if place.is_dir() else [place]
    if not journals:
        raise UsageError(f"{place}: no journal there (*.jsonl)")
    wanted = _wanted(options.wanted) if options.wanted else None
    reports = [report(journal, level=options.level, wanted=wanted) for journal in journals]
    names = {m.name for found in reports for m in getattr(found, "metrics", ())}
    for name in wanted or ():
        if names and name not in names:
            raise UsageError(f"--wanted {name}: is no metric of {place}{near(name, sorted(names))}")
    if options.json:
        rows = [
            {"journal": str(journal), **found.as_dict()}
            for journal, found in zip(journals, reports, strict=True)
        ]
        print_json("abtest", {"reports": rows})
    elif not options.quiet:
        print("\n\n".join(map(str, reports)))
    return 0


def _wanted(given: list[str]) -> dict[str, float]:
    """METRIC=DIFFERENCE as a mapping. Raises UsageError."""
    wanted = {}
    for text in given:
        name, _, value = text.rpartition("=")
        if name in wanted:
            raise UsageError(f"--wanted {name}: is given twice")
        try:
            wanted[name] = float(value)
        except ValueError:
            name = ""
        if not name:
            raise UsageError(f"--wanted {text}: expected METRIC=DIFFERENCE, as click=0.02")
    return wanted
