"""The commands in the table of what a newcomer runs with one command are right."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from typing import Any

import pytest
from docs_commands import the_parser
from places import ROOT

_ROW = re.compile(
    r"^\| (?P<what>[^|]+) \| [^|`]*`harness (?P<command>[^`]+)` \| (?P<needs>[^|]+) \|$"
)


def rows() -> list[re.Match[str]]:
    """The rows of the table below "One command each"."""
    _, _, text = (ROOT / "docs/how-to/index.md").read_text().partition("**One command each**")
    found = map(_ROW.match, text.split("\n\n")[1].splitlines()[2:])
    return [row for row in found if row is not None]


def test_every_row_has_a_command_that_parses() -> None:
    assert len(rows()) == 10
    for row in rows():
        assert the_parser().parse_args(shlex.split(row["command"]))


@pytest.mark.parametrize(
    "command", [row["command"] for row in rows() if row["needs"] == "-"], ids=lambda one: one[:24]
)
def test_a_command_that_needs_nothing_runs(harness: Callable[..., Any], command: str) -> None:
    told = harness(*shlex.split(command))
    assert told.status == 0, told
