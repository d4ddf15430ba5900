"""harness retrievers: what can be put under test by name."""

from __future__ import annotations

import argparse
from typing import Any

from harness.cli.options import Verbs, load_plugins
from harness.cli.output import add_output, print_json


def add(verbs: Verbs) -> None:
    """Register the command."""
    parser: argparse.ArgumentParser = verbs.add_parser(
        "retrievers",
        help="list retrievers and their parameters",
        description="Retrievers that need no path, with their parameters and defaults.",
        allow_abbrev=False,
    )
    parser.add_argument("--plugin", action="append", metavar="FILE.py", help="registers retrievers")
    add_output(parser)
    parser.set_defaults(call=call)


def call(options: argparse.Namespace) -> int:
    """Print the list."""
    import inspect

    from harness.retrievers.extras import install, there
    from harness.retrievers.registry import find, names, parameters

    load_plugins(options)
    rows: list[dict[str, Any]] = []
    for name in names():
        factory = find(name)
        about = (inspect.getdoc(factory) or "").split("\n\n")[0].replace("\n", " ")
        accepted = parameters(factory)
        params = {p.name: p.default for p in accepted if p.default is not p.empty}
        required = [
            p.name for p in accepted if p.default is p.empty and p.kind is not p.VAR_KEYWORD
        ]
        missing = [m for m in getattr(factory, "modules", ()) if not there(m)]
        either = getattr(factory, "any_module", ())  # of which one is enough
        if not any(map(there, either)):
            missing += either[:1]
        row = {"name": name, "about": about, "params": params, "required": required}
        rows.append({**row, "installed": not missing, "install": [*map(install, missing)][:1]})
    if options.json:
        print_json("retrievers", {"retrievers": rows})
    if options.json or options.quiet:
        return 0
    from harness.scoring.grid import grid

    table = [
        [
            r["name"],
            "yes" if r["installed"] else r["install"][0],
            ", ".join([*r["required"], *(f"{k}={v}" for k, v in r["params"].items())]) or "-",
            r["about"],
        ]
        for r in rows
    ]
    headers = ["retriever", "installed", "parameters", "what it is"]
    print(grid(table, headers, most=[None, 24, 34, 50]))
    print(
        "\nyour own: mine (of a mine.py here), file.py:Class, package.module:Class, an entry point"
    )
    return 0
