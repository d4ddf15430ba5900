"""List the examples, or print where one is.

Examples that come with the harness: services, stores, A/B tests, CI.
"""

from __future__ import annotations

import argparse

from harness.cli.output import add_output, print_json


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
    if options.json:
        from harness.cli.output_records import Example, ExamplesOutput

        rows = [
            Example(name=name, about=about(path), path=str(path)) for name, path in examples.items()
        ]
        print_json(ExamplesOutput(examples=rows))
    elif options.quiet:
        return 0
    elif options.name is not None:
        print(examples[options.name])
    else:
        print(table(examples, "example"))
        print(f"\nin {folder('examples')}; `harness examples NAME` prints one's path alone")
    return 0
