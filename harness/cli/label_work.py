"""Judging on a page, for `harness label start`, `open`, `adjudicate` and `answers`."""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from typing import TYPE_CHECKING

from harness.cli.options import check_port, listening
from harness.cli.output import add_output, print_json, until_ctrl_c
from harness.errors import UsageError

if TYPE_CHECKING:
    from harness.labelling.session import JudgingSession

PORT = 8766
_PORTS = 20  # ports to try after it, where none was named


def add_work(parser: argparse.ArgumentParser, name: str) -> None:
    """Add the options of the page; `name` is who judges where nobody is named."""
    parser.add_argument("--annotator", metavar="NAME", help=f"who judges ({name})")
    parser.add_argument("--port", type=int, help=f"of the page ({PORT}, or the next free one)")
    parser.add_argument("--no-open", action="store_true", help="open no browser")
    add_output(parser)
    parser.set_defaults(who=name)


def check_work(options: argparse.Namespace, *, pool_only: bool = False) -> str:
    """Return who judges. Raises UsageError for an option that another one switches off."""
    given = {
        "--port": options.port is not None,
        "--no-open": options.no_open,
        "--annotator": options.annotator is not None,
    }
    if pool_only and (name := next((name for name, on in given.items() if on), None)):
        raise UsageError(f"--pool-only judges nothing; leave {name} out")
    check_port(options.port)
    return options.who if options.annotator is None else str(options.annotator)


def work(session: JudgingSession, options: argparse.Namespace) -> int:
    """Serve the page until it is stopped."""
    from harness.labelling.page import server
    from harness.labelling.reports import PageAddress

    who = session.annotator
    ports = range(PORT, PORT + _PORTS) if options.port is None else [options.port]
    with until_ctrl_c(options), listening(partial(server, session), *ports) as serving:
        address = f"http://127.0.0.1:{serving.server_port}/"
        if options.json:
            print_json(PageAddress(address=address, annotator=who))
        elif not options.quiet:
            print(f"{address} ({who}; Ctrl-C ends it, nothing is lost)", flush=True)
        if not options.no_open and _has_display():
            import webbrowser

            webbrowser.open(address)
        serving.serve_forever()
    return 0


def _has_display() -> bool:
    """Tell whether a browser could be seen: a text browser would take the terminal."""
    if sys.platform in ("win32", "darwin"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
