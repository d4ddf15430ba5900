"""A small real HTTP server on loopback: a publisher's file server and a Hugging Face hub in one.

    with Loopback() as server:
        server.put("/files/a.bin", b"...")                          # server.url + "/files/a.bin"
        server.put_dataset("owner/name", "0123...", {"a.json": b"..."}, token="hf_x")

The file server knows ETag, Range and If-Range. The hub answers HEAD and GET of
/datasets/OWNER/NAME/resolve/REVISION/PATH (models: the same without /datasets) as huggingface.co
does: the commit, the ETag and the size in headers, a redirect to another origin (here: the same
server under its other name) for the bytes, 401 and GatedRepo without the right token,
EntryNotFound, RevisionNotFound, RepoNotFound.

What a test wants to go wrong is queued with `fail`; every request is kept in `requests`.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Self
from urllib.parse import unquote

RESOLVE = re.compile(
    r"/(?:datasets/)?(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<path>.+)"
)


@dataclass(frozen=True)
class Request:
    """One request as it came, and how many bytes of body were sent for it."""

    method: str
    path: str
    headers: Mapping[str, str]
    sent: list[int] = field(default_factory=list)

    @property
    def range(self) -> str | None:
        return self.headers.get("Range")


@dataclass(frozen=True)
class Failure:
    """What goes wrong with one GET: an error status, or a connection cut after some bytes."""

    status: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    cut_after: int | None = None


@dataclass(frozen=True)
class Repository:
    revision: str
    files: Mapping[str, bytes]
    token: str | None


class LocalServer:
    """A server on loopback while its context lasts; `url` is its address."""

    def __init__(
        self,
        handler: type[BaseHTTPRequestHandler],
        server: type[ThreadingHTTPServer] = ThreadingHTTPServer,
    ) -> None:
        self._server = server(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"


class Loopback(LocalServer):
    """The server. `url` is its address, and what HF_ENDPOINT is set to."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.repositories: dict[str, Repository] = {}
        self.failures: dict[str, list[Failure]] = defaultdict(list)
        self.requests: list[Request] = []
        self.ranges = True
        self.bytes_a_second = 0  # 0: as fast as it goes
        self.holds_after: int | None = None  # bytes of a file, after which it sends no more of it
        server = self

        class Bound(_Handler):
            loopback = server

        super().__init__(Bound)

    @property
    def other_origin(self) -> str:
        """The same server under another name: where a hub sends people for the bytes."""
        return f"http://localhost:{self._server.server_port}"

    def put(self, path: str, content: bytes) -> str:
        """Serve `content` at `path`; returns its address."""
        self.files[path] = content
        return self.url + path

    def put_dataset(
        self,
        repo: str,
        revision: str,
        files: Mapping[str, bytes],
        token: str | None = None,
    ) -> None:
        """Serve a dataset repository at one revision, with the hub's list of its files; with
        `token`, the files are gated to those who send it."""
        self.repositories[repo] = Repository(revision, files, token)
        tree = [
            {"type": "file", "path": name, "size": len(content), "oid": "0" * 40}
            | ({} if name == "README.md" else {"lfs": _pointer(content)})
            for name, content in files.items()
        ]
        path = f"/api/datasets/{repo}/tree/{revision}?recursive=true&expand=false"
        self.put(path, json.dumps(tree).encode())

    def put_model(self, repo: str, revision: str, files: Mapping[str, bytes]) -> None:
        """Serve a model repository at one revision, with the hub's lists of its files."""
        self.repositories[repo] = Repository(revision, files, None)
        names = [{"rfilename": name} for name in files]
        about = {"id": repo, "sha": revision, "siblings": names}
        self.put(f"/api/models/{repo}/revision/main", json.dumps(about).encode())
        tree = [
            {"type": "file", "path": name, "size": len(content), "oid": "0" * 40}
            for name, content in files.items()
        ]
        path = f"/api/models/{repo}/tree/{revision}?recursive=true&expand=false"
        self.put(path, json.dumps(tree).encode())

    def fail(self, path: str, *failures: Failure) -> None:
        """Let the next GETs of `path` go wrong, one after the other."""
        self.failures[path].extend(failures)

    def asked(self, path: str, method: str = "GET") -> list[Request]:
        """The requests for `path`, in their order."""
        return [r for r in self.requests if (r.method, r.path) == (method, path)]


