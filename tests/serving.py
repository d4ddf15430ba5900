"""A retriever as a service on loopback, that answers by a function."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Message = dict[str, Any]
Reply = tuple[int, Message] | tuple[int, Message, dict[str, str]]
"""Status, content, and further headers."""


@contextmanager
def serving(answer: Callable[[Message], Reply]) -> Iterator[tuple[str, list[Message]]]:
    """A service on loopback that answers by a function; gives its url and what it was told."""
    told: list[Message] = []

    class Service(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16

        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            told.append({"path": self.path, "token": self.headers["Authorization"], **message})
            status, reply, *headers = answer(message)
            if status == 0:  # the line goes dead
                self.close_connection = True
                return
            body = json.dumps(reply).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            for name, value in headers[0].items() if headers else ():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", told
    finally:
        server.shutdown()
        server.server_close()
