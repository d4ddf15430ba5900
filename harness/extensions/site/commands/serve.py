"""Show leaderboards, reports and running runs in a browser.

Serve the leaderboards of a results folder, the report of each run and the progress of unfinished
runs on 127.0.0.1. The page updates itself. Stop with Ctrl-C.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path

from harness.cli.options import add_results, load_plugins
from harness.cli.output import add_output, print_json
from harness.cli.serving import check_port, serve_on_free_port, until_ctrl_c
from harness.errors import UsageError
from harness.io.records import Output


class ServeOutput(Output, tag="harness.serve/1"):
    """Output of harness serve."""

    address: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments and options."""
    add_results(parser)
    parser.add_argument(
        "--port", type=int, default=8765, help="port (default: 8765; 0: a free one)"
    )
    parser.add_argument(
        "--plugin",
        action="append",
        metavar="FILE.py",
        help="Python file that registers retrievers and datasets; repeatable",
    )
    add_output(parser)


def main(options: argparse.Namespace) -> int:
    """Serves until stopped."""
    results = Path(options.results)
    if not results.is_dir():
        raise UsageError(f"{results}: no such folder; pass the folder of the runs with --results")
    check_port(options.port)
    load_plugins(options)
    from harness.extensions.site.server import server

    with (
        until_ctrl_c(options),
        serve_on_free_port(partial(server, results), options.port) as serving,
    ):
        address = f"http://127.0.0.1:{serving.server_port}/"
        if options.json:
            print_json(ServeOutput(address=address))
        elif not options.quiet:
            print(f"{address} (Ctrl-C ends it)", flush=True)
        serving.serve_forever()
    return 0
