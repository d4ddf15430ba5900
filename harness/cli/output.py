"""What every command prints in one way: JSON of one form, and options that would be ignored."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from harness.errors import UsageError
from harness.io.masking import redact_in
from harness.io.records import Output, OutputPart, Record, encode, to_plain
from harness.io.terminal import SafeStream


class PerformedCheck(OutputPart):
    """A check and its finding; `ok` is null if it was not made."""

    what: str
    ok: bool | None
    message: str


def add_output(parser: argparse._ActionsContainer) -> None:
    """Adds `--json` and `--quiet`, which every command has."""
    parser.add_argument("--json", action="store_true", help="print the result as one line of JSON")
    parser.add_argument("--quiet", action="store_true", help="print errors only")


def print_json(output: Output) -> None:
    """Prints an output as one line of JSON, with secrets masked; NaN is null in it."""
    line = encode(redact_in(to_plain(output))).decode()
    if isinstance(sys.stdout, SafeStream):  # it would mask the line again, with its quotes
        sys.stdout.write(line, str)
        line = ""
    print(line, flush=True)


def emit(options: argparse.Namespace, output: Output, text: str | Callable[[], str]) -> int:
    """Prints an output: JSON with `--json`, nothing with `--quiet`, else the text or its result.

    Returns 0, the exit status of success.
    """
    if options.json:
        print_json(output)
    elif not options.quiet and (said := text if isinstance(text, str) else text()):
        print(said)
    return 0


def plain(value: Any) -> Any:
    """Converts dataclasses, records, arrays, sets and paths to plain JSON values; NaN is None."""
    import orjson

    def default(one: Any) -> Any:
        if isinstance(one, Record):
            return to_plain(one)
        return sorted(one) if isinstance(one, frozenset) else str(one)

    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
    return orjson.loads(orjson.dumps(value, default=default, option=options))


def refuse(options: argparse.Namespace, why: str, *names: str, **defaults: Any) -> None:
    """Raises UsageError for options that were given but would change nothing.

    `names` are options that are None, False or empty if not given; `defaults` are others, with
    their default. `why`: the reason, as in "without --queries".
    """
    values = {**dict.fromkeys(names), **defaults}
    given = [
        name
        for name, left in values.items()
        if (found := getattr(options, name, None)) != left and found not in (None, False, [])
    ]
    if given:
        said, one = ", ".join(f"--{name.replace('_', '-')}" for name in given), len(given) == 1
        raise UsageError(
            f"{said} {'has' if one else 'have'} no effect {why}; remove {'it' if one else 'them'}"
        )
