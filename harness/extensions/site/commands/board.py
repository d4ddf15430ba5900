"""Publish the boards as a site of files.

Write the boards of the runs as a folder that any server of files shows, GitHub Pages too, below any
address: the page, its parts, leaderboard.json. Texts of datasets are in none of it. A site that was
published there before is replaced, whole.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from harness.cli.leaderboard import claims_of, say_broken, say_unscored
from harness.cli.options import add_results
from harness.cli.output import add_output, print_json


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments and options."""
    parser.add_argument("verb", choices=("publish",), help="write the site")
    parser.add_argument("folder", metavar="FOLDER", help="where it is written")
    parser.add_argument(
        "--reports",
        action="store_true",
        help="a report of every run, of ids and numbers alone; needs the datasets here",
    )
    parser.add_argument(
        "--claims", metavar="FILE.toml", help="what others say of their systems, shown apart"
    )
    parser.add_argument(
        "--docs", metavar="SITE", help="a built site, as of mkdocs, that is put below docs/"
    )
    add_results(parser)
    add_output(parser)


def main(options: argparse.Namespace) -> int:
    """Write the site, and say where."""
    from harness.extensions.site.site import publish
    from harness.io.terminal import counted

    out = Path(options.folder)
    boards, broken = publish(
        Path(options.results),
        out,
        claims=claims_of(options.claims),
        reports=options.reports,
        docs=Path(options.docs) if options.docs else None,
    )
    without = say_unscored(options, Path(options.results))
    runs = sum(len(board.entries) for board in boards)
    if options.json:
        from harness.cli.output_records import BoardPublishOutput

        print_json(
            BoardPublishOutput(
                folder=str(out), boards=len(boards), runs=runs, without_scores=without
            )
        )
    elif not options.quiet:
        on = counted(len(boards), "boards")
        print(f"{counted(runs, 'runs')} on {on} in {out}; any server of files shows it:")
        print(f"  python -m http.server --directory {shlex.quote(str(out))}")
    return say_broken(broken)
