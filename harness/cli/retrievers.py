"""List retrievers, or show the parameters of one.

Without a name: list all retrievers and whether they are installed. With a name: show its
parameters and their defaults.
"""

from __future__ import annotations

import argparse
import inspect
from typing import Any

from msgspec import structs

from harness.cli.options import DatasetOptions, add_options, load_plugins
from harness.cli.output import add_output, emit, plain
from harness.io.records import Output, OutputPart


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments and options."""
    parser.add_argument("name", nargs="?", metavar="NAME", help="retriever to show in detail")
    add_options(parser, DatasetOptions, only=("plugin",))
    add_output(parser)


class ListedRetriever(OutputPart):
    """A retriever that can be named; `install` has the command to install it, if needed."""

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
    """Prints the list, or one retriever."""
    from harness.retrievers.registry import names

    load_plugins(options)
    rows = [_listed(name) for name in ([options.name] if options.name else names())]
    printable = [structs.replace(row, params=plain(row.params)) for row in rows]
    output = RetrieversOutput(retrievers=printable)
    return emit(options, output, lambda: _details(rows[0]) if options.name else _table(rows))


def _listed(name: str) -> ListedRetriever:
    """Describes a retriever. Raises UsageError for an unknown name."""
    from harness.io.packages import install_command, is_installed
    from harness.retrievers.registry import find, parameters

    factory = find(name)
    accepted = parameters(factory)
    missing = [module for module in getattr(factory, "modules", ()) if not is_installed(module)]
    return ListedRetriever(
        name=name,
        about=(inspect.getdoc(factory) or "").split("\n\n")[0].replace("\n", " "),
        params={p.name: p.default for p in accepted if p.default is not p.empty},
        required=[p.name for p in accepted if p.default is p.empty and p.kind is not p.VAR_KEYWORD],
        installed=not missing,
        install=[*map(install_command, missing)][:1],
    )


def _table(rows: list[ListedRetriever]) -> str:
    from harness.io.terminal import grid

    table = [[row.name, "yes" if row.installed else "no", row.about] for row in rows]
    return (
        f"{grid(table, ['retriever', 'installed', 'description'], one_line=True)}\n\n"
        "parameters, and how to install it: harness retrievers NAME\n"
        "your own: --retriever FILE.py:CLASS, package.module:CLASS, or mine for mine.py in this "
        "folder"
    )


def _details(row: ListedRetriever) -> str:
    from harness.io.terminal import grid

    params = [*((name, "required") for name in row.required), *row.params.items()]
    parts = [f"{row.name}: {row.about}", *(f"install: {command}" for command in row.install)]
    if params:
        parts.append(grid([[name, str(value)] for name, value in params], ["--param", "default"]))
    return "\n\n".join(parts)
