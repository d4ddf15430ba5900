"""Print a shell completion script.

Complete commands, options, runs and datasets with argcomplete (extra: completion). For bash:
eval "$(harness completion bash)" in ~/.bashrc; the same for zsh; for fish: harness completion fish
> ~/.config/fish/completions/harness.fish
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from harness.cli.output import add_output, emit
from harness.io.records import Output

_SHELLS = ("bash", "zsh", "fish")


class CompletionOutput(Output, tag="harness.completion/1"):
    """harness completion."""

    shell: str
    script: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments and options."""
    parser.add_argument("shell", choices=_SHELLS)
    add_output(parser)


def main(options: argparse.Namespace) -> int:
    """Prints the script."""
    from harness.io.packages import require_packages

    require_packages("harness completion", "argcomplete")

    from argcomplete.shell_integration import shellcode

    script = shellcode(["harness"], shell=options.shell)
    return emit(options, CompletionOutput(shell=options.shell, script=script), script)


def complete(parser: argparse.ArgumentParser) -> None:
    """Answers the shell's request in environment variables; does not return."""
    import argcomplete

    for action in _actions(parser):
        for names, found in _BY_NAME.items():
            if action.dest in names:
                action.completer = found  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser)


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yields every argument of every command."""
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)


def _runs(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Returns the names and the folders of runs."""
    from harness.runs.folder.listing import list_runs

    results = Path(getattr(parsed_args, "results", None) or "results")
    runs = list_runs(results) if results.is_dir() else []
    return [name for run in runs for name in dict.fromkeys((run.name, str(run.folder)))]


def _datasets(**_: Any) -> list[str]:
    from harness.datasets.registry import iter_configs

    return [name for name, _ in iter_configs()]


def _retrievers(**_: Any) -> list[str]:
    from harness.retrievers.registry import names

    return [*names(), *(path.stem for path in Path().glob("*.py"))]


_BY_NAME: dict[tuple[str, ...], Callable[..., list[str]]] = {
    ("run", "runs", "baseline"): _runs,
    ("dataset",): _datasets,
    ("retriever",): _retrievers,
}
