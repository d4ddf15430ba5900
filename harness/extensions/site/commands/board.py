"""Publish the leaderboards as a static site.

Write the leaderboards of the runs to a folder for any web server, such as GitHub Pages. It contains
no texts of datasets. An earlier site in that folder is replaced.
"""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from harness.cli.leaderboard import claims_of, say_broken, say_unscored
from harness.cli.options import add_results
from harness.cli.output import add_output, print_json
from harness.io.records import Output


class BoardPublishOutput(Output, tag="harness.board-publish/1"):
    """Output of harness board publish; `boards` and `runs` are counts."""

    folder: str
    boards: int
    runs: int
    without_scores: list[str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments and options."""
    parser.add_argument("verb", metavar="publish", choices=("publish",), help="write the site")
    parser.add_argument("folder", metavar="FOLDER", help="output folder")
    parser.add_argument(
        "--reports",
        action="store_true",
        help="also write a report per run, with ids and numbers only; needs the datasets",
    )
    parser.add_argument(
        "--claims", metavar="FILE.toml", help="results reported by others, shown separately"
    )
    parser.add_argument(
        "--docs",
        metavar="SITE",
        help="folder of a built site, such as one of mkdocs, to copy to docs/",
    )
    add_results(parser)
    add_output(parser)


def main(options: argparse.Namespace) -> int:
    """Writes the site and prints its location."""
    from harness.extensions.site.site import publish
    from harness.io.terminal import count_of

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
        print_json(
            BoardPublishOutput(
                folder=str(out), boards=len(boards), runs=runs, without_scores=without
            )
        )
    elif not options.quiet:
        on = count_of(len(boards), "boards")
        print(f"{count_of(runs, 'runs')} on {on} in {out}; to view it with any web server:")
        print(f"  python -m http.server --directory {shlex.quote(str(out))}")
    return say_broken(broken)
