"""The JSON output of commands: its schema, and the scores in it."""

from __future__ import annotations

from typing import Any

from harness.io.records import Output, convert
from harness.records.scores import ProtocolResult, ScoreReport


def protocols(scores: Any) -> list[ProtocolResult]:
    """The results of scores.json, or of `scores` in the output of a command."""
    return convert(scores, ScoreReport, "scores").protocols


_MODULES = (
    *("harness.cli.suite", "harness.cli.run_summary"),
    "harness.extensions.answers.command_output",
    "harness.extensions.answers.commands.semantic",
    "harness.extensions.labelling.reports",
    "harness.extensions.online.monitor.records",
    "harness.extensions.site.nightly.summary",
)
"""Modules with output types, in addition to the commands; those of extensions if installed."""


def output_schema() -> dict[str, Any]:
    """Generates the JSON Schema of the `--json` output of all commands."""
    import inspect
    from functools import reduce
    from importlib import import_module
    from operator import or_

    from harness.cli.parser import find_commands
    from harness.io.packages import is_installed
    from harness.io.records import json_schema

    for module in filter(is_installed, _MODULES):
        import_module(module)
    for command in find_commands().values():
        command.load()
    schema = json_schema(reduce(or_, Output.__subclasses__()), "What --json prints")
    return {**schema, "description": inspect.getdoc(Output)}
