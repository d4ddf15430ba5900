"""harness cache: the vectors that were kept, so that no text is embedded twice."""

from __future__ import annotations

import argparse
from typing import Any

from harness.cli.options import Verbs, add_inner
from harness.cli.output import add_output, print_json


def add(verbs: Verbs) -> None:
    """Register the command and its own commands."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "cache",
        help="list or clear the kept vectors of embedding models",
        description="Without a command: what is kept of each model, and its size.",
        allow_abbrev=False,
    )
    add_output(parser)
    parser.set_defaults(call=call_list)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for name, about, call in (
        ("list", "what is kept of each model, and its size", call_list),
        ("clear", "forget the vectors of one model or of all", call_clear),
    ):
        one = add_inner(commands, name, about)
        add_output(one)
        if name == "clear":
            one.add_argument("--model", metavar="NAME", default="", help="this one alone")
        one.set_defaults(call=call)


def call_list(options: argparse.Namespace) -> int:
    """Print what is kept."""
    from harness.retrievers.embeddings import folder, kept

    _print(kept(), options.json, options.quiet, f"no vectors are kept in {folder()}")
    return 0


def call_clear(options: argparse.Namespace) -> int:
    """Forget, and print what was kept."""
    from harness.retrievers.embeddings import clear

    cleared = clear(options.model)
    _print(cleared, options.json, options.quiet, "there was nothing to clear")
    if cleared and not (options.json or options.quiet):
        print("\ncleared")
    return 0


def _print(found: list[Any], as_json: bool, quiet: bool, nothing: str) -> None:
    if as_json:
        from dataclasses import asdict

        print_json("cache", {"models": [asdict(one) for one in found]})
    elif quiet:
        return
    elif not found:
        print(nothing)
    else:
        from harness.cli.lines import size
        from harness.scoring.grid import grid

        rows = [
            [o.model, o.revision, o.dtype, o.vectors, o.dimension, size(o.bytes)] for o in found
        ]
        headers = ["model", "revision", "dtype", "vectors", "dimension", "size"]
        print(grid(rows, headers, keys=2))
        print(f"\nin {found[0].path.parent}")
