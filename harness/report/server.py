"""Boards and reports over HTTP, to this machine alone.

A request names a run, never a path: names are looked up among the runs that there are, so nothing
outside the folder can be asked for. Other sites cannot read the answers: a request whose Host is
not this server's address is refused, which is what stops DNS rebinding.
"""

from __future__ import annotations

import hashlib
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import unquote, urlsplit

import orjson

from harness.board.page import board_page, page_data
from harness.errors import UsageError
from harness.report.data import report_data
from harness.report.page import report_page
from harness.report.watch import Results
from harness.results.dataset_of_run import dataset_of_run

_HTML, _JSON, _TEXT = "text/html; charset=utf-8", "application/json", "text/plain; charset=utf-8"


class Pages:
    """The answer to each address. Pages are made once for every state of the folder."""

    def __init__(self, results: Path) -> None:
        self._results = Results(results)
        self._reports: dict[str, tuple[Any, bytes]] = {}
        self._lock = Lock()

    def get(self, path: str) -> tuple[str, bytes] | None:
        """Type and body; None for an address that there is not. Raises UsageError as reports do."""
        with self._lock:  # one at a time: they share what is read
            if path == "/":
                return _HTML, board_page(self._results.leaderboard(), live=True)
            if path == "/state.json":
                return _JSON, orjson.dumps(self._state())
            if path == "/board.json":
                return _JSON, orjson.dumps(page_data(self._results.leaderboard()))
            if path == "/leaderboard.json":
                return _JSON, orjson.dumps(self._results.leaderboard())
            if path.startswith("/runs/") and path.endswith("/"):
                return self._report(unquote(path.removeprefix("/runs/").removesuffix("/")))
            return None

    def _state(self) -> dict[str, Any]:
        version = hashlib.sha256(repr(self._results.version()).encode()).hexdigest()[:16]
        return {"version": version, "running": self._results.unfinished()}

    def _report(self, name: str) -> tuple[str, bytes] | None:
        folder = self._results.runs().get(name)
        if folder is None:
            return None
        state = tuple((folder / file).stat().st_mtime_ns for file in ("run.json", "scores.json"))
        if name not in self._reports or self._reports[name][0] != state:
            page = report_page(report_data([folder], dataset_of_run(folder)))
            self._reports[name] = (state, page)
        return _HTML, self._reports[name][1]


def server(results: Path, port: int) -> ThreadingHTTPServer:
    """A server of the runs below `results` on 127.0.0.1, listening already.

    Raises OSError for a port that is taken.
    """
    pages = Pages(results)

    class Handler(BaseHTTPRequestHandler):
        """Answers GET and HEAD."""

        def do_GET(self) -> None:
            """Send what stands at the address."""
            own = serving.server_port
            if self.headers.get("Host") not in (f"127.0.0.1:{own}", f"localhost:{own}"):
                self._send(HTTPStatus.FORBIDDEN, _TEXT, b"not asked for by this server's address\n")
                return
            try:
                found = pages.get(urlsplit(self.path).path)
            except UsageError as error:
                self._send(HTTPStatus.CONFLICT, _TEXT, f"{error}\n".encode())
                return
            if found is None:
                self._send(HTTPStatus.NOT_FOUND, _TEXT, b"no such page\n")
            else:
                self._send(HTTPStatus.OK, *found)

        do_HEAD = do_GET  # noqa: N815

        def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Cross-Origin-Resource-Policy", "same-origin")
            self.send_header("Content-Security-Policy", "frame-ancestors 'none'")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing: the page asks every two seconds."""

    serving = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    serving.daemon_threads = True
    return serving
