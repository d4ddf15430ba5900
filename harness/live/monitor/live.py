"""Follows a log until it is stopped, with a table that is drawn again and a server beside it."""

from __future__ import annotations

import signal
import sys
import time
from http.server import ThreadingHTTPServer
from threading import Event, Thread
from typing import Any

from harness.live.monitor.follow import Follower
from harness.live.monitor.table import line, table

_POLL = 0.5  # seconds between two looks at the log
_DRAW = 2.0  # between two tables
_SAY = 60.0  # between two lines, where there is no terminal
_SAVE = 5.0


def follow(
    follower: Follower,
    serving: ThreadingHTTPServer,
    address: str,
    *,
    quiet: bool = False,
    json: bool = False,
) -> None:
    """Read on, draw and save until Ctrl-C or SIGTERM; then save once more."""
    stop = Event()
    before = {
        number: signal.signal(number, lambda *_: stop.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    thread = Thread(target=serving.serve_forever, args=(0.1,), daemon=True)
    thread.start()
    print(f"{address} and {address}metrics (Ctrl-C ends it)", flush=True)
    screen = sys.stdout.isatty() and not (quiet or json)
    drawn = said = saved = 0.0
    try:
        while not stop.is_set():
            follower.read()
            now = time.monotonic()
            if screen and now - drawn >= _DRAW:
                drawn = now
                print(f"\x1b[H\x1b[J{address}\n\n{table(follower.monitor.snapshot())}", flush=True)
            elif not screen and now - said >= _SAY and follower.tally.recalls:
                said = now
                _print(follower.monitor.snapshot(), quiet=quiet, json=json)
            else:
                follower.monitor.settle()
            if now - saved >= _SAVE:
                saved = now
                follower.monitor.save()
            stop.wait(_POLL)
    finally:
        follower.monitor.close()
        serving.shutdown()
        serving.server_close()
        for number, handler in before.items():
            signal.signal(number, handler)


def _print(snapshot: dict[str, Any], *, quiet: bool, json: bool) -> None:
    if json:
        import orjson

        print(orjson.dumps(snapshot).decode(), flush=True)
    elif not quiet:
        print(line(snapshot), flush=True)
