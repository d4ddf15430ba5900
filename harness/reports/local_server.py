"""A small HTTP server for this machine only, built from a function from requests to responses.

It listens on 127.0.0.1. A request with a Host other than this server's address is refused, which
prevents DNS rebinding: other sites cannot read the responses. A POST must be JSON from a page of
this server (by its Origin), so other sites cannot write either. Nothing is cached, framed, or
logged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from harness.errors import HarnessError

HTML, JSON, TEXT = "text/html; charset=utf-8", "application/json", "text/plain; charset=utf-8"

MOST_BYTES = 1 << 20
"""The default limit for the body of a POST, in bytes."""


@dataclass(frozen=True)
class Request:
    """An HTTP request. `path` is that of the address, without `?` and what follows.

    `query` is the part after `?`, `body` the JSON of a POST (None for a GET). HEAD counts as GET.
    """

    method: str
    path: str
    query: str = ""
    body: Any = None


@dataclass(frozen=True)
class Response:
    """An HTTP response."""

    body: bytes
    kind: str = HTML
    status: int = HTTPStatus.OK


def as_json(value: Any, status: int = HTTPStatus.OK) -> Response:
    """Returns a response with `value` as JSON."""
    import orjson

    return Response(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY), JSON, status)


def as_text(words: str, status: int = HTTPStatus.OK) -> Response:
    """Returns a response of plain text."""
    return Response(f"{words}\n".encode(), TEXT, status)


def server(
    answer: Callable[[Request], Response | None], port: int, *, most_bytes: int = MOST_BYTES
) -> ThreadingHTTPServer:
    """Returns a server that listens on 127.0.0.1; `serve_forever` answers, port 0 is a free one.

    `answer` is called in a thread for each request. None is sent as 404, a HarnessError as 409 with
    its message. Raises OSError for a port in use.
    """
    return _Server(answer, port, most_bytes)


class _Server(ThreadingHTTPServer):
    """Passes `answer` to its handlers."""

    daemon_threads = True

    def __init__(
        self, answer: Callable[[Request], Response | None], port: int, most_bytes: int
    ) -> None:
        self.answer, self.most_bytes = answer, most_bytes
        super().__init__(("127.0.0.1", port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores errors of browsers that disconnected before the response, and of connections that
        are closed because the server ends."""
        import errno
        import sys

        error = sys.exception()
        closed = isinstance(error, OSError) and error.errno == errno.EBADF
        if not (isinstance(error, ConnectionError) or closed):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    """Checks requests and sends responses."""

    server: _Server
    timeout = 60  # seconds for a request that is not sent to its end

    def do_GET(self) -> None:
        """Sends the response for the address."""
        self._send(self._refused() or self._answered("GET", None))

    do_HEAD = do_GET  # noqa: N815

    def do_POST(self) -> None:
        """Accepts JSON from a page of this server."""
        # Always read it: closing a connection with an unread body loses the response.
        data = self._body()
        refused = self._refused() or self._foreign()
        if refused is None and data is None:
            most = self.server.most_bytes
            words = f"a body of 1 to {most} bytes was expected, with its Content-Length"
            refused = as_text(words, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        if refused is None and data is not None:
            import orjson

            try:
                refused = self._answered("POST", orjson.loads(data))
            except orjson.JSONDecodeError as error:
                refused = as_text(f"the body is not JSON ({error})", HTTPStatus.BAD_REQUEST)
        self._send(refused)

    def _refused(self) -> Response | None:
        """Refuses requests that use another host name for this server."""
        if self.headers.get("Host") in self._own_names():
            return None
        return as_text("not asked for by this server's address", HTTPStatus.FORBIDDEN)

    def _foreign(self) -> Response | None:
        """Refuses requests from other sites, which can post forms but not JSON from this origin."""
        if self.headers.get("Origin") != f"http://{self.headers.get('Host')}":
            return as_text("not sent by a page of this server", HTTPStatus.FORBIDDEN)
        if self.headers.get_content_type() != JSON:
            return as_text("JSON was expected", HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        return None

    def _own_names(self) -> tuple[str, str]:
        own = self.server.server_port
        return f"127.0.0.1:{own}", f"localhost:{own}"

    def _body(self) -> bytes | None:
        """Returns the body; None if it has no length, one beyond the limit, or ends early."""
        said = self.headers.get("Content-Length", "")
        length = int(said) if said.isascii() and said.isdecimal() and len(said) < 12 else 0
        if not 0 < length <= self.server.most_bytes:
            return None
        data = self.rfile.read(length)
        return data if len(data) == length else None

    def _answered(self, method: str, body: Any) -> Response | None:
        parts = urlsplit(self.path)
        try:
            return self.server.answer(Request(method, parts.path, parts.query, body))
        except HarnessError as error:
            return as_text(str(error), HTTPStatus.CONFLICT)

    def _send(self, answer: Response | None) -> None:
        if answer is None:
            answer = as_text("no such page", HTTPStatus.NOT_FOUND)
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.kind)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Cross-Origin-Resource-Policy", "same-origin")
        self.send_header("Content-Security-Policy", "frame-ancestors 'none'")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)

    def log_message(self, format: str, *args: Any) -> None:
        """Logs nothing: pages poll every few seconds."""