def _pointer(content: bytes) -> dict[str, object]:
    """What the hub tells of a file that it keeps apart."""
    return {"oid": _sha256(content), "size": len(content), "pointerSize": 1}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    loopback: Loopback
    request_seen: Request

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self) -> None:
        path = unquote(self.path)
        self.request_seen = Request(self.command, path, dict(self.headers))
        self.loopback.requests.append(self.request_seen)
        queue = self.loopback.failures[path] if self.command == "GET" else []
        failure = queue.pop(0) if queue else Failure()
        if failure.status:
            self._end(failure.status, failure.headers)
        elif match := RESOLVE.fullmatch(path):
            self._resolve(**match.groupdict())
        elif path.startswith("/lfs/"):
            by_hash = {
                _sha256(content): content
                for repository in self.loopback.repositories.values()
                for content in repository.files.values()
            }
            self._file(by_hash.get(path.removeprefix("/lfs/")), failure)
        else:
            self._file(self.loopback.files.get(path), failure)

    def _resolve(self, repo: str, revision: str, path: str) -> None:
        repository = self.loopback.repositories.get(repo)
        if repository is None:
            self._end(401, {"X-Error-Code": "RepoNotFound"})
        elif revision not in (repository.revision, "main"):
            self._end(404, {"X-Error-Code": "RevisionNotFound"})
        elif path not in repository.files:
            headers = {"X-Error-Code": "EntryNotFound", "X-Repo-Commit": repository.revision}
            self._end(404, headers)
        elif repository.token and self.headers["Authorization"] != f"Bearer {repository.token}":
            self._end(401, {"X-Error-Code": "GatedRepo", "X-Repo-Commit": repository.revision})
        else:
            content = repository.files[path]
            self._end(
                302,
                {
                    "Location": f"{self.loopback.other_origin}/lfs/{_sha256(content)}",
                    "X-Repo-Commit": repository.revision,
                    "X-Linked-ETag": f'"{_sha256(content)}"',
                    "X-Linked-Size": str(len(content)),
                },
            )

    def _file(self, content: bytes | None, failure: Failure) -> None:
        if content is None:
            self._end(404, {})
            return
        etag = f'"{_sha256(content)[:16]}"'
        start = self._start(etag)
        if start is not None and start >= len(content):
            self._end(416, {"Content-Range": f"bytes */{len(content)}"})
            return
        body = content[start or 0 :]
        headers = {"ETag": etag, "Content-Length": str(len(body))}
        if self.loopback.ranges:
            headers["Accept-Ranges"] = "bytes"
        if start is not None:
            headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        self.send_response(200 if start is None else 206)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self._send(body, failure.cut_after)

    def _start(self, etag: str) -> int | None:
        """First byte asked for with `Range: bytes=N-`, where this server heeds it."""
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers["Range"] or "")
        if asked is None or not self.loopback.ranges:
            return None
        same = self.headers["If-Range"] in (None, etag)
        return int(asked[1]) if same else None

    def _send(self, body: bytes, cut_after: int | None) -> None:
        body = body if cut_after is None else body[:cut_after]
        most = self.loopback.holds_after
        body, holds = body[:most], most is not None and most < len(body)
        speed = self.loopback.bytes_a_second
        step = speed // 20 or len(body) or 1
        try:
            for at in range(0, len(body), step):
                self.wfile.write(body[at : at + step])
                self.request_seen.sent.append(len(body[at : at + step]))
                if speed:
                    time.sleep(1 / 20)
            if holds:
                self.rfile.read(1)  # until the client has gone
        except OSError:  # the client has gone
            self.close_connection = True
        if cut_after is not None or holds:
            self.close_connection = True

    def _end(self, status: int, headers: Mapping[str, str]) -> None:
        """An answer without a body."""
        self.send_response(status)
        for name, value in {"Content-Length": "0", **headers}.items():
            self.send_header(name, value)
        self.end_headers()


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
