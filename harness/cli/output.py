"""What every command prints in one way: JSON of one form, and options that would be ignored."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from harness.errors import UsageError
from harness.records.base import Record, to_plain


def add_output(parser: argparse.ArgumentParser) -> None:
    """`--json` and `--quiet`, which every command has."""
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object (its form: output.schema.json)"
    )
    parser.add_argument(
        "--quiet", action="store_true", help="print errors alone: no tables, notes or bars"
    )


def print_json(
    kind: str, value: Mapping[str, object], *, default: Callable[[Any], Any] = str
) -> None:
    """Print one object on one line, whose `schema` says of what kind it is.

    The kinds are those of `output.schema.json` beside this file; NaN is null in them.
    """
    import orjson

    options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS

    def plain(one: Any) -> Any:
        return to_plain(one) if isinstance(one, Record) else default(one)

    line = orjson.dumps({"schema": f"harness.{kind}/1", **value}, default=plain, option=options)
    print(line.decode(), flush=True)


@contextmanager
def until_ctrl_c(options: argparse.Namespace) -> Iterator[None]:
    """Whatever serves in here ends with Ctrl-C as it should, from its first line on: status 0."""
    try:
        yield
    except KeyboardInterrupt:
        if not (options.json or options.quiet):
            print()  # the line after ^C


def refuse(options: argparse.Namespace, why: str, *names: str, **defaults: Any) -> None:
    """Raises UsageError for options that were given and would change nothing.

    `names` are options that are None, False or empty where they are not given; `defaults` are
    others, with the value that they then have. `why`: what they do not go with.
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
            f"{said} {'is' if one else 'are'} of no use {why}; leave {'it' if one else 'them'} out"
        )
