"""A plain server of files on loopback, as GitHub Pages is one, for sites that are published."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import urlopen


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serves what is beside `folder` too; gives the address of `folder`, which is not its top."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(folder.parent))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/{folder.name}/"
        server.shutdown()


def fetch(address: str) -> bytes:
    """The bytes at an address. Raises HTTPError where there are none."""
    with urlopen(address) as answer:
        body: bytes = answer.read()
    return body
