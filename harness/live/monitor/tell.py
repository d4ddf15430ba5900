"""Tells of an alarm: on the terminal, and to a command of the user's."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable

from harness.errors import UsageError
from harness.live.monitor.monitor_alerts import Alert
from harness.live.monitor.table import alert_line

_SECONDS = 30


def teller(command: str | None, *, quiet: bool) -> Callable[[Alert], None]:
    """What is called with each alarm: prints it to stderr, and hands it to `command` as JSON.

    Raises UsageError for a command that cannot be taken apart. One that fails is said, and no
    reason to stop.
    """
    try:
        words = shlex.split(command) if command is not None else []
    except ValueError as error:
        raise UsageError(f"--on-alert {command!r}: {error}") from None
    if command is not None and not words:
        raise UsageError("--on-alert: the command is empty")

    def tell(alert: Alert) -> None:
        if not quiet:
            print(alert_line(alert), file=sys.stderr, flush=True)
        if words:
            _hand(words, alert)

    return tell


def _hand(words: list[str], alert: Alert) -> None:
    import orjson

    try:
        done = subprocess.run(
            words, input=orjson.dumps(alert), timeout=_SECONDS, capture_output=True
        )
        said = ""
        if done.returncode:
            lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
            why = f": {lines[-1]}" if lines else ""
            said = f"ended with status {done.returncode}{why}"
    except subprocess.TimeoutExpired:
        said = f"took longer than {_SECONDS} s and was stopped"
    except OSError as error:
        said = f"could not be started ({error.strerror})"
    if said:
        print(f"warning: --on-alert {words[0]} {said}", file=sys.stderr, flush=True)
