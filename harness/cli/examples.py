"""List the examples, or print where one is.

Examples that come with the harness: services, stores, A/B tests, CI.
"""

from __future__ import annotations

import argparse

from harness.cli.output import add_output, emit
from harness.records.output import Output, OutputPart


class Example(OutputPart):
    """An example that comes with the harness."""

    name: str
    about: str
    path: str


class ExamplesOutput(Output, tag="harness.examples/1"):
    """harness examples."""

    examples: list[Example]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments and options."""
    parser.epilog = 'A copy to change: cp "$(harness examples command.py)" .'
    parser.add_argument("name", nargs="?", metavar="NAME", help="print the path of this one")
    add_output(parser)


def main(options: argparse.Namespace) -> int:
    """Print the list, or one path alone."""
    from harness.cli.bundled import about, files, folder, table
    from harness.errors import UsageError, near

    examples = files("examples")
    if options.name is not None:
        if options.name not in examples:
            known = list(examples)
            raise UsageError(f"unknown example {options.name!r}{near(options.name, known)}")
        examples = {options.name: examples[options.name]}
    rows = [
        Example(name=name, about=about(path), path=str(path)) for name, path in examples.items()
    ]
    text = (
        str(examples[options.name])
        if options.name is not None
        else f"{table(examples, 'example')}\n\nin {folder('examples')}; `harness examples NAME` "
        "prints one's path alone"
    )
    return emit(options, ExamplesOutput(examples=rows), text)
