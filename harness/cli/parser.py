"""The parser of the command line, with the options of one command or of all.

A command is a module, or an object, with `add_arguments(parser)` and `main(args)`, which returns
the exit status. A package declares it in the entry-point group `harness.commands`, as the harness
declares its own. The first line of the module's docstring is the help of `harness --help`, the rest
of the docstring describes the command in its own help.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from typing import Any, NoReturn

import harness
from harness.errors import UsageError, suggest
from harness.io import plugins


def build_parser(name: str = "", *, load_all: bool = False) -> argparse.ArgumentParser:
    """Returns the parser of the command `name`, importing no other command.

    For an unknown name it lists all commands with their help, and imports them only if `load_all`
    requests the options of each.
    """
    top = _Parser(
        prog="harness",
        description="Benchmark retrievers and memory systems on public datasets or your own.",
        epilog="A first run, offline: harness run --dataset sample --retriever bm25",
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
    """Parses a whole number. Raises ArgumentTypeError for others, and beyond 64 bits."""
    try:
        number = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"invalid int value: {text!r:.60}") from None
    if number.bit_length() > 63:
        raise argparse.ArgumentTypeError(f"{text:.40}... is beyond 64 bits")
    return number


class _Parser(argparse.ArgumentParser):
    """Reports an error in one line, without the usage text."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.register("action", None, _Once)
        self.register("action", "store", _Once)
        self.register("type", int, _whole_number)

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Parses as argparse does; unknown arguments are errors of the command that got them."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            options = [name for action in self._actions for name in action.option_strings]
            first = unknown[0].partition("=")[0]
            close = suggest(first, options) if first.startswith("-") else ""
            self.error(f"unexpected: {' '.join(unknown)}{close if 'did' in close else ''}")
        return found, unknown

    def error(self, message: str) -> NoReturn:
        wrong = re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message)
        if wrong and self._subparsers is not None:
            known = re.findall(r"[\w-]+", wrong[2])
            group = _group_with(wrong[1]) if self.prog == "harness" else ""
            close = f"; did you mean harness {group} {wrong[1]}?" if group else ""
            message = f"unknown command {wrong[1]!r}{close or suggest(wrong[1], known)}"
        elif wrong and re.fullmatch(r"'[a-z]+'", wrong[2]):
            message = f"unexpected {wrong[1]!r}; only `{self.prog} {wrong[2][1:-1]}` takes a folder"
        self.exit(2, f"{self.prog}: {message}; see `{self.prog} --help`\n")


def _group_with(name: str) -> str:
    """Returns the first command that has a sub-command `name`; empty if none has."""
    for group, parser in _subcommands(build_parser(load_all=True)).items():
        if name in _subcommands(parser):
            return group
    return ""


def _subcommands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    actions = parser._subparsers._group_actions if parser._subparsers is not None else []
    return {**actions[0].choices} if actions and isinstance(actions[0].choices, dict) else {}


class _Once(argparse.Action):
    """Stores the value of an option that takes one; a second value is an error."""

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
                raise argparse.ArgumentError(self, "is given twice; remove one")
            given.add(self.dest)
        setattr(namespace, self.dest, values)


GROUP = "harness.commands"

_DOCSTRING = re.compile(r"(?:\s|#.*\n)*r?(\"{3}|'{3})(.*?)\1", re.DOTALL)

_FIRST = (
    *("run", "runs", "export", "score", "verify", "compare", "inject", "analyze", "answer"),
    *("judge", "report", "leaderboard", "board", "claims", "serve", "sweep", "gate", "abtest"),
    *("monitor", "load", "lag", "label", "datasets", "retrievers", "examples", "check"),
    *("explain", "cache", "completion"),
)
"""Commands that the help lists first, in this order; the others follow by name."""


@dataclass(frozen=True)
class InstalledCommand:
    """An installed command, which only `load` imports.

    `entry_points` are two or more if several other packages declare the name.
    """

    name: str
    entry_points: tuple[EntryPoint, ...]

    def docstring(self) -> tuple[str, str]:
        """Returns the one-line help and the description, read from the source of the module."""
        lines = _docstring(self.entry_points[0].module).strip().split("\n\n", 1)
        first = " ".join(lines[0].split()).removesuffix(".")
        description = " ".join(lines[1].split()) if len(lines) > 1 else f"{first}."
        return first[:1].lower() + first[1:], description

    def help(self) -> str:
        """Returns the line of `harness --help`."""
        return self._declared_twice() or self.docstring()[0]

    def load(self) -> Any:
        """Imports the command.

        Raises UsageError if two packages declare it, and PluginError if it cannot be imported, or
        is not a command; both name the packages.
        """
        if twice := self._declared_twice():
            raise UsageError(f"command {self.name!r}: {twice}; uninstall one of them")
        (entry,) = self.entry_points
        loaded = plugins.load(entry, "command")
        if not callable(getattr(loaded, "add_arguments", None)):
            raise plugins.failure(entry, "command", f"{entry.value} has no add_arguments(parser)")
        return loaded

    def _declared_twice(self) -> str:
        if len(self.entry_points) == 1:
            return ""
        packages = " and ".join(map(plugins.package_of, self.entry_points))
        return f"two packages declare it, {packages}"


def find_commands() -> dict[str, InstalledCommand]:
    """Returns every installed command by name, in the order of the help.

    Raises UsageError if there is none, because the harness itself is not installed.
    """
    entries = plugins.candidates(GROUP)
    if not entries:
        raise UsageError("no commands: install the harness (pip install -e .)")
    names = [*(name for name in _FIRST if name in entries), *sorted({*entries} - {*_FIRST})]
    return {name: InstalledCommand(name, entries[name]) for name in names}


def _docstring(module: str) -> str:
    """Returns the docstring of a module without importing it; empty if it has none."""
    spec = _find_without_import(module)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return ""
    with open(spec.origin, encoding="utf-8", errors="replace") as source:
        found = _DOCSTRING.match(source.read(10_000))
    return found[2] if found else ""


def _find_without_import(module: str) -> ModuleSpec | None:
    """Returns the spec of a module; unlike `find_spec` it imports no parent package."""
    top, *inner = module.split(".")
    spec = find_spec(top)
    name = top
    for part in inner:
        if spec is None or spec.submodule_search_locations is None:
            return None
        name = f"{name}.{part}"
        spec = PathFinder.find_spec(name, list(spec.submodule_search_locations))
    return spec
