"""The parser of the command line, with the options of one command or of all."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any, NoReturn

import harness
from harness.cli.commands import InstalledCommand, find_commands
from harness.errors import near


def build_parser(name: str = "", *, load_all: bool = False) -> argparse.ArgumentParser:
    """Return the parser of the command `name`, which alone is imported.

    Where there is no such command, it lists all of them with their help, and imports none unless
    `load_all` asks for the options of each.
    """
    top = _Parser(
        prog="harness",
        description="Run any retriever or memory over public benchmarks, score it by ability.",
        epilog="First minute, offline: harness run --dataset sample --retriever bm25",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="version", version=f"harness {harness.__version__}")
    subparsers = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    commands = find_commands()
    if name in commands:
        _add_command(subparsers, commands[name])
        return top
    for command in commands.values():
        if load_all:
            _add_command(subparsers, command)
        else:
            subparsers.add_parser(command.name, help=command.help().replace("%", "%%"))
    return top


def _add_command(subparsers: Any, command: InstalledCommand) -> None:
    loaded = command.load()
    help_line, description = command.docstring()
    parser = subparsers.add_parser(
        command.name,
        help=help_line.replace("%", "%%"),
        description=description,
        allow_abbrev=False,
    )
    if hasattr(loaded, "main"):  # else every sub-command sets its own `call`
        parser.set_defaults(call=loaded.main)
    loaded.add_arguments(parser)


def _whole_number(text: str) -> int:
    """A whole number of an option. Raises ArgumentTypeError for others, and beyond 64 bits."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid int value: {text!r:.60}") from None
    if number.bit_length() > 63:
        raise argparse.ArgumentTypeError(f"{text:.40}... is beyond 64 bits")
    return number


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, not below a screen of usage."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.register("action", None, _Once)
        self.register("action", "store", _Once)
        self.register("type", int, _whole_number)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """As argparse does, but what is not known is said by the command that it was given to."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            options = [name for action in self._actions for name in action.option_strings]
            first = unknown[0].partition("=")[0]
            close = near(first, options) if first.startswith("-") else ""
            self.error(f"unknown: {' '.join(unknown)}{close if 'did' in close else ''}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        wrong = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if wrong and self._subparsers is not None:
            known = re.findall(r"[\w-]+", wrong[2])
            message = f"unknown command {wrong[1]!r}{near(wrong[1], known)}"
        self.exit(2, f"{self.prog}: {message}; see `{self.prog} --help`\n")


class _Once(argparse.Action):
    """Keeps the value of an option that takes one, and refuses another: the last one never wins."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        if option_string is not None:
            given = namespace.__dict__.setdefault("_given", set())
            if self.dest in given:
                raise argparse.ArgumentError(self, "is given twice; leave one out")
            given.add(self.dest)
        setattr(namespace, self.dest, values)
