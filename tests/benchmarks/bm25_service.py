"""A service with bm25s behind it, for load.md: `python tests/benchmarks/bm25_service.py PORT`."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import bm25s


class Service(BaseHTTPRequestHandler):
    """Answers /reset, /index and /search."""

    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16
    documents: list[dict[str, Any]] = []  # noqa: RUF012 - the service holds one haystack
    index: Any = None

    def do_POST(self) -> None:
        """Answers a message."""
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body = json.dumps(self._reply(message)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _reply(self, message: dict[str, Any]) -> dict[str, Any]:
        held = Service.documents
        if message["type"] == "reset":
            held.clear()
        elif message["type"] == "index":
            held += message["documents"]
            if message["last"]:
                Service.index = bm25s.BM25()
                Service.index.index(_words([one["text"] for one in held]), show_progress=False)
        elif message["type"] == "search":
            return {"results": [self._hits(query, message["k"]) for query in message["queries"]]}
        return {}

    def _hits(self, query: dict[str, Any], k: int) -> dict[str, Any]:
        held = Service.documents
        found, scores = Service.index.retrieve(
            _words([query["text"]]), k=min(k, len(held)), show_progress=False
        )
        pairs = zip(found[0], scores[0], strict=True)
        return {"hits": [{"id": held[i]["id"], "score": float(score)} for i, score in pairs]}

    def log_message(self, *_: Any) -> None:
        """Prints nothing."""


def _words(texts: list[str]) -> Any:
    return bm25s.tokenize(texts, show_progress=False)


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Service).serve_forever()
