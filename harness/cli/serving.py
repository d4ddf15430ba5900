"""Commands that serve a page until Ctrl-C."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from harness.errors import UsageError

Server = TypeVar("Server")


def check_port(port: int | None) -> None:
    """Raises UsageError for an invalid `--port`; None is valid."""
    if port is not None and not 0 <= port < 1 << 16:
        raise UsageError(f"--port must be from 0 to 65535, not {port}")


def serve_on_free_port(serve: Callable[[int], Server], *ports: int) -> Server:
    """Returns the result of `serve` for the first port that is free. Raises UsageError."""
    for port in ports:
        try:
            return serve(port)
        except OSError as error:
            why = error.strerror
    raise UsageError(f"--port {ports[-1]}: cannot be listened on ({why}); name another")


@contextmanager
def until_ctrl_c(options: argparse.Namespace) -> Iterator[None]:
    """Ends the block at Ctrl-C without an error, so that a server's command has status 0."""
    try:
        yield
    except KeyboardInterrupt:
        if not (options.json or options.quiet):
            print()  # the line after ^C
