"""Show the board and the reports in a browser, while runs go on.

Serve the board of a results folder, each run's report and the progress of unfinished runs on
127.0.0.1; the page follows the folder by itself. Ctrl-C ends it.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from harness.cli.options import add_results, check_port, listening, load_plugins
from harness.cli.output import add_output, print_json, until_ctrl_c
from harness.errors import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments and options."""
    add_results(parser)
    parser.add_argument("--port", type=int, default=8765, help="0 takes a free one (8765)")
    parser.add_argument(
        "--plugin", action="append", metavar="FILE.py", help="registers retrievers and datasets"
    )
    add_output(parser)


def main(options: argparse.Namespace) -> int:
    """Serve until stopped."""
    results = Path(options.results)
    if not results.is_dir():
        raise UsageError(f"{results}: no such folder; name the one with the runs with --results")
    check_port(options.port)
    load_plugins(options)
    from harness.extensions.site.server import server

    with until_ctrl_c(options), listening(partial(server, results), options.port) as serving:
        address = f"http://127.0.0.1:{serving.server_port}/"
        if options.json:
            from harness.cli.output_records import ServeOutput

            print_json(ServeOutput(address=address))
        elif not options.quiet:
            print(f"{address} (Ctrl-C ends it)", flush=True)
        serving.serve_forever()
    return 0
