"""The page of a monitor, its numbers as JSON, and /metrics; to this machine alone."""

from __future__ import annotations

from collections.abc import Callable
from http.server import ThreadingHTTPServer
from typing import Any

from harness.live.logs.read import Tally
from harness.live.monitor.monitor import Monitor
from harness.live.monitor.prometheus import CONTENT_TYPE, exposition
from harness.pages import local_server
from harness.pages.html import ASSETS, VENDOR, page
from harness.pages.local_server import HTML, Answer, Request, as_json
from harness.pages.report import LIBRARIES

_OWN = ASSETS / "monitor"
_SHARED = ASSETS / "shared"


def monitor_page(data: dict[str, Any], *, live: bool = True) -> bytes:
    """One self-contained file; `live`: it asks the server that it came from for news."""
    scripts = [_SHARED / "page.js", _SHARED / "charts.js"]
    scripts += [_OWN / name for name in ("window.js", "over_time.js", "monitor.js")]
    return page(
        f"{data['name']}: recalls",
        _OWN / "monitor.html",
        data,
        styles=[_SHARED / "colours.css", _SHARED / "page.css", _OWN / "monitor.css"],
        scripts=scripts,
        libraries=[(VENDOR / code, VENDOR / f"{name}-LICENSE.txt") for code, name in LIBRARIES],
        live=live,
    )


def server(
    monitor: Monitor,
    port: int,
    *,
    name: str = "monitor",
    tally: Tally | None = None,
    notes: Callable[[], list[str]] = list,
) -> ThreadingHTTPServer:
    """A server on 127.0.0.1, listening already: /, /state.json and /metrics.

    Raises OSError for a port that is taken. No text of a query is in any answer.
    """

    def state() -> dict[str, Any]:
        log = None if tally is None else {**tally.as_json(), "first": tally.first_place}
        return {"name": name, **monitor.snapshot(), "log": log, "notes": notes()}

    def answer(request: Request) -> Answer | None:
        if request.method != "GET":
            return None
        if request.path == "/":
            return Answer(monitor_page(state()), HTML)
        if request.path == "/state.json":
            return as_json(state())
        if request.path == "/metrics":
            return Answer(exposition(monitor, tally), CONTENT_TYPE)
        return None

    return local_server.server(answer, port)
