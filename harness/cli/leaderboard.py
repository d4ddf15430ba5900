"""harness leaderboard: leaderboard.json from the run folders."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from harness.cli.options import Verbs, add_output
from harness.errors import UsageError


def add(verbs: Verbs) -> None:
    """Register the command."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "leaderboard",
        help="gather run folders into leaderboard.json",
        description="One row a run, abilities x metrics with n; building it again gives no diff.",
        allow_abbrev=False,
    )
    parser.add_argument("--results", metavar="FOLDER", default="results", help="the run folders")
    parser.add_argument("--out", metavar="FILE", help="(leaderboard.json in that folder)")
    add_output(parser)
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> int:
    """Build, write, print."""
    from harness.board.leaderboard import table, unscored, write_board

    results = Path(options.results)
    out = Path(options.out) if options.out else results / "leaderboard.json"
    if out.is_dir():
        raise UsageError(f"--out {out}: is a folder; name a file")
    board = write_board(results, out)
    if without := unscored(results):
        print(
            f"note: {len(without)} runs have no scores and are left out: {', '.join(without)}; "
            "`harness score FOLDER` scores one",
            file=sys.stderr,
        )
    if options.json:
        print(out.read_text(), end="")
    elif not options.quiet:
        print(table(board))
        print(f"\n{len(board['rows'])} runs in {out}")
    return 0
