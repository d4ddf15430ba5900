"""Build leaderboard.json and a page from run folders.

Print a table with one row per run, and write leaderboard.json and leaderboard.html. The same runs
give the same files.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from harness.analysis.board.records import Leaderboard
from harness.cli.options import add_results
from harness.cli.output import add_output, print_json, refuse
from harness.errors import UsageError
from harness.io.records import Output

if TYPE_CHECKING:
    from harness.reports.board import Claims


class LeaderboardOutput(Output, tag="harness.leaderboard/1"):
    """harness leaderboard; `leaderboard` is leaderboard.json."""

    leaderboard: Leaderboard
    without_scores: list[str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments and options."""
    parser.add_argument(
        "verb", metavar="add", nargs="?", choices=("add",), help="add a run from another machine"
    )
    parser.add_argument(
        "path", nargs="*", metavar="FOLDER", help="folder of that run, with rankings and run.json"
    )
    parser.add_argument("--source", metavar="PATH", help="raw files of its dataset")
    add_results(parser)
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="file to write (default: leaderboard.json in the results folder)",
    )
    parser.add_argument(
        "--claims", metavar="FILE.toml", help="results reported by others, shown separately"
    )
    parser.add_argument(
        "--format",
        choices=("terminal", "markdown"),
        default="terminal",
        help="format of the printed table (default: terminal)",
    )
    add_output(parser)


def main(options: argparse.Namespace) -> int:
    """Builds, writes and prints the leaderboard."""
    from harness.analysis.board.summary import table
    from harness.io.records import read_json_record
    from harness.io.terminal import count_of
    from harness.reports.board import write_board

    results = Path(options.results)
    if options.verb is None:
        refuse(options, "without `add FOLDER`", "source")
    if options.json:
        refuse(options, "with --json", format="terminal")
    if options.verb == "add":
        from harness.io.plugins import provider

        if not options.path:
            raise UsageError("leaderboard add FOLDER: name the folder of the run")
        taken: dict[Path, Path] = {}
        for path in map(Path, options.path):
            if path.is_file():
                raise UsageError(f"{path}: is a file; `harness score` puts one on the board")
            taken_in = provider("submission")(path, results, options.source, taken)
            taken[taken_in] = path
            if not options.quiet:
                print(f"{path}: scored from its rankings and added as {taken_in}", file=sys.stderr)
    out = Path(options.out) if options.out else results / "leaderboard.json"
    if out.is_dir():
        raise UsageError(f"--out {out}: is a folder; name a file")
    boards, broken = write_board(results, out, claims_of(options.claims))
    without = say_unscored(options, results)
    if options.json:
        summary = read_json_record(out, Leaderboard)
        print_json(LeaderboardOutput(leaderboard=summary, without_scores=without))
    elif not options.quiet:
        print(table(boards, options.format))
        entries = count_of(sum(len(one.entries) for one in boards), "runs")
        page = out.with_suffix(".html").name
        print(f"\n{entries} on {count_of(len(boards), 'boards')} in {out} and, as a page, {page}")
    return say_broken(broken)


def say_broken(broken: Mapping[str, str]) -> int:
    """Prints the errors of runs that cannot be read; returns the status, 1 if there are any."""
    for why in broken.values():
        print(f"harness: excluded: {why}", file=sys.stderr)
    return 1 if broken else 0


def say_unscored(options: argparse.Namespace, results: Path) -> list[str]:
    """Returns the runs without scores, which are on no board, and prints a note on them."""
    from harness.analysis.board.leaderboard import unscored
    from harness.io.terminal import count_of

    without = unscored(results)
    if without and not options.quiet:
        print(
            f"note: {count_of(len(without), 'runs')} without scores excluded: {', '.join(without)}"
            "; `harness score FOLDER` scores one",
            file=sys.stderr,
        )
    return without


def claims_of(path: str | None) -> Claims | None:
    """Returns a function from a board to its claims of a registry. Raises UsageError."""
    if path is None:
        return None
    from harness.analysis.claims import claims_for, read_claims

    claims = read_claims(Path(path))
    return lambda board: claims_for(claims, board.dataset)
