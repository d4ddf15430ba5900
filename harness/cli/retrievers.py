"""List retrievers and their parameters.

Retrievers that need no path, with their parameters and defaults.
"""

from __future__ import annotations

import argparse
from typing import Any

from msgspec import structs

from harness.cli.options import DatasetOptions, add_options, load_plugins
from harness.cli.output import add_output, emit, plain
from harness.io.records import Output, OutputPart


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments and options."""
    add_options(parser, DatasetOptions, only=("plugin",))
    add_output(parser)


class ListedRetriever(OutputPart):
    """A retriever that can be named; `install` has the command that it needs, if it needs one."""

    name: str
    about: str
    params: dict[str, Any]
    required: list[str]
    installed: bool
    install: list[str]


class RetrieversOutput(Output, tag="harness.retrievers/1"):
    """harness retrievers."""

    retrievers: list[ListedRetriever]


def main(options: argparse.Namespace) -> int:
    """Print the list."""
    import inspect

    from harness.retrievers.registry import find, install, names, parameters, there

    load_plugins(options)
    rows = []
    for name in names():
        factory = find(name)
        about = (inspect.getdoc(factory) or "").split("\n\n")[0].replace("\n", " ")
        accepted = parameters(factory)
        params = {p.name: p.default for p in accepted if p.default is not p.empty}
        required = [
            p.name for p in accepted if p.default is p.empty and p.kind is not p.VAR_KEYWORD
        ]
        missing = [m for m in getattr(factory, "modules", ()) if not there(m)]
        commands = [*map(install, missing)][:1]
        rows.append(
            ListedRetriever(
                name=name,
                about=about,
                params=params,
                required=required,
                installed=not missing,
                install=commands,
            )
        )
    listed = [structs.replace(row, params=plain(row.params)) for row in rows]
    return emit(options, RetrieversOutput(retrievers=listed), lambda: _table(rows))


def _table(rows: list[ListedRetriever]) -> str:
    from harness.io.grid import grid

    table = [
        [
            row.name,
            "yes" if row.installed else row.install[0],
            ", ".join([*row.required, *(f"{k}={v}" for k, v in row.params.items())]) or "-",
            row.about,
        ]
        for row in rows
    ]
    headers = ["retriever", "installed", "parameters", "what it is"]
    return (
        f"{grid(table, headers, most=[None, 24, 34, 50])}\n\n"
        "your own: mine (of a mine.py here), file.py:Class, package.module:Class, an entry point"
    )
