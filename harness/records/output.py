"""The base of what `--json` prints: a record for each kind of output."""

from __future__ import annotations

from harness.io.records import Record


class OutputPart(Record, forbid_unknown_fields=False, omit_defaults=False):
    """An object inside an output; members may be added."""


class Output(OutputPart, tag_field="schema"):
    """What a command prints with `--json`: one object on one line.

    The tag of a kind is its member `schema`, as `harness.runs/1`. Members may be added, so readers
    ignore those that they do not know; the number at the end is raised when a member is taken away
    or means something else.
    """
