"""harness serve: the board and the reports in a browser, while runs go on."""

from __future__ import annotations

import argparse
from pathlib import Path

from harness.cli.options import Verbs
from harness.errors import UsageError


def add(verbs: Verbs) -> None:
    """Register the command."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "serve",
        help="show the board and the reports in a browser, while runs go on",
        description=(
            "Serve the board of a results folder, each run's report and the progress of unfinished "
            "runs on 127.0.0.1; the page follows the folder by itself. Ctrl-C ends it."
        ),
        allow_abbrev=False,
    )
    parser.add_argument("--results", metavar="FOLDER", default="results", help="the run folders")
    parser.add_argument("--port", type=int, default=8765, help="0 takes a free one (8765)")
    parser.add_argument(
        "--plugin", action="append", metavar="FILE.py", help="registers retrievers and datasets"
    )
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> int:
    """Serve until stopped."""
    from harness.pages.server import server
    from harness.retrievers.registry import load_file

    results = Path(options.results)
    if not results.is_dir():
        raise UsageError(f"{results}: no such folder; name the one with the runs with --results")
    if not 0 <= options.port < 1 << 16:
        raise UsageError(f"--port must be from 0 to 65535, not {options.port}")
    for plugin in options.plugin or ():
        load_file(Path(plugin))
    try:
        serving = server(results, options.port)
    except OSError as error:
        raise UsageError(
            f"--port {options.port}: cannot be listened on ({error.strerror}); name another"
        ) from None
    with serving:
        print(f"http://127.0.0.1:{serving.server_port}/ (Ctrl-C ends it)", flush=True)
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            print()  # the line after ^C
    return 0
